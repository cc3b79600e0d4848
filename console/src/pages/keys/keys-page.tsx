import { KeyRound, Plus, SearchX } from 'lucide-react';
import { lazy, Suspense, useDeferredValue, useMemo, useState, type ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAll, useList, useMore } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { Segmented } from '../../components/choices.tsx';
import { NoAccount } from '../../components/no-account.tsx';
import { useOpening, useWasTrue } from '../../components/opening.ts';
import { Page } from '../../components/page.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { EmptyState, Loaded, LoadFailure, Notice } from '../../components/states.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { counted } from '../../format/number.ts';
import { useAccount, type CurrentAccount } from '../../state/account.ts';
import { useAccountStatus, useKeyRights } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { revokeKeys } from './key-changes.tsx';
import { KeysTable } from './keys-table.tsx';

const CreateKeyDialog = lazy(() => import('./create-key-dialog.tsx'));
const KeyDialog = lazy(() => import('./key-dialog.tsx'));

/** The API keys of the current account. */
export default function KeysPage() {
  const account = useAccount();
  if (account === null) return <NoAccount title="API keys" icon={KeyRound} />;
  return <Keys key={account.id} account={account} />;
}

/** Maximum page size of the API. */
const AT_ONCE = 1000;

function Keys({ account }: { account: CurrentAccount }) {
  const [query, change] = useQueryState();
  const list = useList('listKeys', { query: { account_id: account.id, limit: AT_ONCE } });
  const { data, hasMore, error } = list;
  // Search and sorting need all keys, so all pages are loaded.
  useMore(true, list);
  const keys = useMemo(() => data?.toReversed(), [data]);
  const isActive = useAccountStatus(account.id) === 'active';
  const create = isActive ? () => change({ create: '1' }) : null;
  const opened = query.get('key');
  const isCreating = isActive && query.get('create') !== null;
  const wasOpened = useWasTrue(opened !== null);
  const opening = useOpening(opened);
  return (
    <Page
      title="API keys"
      hint="Apps authenticate with a key. Each key is shown only once, when it is created."
      actions={
        keys?.length !== 0 && (
          <>
            <DataAge operations={['listKeys', 'readUsage']} />
            {create && (
              <Button kind="primary" icon={<Plus />} onClick={create}>
                Create key
              </Button>
            )}
          </>
        )
      }
    >
      <NotActive account={account} />
      {keys !== undefined && error !== null && (
        <div className="mb-4">
          <Notice tone="bad" action={<Button onClick={list.refetch}>Try again</Button>}>
            Could not load all keys: {error.message}
          </Notice>
        </div>
      )}
      <Loaded
        card
        query={{ data: hasMore && error === null ? undefined : keys, error, refetch: list.refetch }}
        empty={
          <Card>
            <FirstKey onCreate={create} />
          </Card>
        }
      >
        {(all) => <KeysCard account={account} keys={all} onCreate={create} />}
      </Loaded>
      <Suspense>
        {isCreating && (
          <CreateKeyDialog account={account} onClose={() => change({ create: null }, { replace: true })} />
        )}
        {wasOpened && (
          <KeyDialog
            key={opening}
            account={account}
            id={opened}
            listed={keys?.find(({ id }) => id === opened)}
            editing={query.get('edit') !== null}
            onEdit={(editing) => change({ edit: editing ? '1' : null }, { replace: !editing })}
            onClose={() => change({ key: null, edit: null })}
          />
        )}
      </Suspense>
    </Page>
  );
}

/** `onCreate` null: no key can be created. */
function FirstKey({ onCreate }: { onCreate: (() => void) | null }) {
  if (onCreate === null) return <EmptyState icon={KeyRound} title="No API keys" />;
  return (
    <EmptyState
      icon={KeyRound}
      title="Create your first API key"
      action={
        <Button kind="primary" icon={<Plus />} onClick={onCreate}>
          Create key
        </Button>
      }
    >
      Use it with any OpenAI-compatible client. You get the key and example requests in curl, Python and
      TypeScript.
    </EmptyState>
  );
}

