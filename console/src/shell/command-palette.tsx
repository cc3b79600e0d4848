import { Autocomplete } from '@base-ui/react/autocomplete';
import { Dialog } from '@base-ui/react/dialog';
import { Search } from 'lucide-react';
import { useMemo, useState } from 'react';
import { useLocation } from 'wouter';
import { useDocument } from '../api/document.ts';
import { useRead } from '../api/queries.ts';
import { guidesOf } from '../components/guide-pages.ts';
import { groupsOf } from '../api/operations.ts';
import { useAccount, useHrefWithAccount } from '../state/account.ts';
import { useAccountChoices } from './account-switch.tsx';
import { matchesCommand, type Command, type CommandGroup } from './commands.ts';
import { ShortcutKeys } from '../components/shortcut-keys.tsx';
import { menuOf } from '../pages.tsx';
import { useAccountStatus, useSession } from '../state/session.tsx';
import { useSignOut } from './user-menu.tsx';

interface CommandPaletteProps {
  onClose: () => void;
  onShortcuts: () => void;
}

/** The command menu: pages, actions, accounts, models, API operations and guides, filtered as the user types. */
export default function CommandPalette({ onClose, onShortcuts }: CommandPaletteProps) {
  const [text, setText] = useState('');
  const commands = useCommands(onShortcuts);
  const found = useFound(text.trim());
  const groups = [...commands, ...found].filter(({ items }) => items.length > 0);
  return (
    <Dialog.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="fixed inset-0 z-40 bg-backdrop" />
        <Dialog.Popup
          aria-label="Command menu"
          className="fixed inset-x-4 top-[min(14vh,8rem)] z-40 mx-auto flex max-h-[min(32rem,72dvh)] max-w-xl flex-col overflow-hidden rounded-xl border border-line bg-raised shadow-popup outline-none"
        >
          <Autocomplete.Root
            open
            inline
            items={groups}
            value={text}
            onValueChange={setText}
            autoHighlight="always"
            keepHighlight
            filter={matchesCommand}
            itemToStringValue={({ label }) => label}
          >
            <div className="flex items-center gap-3 border-b border-line px-4">
              <Search className="size-4 shrink-0 text-ink-3" />
              <Autocomplete.Input
                aria-label="Search pages and commands"
                placeholder="Search pages, keys, models, request IDs and guides"
                className="h-12 min-w-0 flex-1 bg-transparent text-sm outline-none placeholder:text-ink-3"
              />
              <Dialog.Close className="rounded">
                <span className="sr-only">Close </span>
                <ShortcutKeys keys="Esc" />
              </Dialog.Close>
            </div>
            <Autocomplete.Empty>
              <p className="px-4 py-8 text-center text-sm text-ink-3 empty:hidden">
                No matches. Try a page, a key, a model, a request ID or a topic.
              </p>
            </Autocomplete.Empty>
            <Autocomplete.List className="min-h-0 flex-1 overflow-y-auto overscroll-contain p-1.5 empty:hidden">
              {(group: CommandGroup) => (
                <Autocomplete.Group key={group.label} items={group.items} className="not-last:mb-1.5">
                  <Autocomplete.GroupLabel className="px-2.5 py-1 text-2xs font-medium text-ink-3">
                    {group.label}
                  </Autocomplete.GroupLabel>
                  <Autocomplete.Collection>
                    {(command: Command) => (
                      <Autocomplete.Item
                        key={command.value}
                        value={command}
                        onClick={() => {
                          onClose();
                          command.run();
                        }}
                        className="flex min-h-9 cursor-default items-center justify-between gap-4 rounded-md px-2.5 py-1.5 text-sm outline-none select-none data-highlighted:bg-hover"
                      >
                        <span className="min-w-0 truncate">{command.label}</span>
                        {command.hint !== undefined && (
                          <span className="shrink-0 text-xs text-ink-3">{command.hint}</span>
                        )}
                      </Autocomplete.Item>
                    )}
                  </Autocomplete.Collection>
                </Autocomplete.Group>
              )}
            </Autocomplete.List>
          </Autocomplete.Root>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function useCommands(onShortcuts: () => void): CommandGroup[] {
  const { user } = useSession();
  const account = useAccount();
  const mayCreate = useAccountStatus(account?.id) === 'active';
  const { accounts, choose } = useAccountChoices();
  const href = useHrefWithAccount();
  const [, navigate] = useLocation();
  const signOut = useSignOut();
  const models = useRead('listServedModels', undefined).data;
  const document = useDocument().data;
  const operations = useMemo(() => (document === undefined ? [] : groupsOf(document)), [document]);
  const go = (to: string) => () => navigate(href(to));
  const pages = menuOf(user).flatMap(({ label, entries }) =>
    entries.map((entry) => ({
      value: `page ${entry.to}`,
      label: entry.label,
      hint: label ?? undefined,
      run: go(entry.to),
    })),
  );
  const groups: CommandGroup[] = [
    {
      label: 'Pages',
      items: [...pages, { value: 'page /settings', label: 'Settings', run: go('/settings') }],
    },
    {
      label: 'Actions',
      items: [
        ...(mayCreate ? [{ value: 'create key', label: 'Create API key', run: go('/keys?create=1') }] : []),
        { value: 'shortcuts', label: 'Keyboard shortcuts', keywords: 'keys help', run: onShortcuts },
        {
          value: 'sign out',
          label: 'Sign out',
          keywords: 'log out',
          run: signOut,
        },
      ],
    },
    {
      label: 'Switch account',
      items: accounts
        .filter(({ id }) => id !== account?.id)
        .map(({ id, name }) => ({
          value: `account ${id}`,
          label: name,
          keywords: 'account',
          run: () => choose(id),
        })),
    },
    {
      label: 'Models',
      items: (models?.data ?? []).map(({ id }) => ({
        value: `model ${id}`,
        label: id,
        hint: 'Try in playground',
        run: go(`/playground?model=${encodeURIComponent(id)}`),
      })),
    },
    {
      label: 'Guides',
      items: guidesOf(user)
        .flatMap(({ pages }) => pages)
        .map(({ slug, title }) => ({
          value: `guide ${slug}`,
          label: title,
          keywords: 'documentation docs',
          run: go(`/docs/guide/${slug}`),
        })),
    },
    {
      label: 'API reference',
      items: operations.flatMap(({ entries }) =>
        entries.map(({ id, title, method, path }) => ({
          value: `operation ${id}`,
          label: title,
          hint: `${method} ${path}`,
          run: go(`/docs/${id}`),
        })),
      ),
    },
  ];
  return groups;
}

/** A request ID, also within the ID of a completion. */
const REQUEST_ID = /[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}/i;

/** The length from which a text is searched for in names. */
const MIN_SEARCH = 2;

/** Keys and accounts by name or ID, and the request with an ID. */
function useFound(text: string): CommandGroup[] {
  const { user } = useSession();
  const account = useAccount();
  const [, navigate] = useLocation();
  const href = useHrefWithAccount();
  const enabled = text.length >= MIN_SEARCH;
  const ofAccount = { query: { account_id: account?.id ?? '', limit: 1000 } };
  const keys = useRead('listKeys', ofAccount, { enabled: enabled && account !== null }).data;
  const accounts = useRead('listAccounts', { query: { limit: 1000 } }, { enabled: enabled && user.operator });
  if (!enabled) return [];
  const request = REQUEST_ID.exec(text)?.[0];
  return [
    {
      label: 'API keys',
      items: (keys?.data ?? []).map(({ id, name, prefix, last_four: lastFour }) => ({
        value: `key ${id}`,
        label: name,
        hint: `${prefix}…${lastFour}`,
        keywords: `key ${id}`,
        run: () => navigate(href(`/keys?key=${id}`)),
      })),
    },
    {
      label: 'Accounts',
      items: (accounts.data?.data ?? []).map(({ id, name }) => ({
        value: `operator account ${id}`,
        label: name,
        keywords: `account ${id}`,
        run: () => navigate(`/operator/accounts/${encodeURIComponent(id)}`),
      })),
    },
    {
      label: 'Requests',
      items:
        request === undefined
          ? []
          : [
              {
                value: 'request',
                label: `Request ${text}`,
                run: () => navigate(href(`/requests/${request}`)),
              },
            ],
    },
  ];
}
