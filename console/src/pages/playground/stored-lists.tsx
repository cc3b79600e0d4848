import { useQuery } from '@tanstack/react-query';
import { Check, MessagesSquare, Pencil, Plus, Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { queryClient } from '../../api/queries.ts';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { Dialog } from '../../components/dialog.tsx';
import { TextField } from '../../components/field.tsx';
import { INPUT } from '../../components/input.ts';
import { SearchField } from '../../components/search-field.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { counted } from '../../format/number.ts';
import { notify } from '../../notify.ts';
import { contains, MAX_CONVERSATIONS, MAX_TITLE, titleOf } from './conversations.ts';
import { MAX_PRESET_NAME, type Preset } from './presets.ts';
import { usePlayground, usePlaygroundState } from './state.tsx';
import { RECORDS } from './store.ts';

/** Reads a list of records again after each change of this tab or of another one, and only while it is shown. */
function useRecords<Item>(kind: string, read: () => Promise<Item[]>): readonly Item[] | undefined {
  return useQuery({ queryKey: [RECORDS, kind], queryFn: read, staleTime: 0, gcTime: 0 }).data;
}

export function ConversationsDialog({ onClose }: { onClose: () => void }) {
  const playground = usePlayground();
  const shown = usePlaygroundState(({ draft }) => draft.id);
  const list = useRecords('conversations', () => playground.listConversations());
  const [query, setQuery] = useState('');
  const found = list?.filter((conversation) => query.trim() === '' || contains(conversation, query)) ?? [];
  return (
    <Dialog
      side
      open
      onClose={onClose}
      title="Conversations"
      hint={`Stored only in this browser, until you sign out. At most ${MAX_CONVERSATIONS}; the oldest are deleted.`}
      actions={
        <Button
          kind="primary"
          icon={<Plus />}
          onClick={() => {
            onClose();
            playground.newChat();
          }}
        >
          New chat
        </Button>
      }
    >
      {list?.length === 0 && (
        <EmptyState icon={MessagesSquare} title="No conversations">
          Conversations are listed here once you send a message.
        </EmptyState>
      )}
      {list !== undefined && list.length > 0 && (
        <>
          <SearchField label="Search conversations" value={query} onChange={setQuery} className="mb-3" />
          <p role="status" className="sr-only">
            {counted(found.length, 'conversation')}
          </p>
          {found.length === 0 && <p className="py-6 text-center text-sm text-ink-3">No matches</p>}
          <ul aria-label="Conversations" className="-mx-2">
            {found.map((conversation) => (
              <Row
                key={conversation.id}
                name={titleOf(conversation)}
                maxLength={MAX_TITLE}
                isCurrent={conversation.id === shown}
                onOpen={() => {
                  onClose();
                  void playground.open(conversation.id);
                }}
                onRename={(title) => void playground.renameConversation(conversation.id, title)}
                onDelete={() => void playground.removeConversation(conversation.id)}
              >
                <Time at={new Date(conversation.updatedAtMs).toISOString()} relative />
              </Row>
            ))}
          </ul>
        </>
      )}
    </Dialog>
  );
}

export function PresetsDialog({ onClose }: { onClose: () => void }) {
  const playground = usePlayground();
  const { presets } = playground;
  const list = useRecords('presets', () => presets.list().catch(() => [])) ?? [];
  const [name, setName] = useState('');
  const [error, setError] = useState<string | null>(null);
  /** Reads the list again after a change. Returns whether it succeeded. */
  const done = async (change: Promise<string | null>, onError: (message: string) => void) => {
    const failed = await change;
    if (failed !== null) onError(failed);
    await queryClient.invalidateQueries({ queryKey: [RECORDS] });
    return failed === null;
  };
  const save = async () => {
    const { system, settings } = playground.state.draft;
    if (!(await done(presets.save({ name, system, settings }), setError))) return;
    setName('');
    notify.success(`Preset ${name.trim()} saved`);
  };
  const remove = async (preset: Preset) => {
    if (!(await done(presets.remove(preset), notify.error))) return;
    const undo = () => void done(presets.save(preset), notify.error);
    notify.success('Preset deleted', { label: 'Undo', run: undo });
  };
  return (
    <Dialog
      open
      onClose={onClose}
      title="Presets"
      hint="The system prompt and all parameters under a name. Stored only in this browser, until you sign out."
    >
      {list.length > 0 && (
        <ul aria-label="Presets" className="-mx-2 mb-4 max-h-72 overflow-y-auto">
          {list.map((preset) => (
            <Row
              key={preset.name}
              name={preset.name}
              maxLength={MAX_PRESET_NAME}
              onOpen={() => {
                playground.set({ system: preset.system, settings: preset.settings });
                notify.success(`Preset ${preset.name} applied`);
                onClose();
              }}
              onRename={(to) => void done(presets.rename(preset, to), notify.error)}
              onDelete={() => void remove(preset)}
            />
          ))}
        </ul>
      )}
      <form
        className="flex items-start gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          void save();
        }}
      >
        <TextField
          className="min-w-0 flex-1"
          label="Save the current parameters as"
          value={name}
          error={error}
          maxLength={MAX_PRESET_NAME}
          autoComplete="off"
          onChange={(event) => {
            setName(event.target.value);
            setError(null);
          }}
        />
        {/* Below the label of the field. */}
        <Button type="submit" kind="primary" disabled={name.trim() === ''} className="mt-5.5">
          {list.some((preset) => preset.name === name.trim()) ? 'Replace' : 'Save'}
        </Button>
      </form>
    </Dialog>
  );
}

interface RowProps {
  name: string;
  /** Maximum length of the name, in characters. */
  maxLength: number;
  isCurrent?: boolean;
  onOpen: () => void;
  onRename: (name: string) => void;
  onDelete: () => void;
  children?: ReactNode;
}

function Row({ name, maxLength, isCurrent = false, onOpen, onRename, onDelete, children }: RowProps) {
  const [renaming, setRenaming] = useState(false);
  if (renaming) {
    return (
      <li className="px-1 py-1.5">
        <input
          ref={(input) => input?.focus()}
          aria-label="Name"
          defaultValue={name}
          maxLength={maxLength}
          autoComplete="off"
          onFocus={(event) => event.target.select()}
          onBlur={(event) => {
            setRenaming(false);
            if (event.target.value !== name) onRename(event.target.value);
          }}
          onKeyDown={(event) => {
            if (event.key === 'Enter') event.currentTarget.blur();
            if (event.key !== 'Escape') return;
            // Escape ends the renaming, and does not close the dialog.
            event.stopPropagation();
            setRenaming(false);
          }}
          className={classNames(INPUT, 'h-8')}
        />
      </li>
    );
  }
  return (
    <li
      className={classNames(
        'flex items-center rounded-lg transition-colors hover:bg-hover',
        isCurrent && 'bg-sunken',
      )}
    >
      <button
        type="button"
        aria-current={isCurrent || undefined}
        onClick={onOpen}
        className="flex min-w-0 flex-1 items-center gap-2 rounded-lg px-2 py-2.5 text-left text-sm"
      >
        <span className={classNames('min-w-0 flex-1 truncate', isCurrent && 'font-medium')}>{name}</span>
        {isCurrent && <Check className="size-3.5 shrink-0 text-accent" />}
        <span className="shrink-0 text-xs text-ink-3">{children}</span>
      </button>
      <IconButton label={`Rename ${name}`} onClick={() => setRenaming(true)}>
        <Pencil />
      </IconButton>
      <IconButton label={`Delete ${name}`} onClick={onDelete}>
        <Trash2 />
      </IconButton>
    </li>
  );
}