/** Warns that requests of a suspended or closed account are refused, and that it cannot have new keys. */
function NotActive({ account }: { account: CurrentAccount }) {
  const status = useAccountStatus(account.id);
  if (status === 'active') return null;
  return (
    <div className="mb-4">
      <Notice tone="warn" title={`This account is ${status}`}>
        No keys can be created, and requests with its keys are refused
        {status === 'suspended' ? ' until an operator resumes the account' : ''}.
      </Notice>
    </div>
  );
}

type Key = ItemOf<'listKeys'>;

interface KeysCardProps {
  account: CurrentAccount;
  /** All keys of the account, newest first. */
  keys: readonly Key[];
  /** Null: no key can be created. */
  onCreate: (() => void) | null;
}

/** The keys of an account, filtered as set in the URL. */
function KeysCard({ account, keys, onCreate }: KeysCardProps) {
  const [, change] = useQueryState();
  const usage = useAll('readUsage', { query: { account_id: account.id, by: 'key' } }, { everyMs: 60_000 });
  const { matching, state, search, tag } = useMatching(keys);
  const rightsOf = useKeyRights();
  const revocable = matching.filter((key) => rightsOf(key) !== null);
  const [selected, setSelected] = useState<ReadonlySet<string> | null>(null);
  const isSelecting = selected !== null && state === 'live';
  // Keys that the filters hide, or that were revoked elsewhere, are not selected.
  const chosen = isSelecting ? revocable.filter(({ id }) => selected.has(id)) : [];
  const toggle = ({ id }: Key) =>
    setSelected((before) =>
      before?.has(id) ? before.difference(new Set([id])) : new Set([...(before ?? []), id]),
    );
  const revokeSelected = async () => {
    if (await revokeKeys(account.id, chosen)) setSelected(null);
  };
  return (
    <div className="space-y-4">
      <LoadFailure query={usage} what="the cost of the keys" />
      <Card flush>
        <KeyFilters keys={keys}>
          {state === 'live' && revocable.length > 1 && !isSelecting && (
            <Button size="small" onClick={() => setSelected(new Set())}>
              Select
            </Button>
          )}
        </KeyFilters>
        {isSelecting && (
          <SelectedKeys
            shown={revocable}
            selected={chosen}
            onSelect={setSelected}
            onRevoke={() => void revokeSelected()}
          />
        )}
        {matching.length === 0 ? (
          <NoKeys
            {...{ state, onCreate }}
            isFiltered={search !== '' || tag !== null}
            onClear={() => change({ q: null, tag: null })}
          />
        ) : (
          <>
            <KeysTable
              keys={isSelecting ? revocable : matching}
              usage={usage}
              selected={isSelecting ? selected : null}
              onToggle={toggle}
            />
            <p
              role="status"
              className="border-t border-line px-4 py-3 text-xs text-ink-3 tabular-nums sm:px-5"
            >
              {counted(matching.length, 'key')}. Cost is for the current calendar month in UTC.
            </p>
          </>
        )}
      </Card>
    </div>
  );
}

function NoKeys({
  state,
  isFiltered,
  onClear,
  onCreate,
}: {
  state: 'live' | 'ended';
  isFiltered: boolean;
  onClear: () => void;
  onCreate: (() => void) | null;
}) {
  if (isFiltered) {
    return (
      <EmptyState
        icon={SearchX}
        title="No matching keys"
        action={<Button onClick={onClear}>Clear filters</Button>}
      >
        Only {state === 'live' ? 'active' : 'revoked and expired'} keys are searched, by name, tag, last 4
        characters or ID.
      </EmptyState>
    );
  }
  return state === 'live' ? (
    <EmptyState
      icon={KeyRound}
      title="No active keys"
      action={onCreate ? <Button onClick={onCreate}>Create key</Button> : undefined}
    >
      All keys of this account are revoked or expired.
    </EmptyState>
  ) : (
    <EmptyState icon={KeyRound} title="No revoked or expired keys">
      Revoked and expired keys appear here with their usage.
    </EmptyState>
  );
}

/** Maximum keys that are revoked together, as in the API. */
const MAX_REVOKED = 100;

interface SelectedKeysProps {
  /** The keys that can be selected. */
  shown: readonly Key[];
  selected: readonly Key[];
  /** Null: ends the selection. */
  onSelect: (ids: ReadonlySet<string> | null) => void;
  onRevoke: () => void;
}

/** The number of selected keys, and what can be done with them. */
function SelectedKeys({ shown, selected, onSelect, onRevoke }: SelectedKeysProps) {
  const isTooMany = selected.length > MAX_REVOKED;
  return (
    <div
      role="group"
      aria-label="Selected keys"
      className="flex flex-wrap items-center gap-2 border-b border-line bg-sunken px-4 py-2 text-sm sm:px-5"
    >
      <span role="status" className="mr-auto tabular-nums">
        {selected.length} selected
      </span>
      <Button size="small" onClick={() => onSelect(new Set(shown.slice(0, MAX_REVOKED).map(({ id }) => id)))}>
        {shown.length > MAX_REVOKED ? `Select first ${MAX_REVOKED}` : 'Select all'}
      </Button>
      <Button size="small" onClick={() => onSelect(null)}>
        Cancel
      </Button>
      <Button size="small" kind="danger" disabled={selected.length === 0 || isTooMany} onClick={onRevoke}>
        Revoke selected
      </Button>
      {isTooMany && (
        <p role="alert" className="w-full text-xs text-bad">
          At most {MAX_REVOKED} keys can be revoked at once.
        </p>
      )}
    </div>
  );
}

const TagFilter = lazy(() => import('./tag-filter.tsx'));

const STATES = [
  { value: 'live', label: 'Active' },
  { value: 'ended', label: 'Revoked and expired' },
] as const;

/** The search field is shown for more keys than this. */
const MANY = 8;

/** The filters in the URL. */
function useFilters() {
  const [query, change] = useQueryState();
  return {
    state: query.get('state') === 'ended' ? ('ended' as const) : ('live' as const),
    search: query.get('q') ?? '',
    tag: query.get('tag'),
    change,
  };
}

/** Returns the keys that match the filters in the URL, and the filters. */
function useMatching(keys: readonly Key[]) {
  const filters = useFilters();
  const { state, search, tag } = filters;
  const wanted = useDeferredValue(search).trim().toLowerCase();
  const matching = useMemo(
    () =>
      keys.filter(
        (key) =>
          (key.status === 'live') === (state === 'live') &&
          (tag === null || key.tags.includes(tag)) &&
          (wanted === '' ||
            key.name.toLowerCase().includes(wanted) ||
            key.tags.some((one) => one.toLowerCase().includes(wanted)) ||
            key.last_four.toLowerCase() === wanted ||
            key.id === wanted),
      ),
    [keys, state, tag, wanted],
  );
  return { matching, ...filters };
}

interface KeyFiltersProps {
  /** All keys of the account. */
  keys: readonly Key[];
  /** Buttons at the end. */
  children: ReactNode;
}

/** The filters of the keys. */
function KeyFilters({ keys, children }: KeyFiltersProps) {
  const { state, search, tag, change } = useFilters();
  const tags = useMemo(
    () => [...new Set([...keys.flatMap((key) => key.tags), ...(tag === null ? [] : [tag])])].toSorted(),
    [keys, tag],
  );
  return (
    <div className="flex flex-wrap items-center justify-between gap-3 border-b border-line px-4 py-3 sm:px-5">
      <Segmented
        label="Status"
        value={state}
        choices={STATES}
        onChange={(chosen) => change({ state: chosen === 'live' ? null : chosen })}
      />
      <div className="flex flex-wrap items-center gap-2 max-sm:w-full">
        {(keys.length > MANY || search !== '') && (
          <SearchField
            label="Search by name or tag"
            className="w-full sm:w-64"
            value={search}
            onChange={(q) => change({ q }, { replace: true })}
          />
        )}
        {tags.length > 0 && (
          <Suspense>
            <TagFilter tags={tags} value={tag} onChange={(chosen) => change({ tag: chosen })} />
          </Suspense>
        )}
        {children}
      </div>
    </div>
  );
}
