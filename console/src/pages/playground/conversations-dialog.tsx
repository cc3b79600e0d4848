import { Ellipsis, MessagesSquare, Pencil, Plus, Trash2 } from 'lucide-react';
import { useMemo, useState, useSyncExternalStore } from 'react';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { Dialog } from '../../components/dialog.tsx';
import { INPUT } from '../../components/input.ts';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { EmptyState } from '../../components/states.tsx';
import { Time } from '../../components/time.tsx';
import { counted } from '../../format/number.ts';
import { MAX_CONVERSATIONS, MAX_TITLE, type ListedConversation } from './conversations.ts';
import { useActions, usePlayground } from './state.tsx';

/** The stored conversations: open, find, rename and delete them. */
export default function ConversationsDialog({ onClose }: { onClose: () => void }) {
  const { conversations, newChat, open } = useActions();
  const list = useSyncExternalStore(conversations.subscribe, () => conversations.list);
  const [query, setQuery] = useState('');
  const found = useMemo(() => {
    if (query.trim() === '') return list;
    const ids = conversations.search(query);
    return list.filter(({ id }) => ids.has(id));
  }, [list, query, conversations]);
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
          icon={<Plus className="size-4" aria-hidden="true" />}
          onClick={() => {
            onClose();
            newChat();
          }}
        >
          New chat
        </Button>
      }
    >
      {list.length === 0 ? (
        <EmptyState icon={MessagesSquare} title="No conversations">
          Conversations are listed here once you send a message.
        </EmptyState>
      ) : (
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
                conversation={conversation}
                onOpen={() => {
                  onClose();
                  open(conversation.id);
                }}
              />
            ))}
          </ul>
        </>
      )}
    </Dialog>
  );
}

function Row({ conversation, onOpen }: { conversation: ListedConversation; onOpen: () => void }) {
  const { id, title, updatedAtMs } = conversation;
  const { draft } = usePlayground();
  const { removeConversation } = useActions();
  const [renaming, setRenaming] = useState(false);
  const isShown = draft.id === id;
  if (renaming) return <Rename conversation={conversation} onDone={() => setRenaming(false)} />;
  return (
    <li
      className={classNames(
        'flex items-center rounded-lg transition-colors hover:bg-hover',
        isShown && 'bg-sunken',
      )}
    >
      <button
        type="button"
        aria-current={isShown || undefined}
        onClick={onOpen}
        className="flex min-w-0 flex-1 items-baseline gap-3 rounded-lg px-2 py-2.5 text-left text-sm"
      >
        <span className={classNames('min-w-0 flex-1 truncate', isShown && 'font-medium')}>{title}</span>
        <span className="shrink-0 text-xs text-ink-3">
          <Time at={new Date(updatedAtMs).toISOString()} relative />
        </span>
      </button>
      <Menu
        trigger={
          <IconButton label={`Actions for ${title}`}>
            <Ellipsis className="size-4" aria-hidden="true" />
          </IconButton>
        }
      >
        <MenuItem icon={<Pencil aria-hidden="true" />} onClick={() => setRenaming(true)}>
          Rename
        </MenuItem>
        <MenuSeparator />
        <MenuItem danger icon={<Trash2 aria-hidden="true" />} onClick={() => removeConversation(id)}>
          Delete
        </MenuItem>
      </Menu>
    </li>
  );
}

function Rename({ conversation, onDone }: { conversation: ListedConversation; onDone: () => void }) {
  const { conversations } = useActions();
  const [title, setTitle] = useState(conversation.title);
  const save = () => {
    if (title !== conversation.title) conversations.rename(conversation.id, title);
    onDone();
  };
  return (
    <li className="px-1 py-1.5">
      <input
        // The menu that was just closed had the focus.
        ref={(input) => input?.focus()}
        aria-label="Title"
        value={title}
        maxLength={MAX_TITLE}
        autoComplete="off"
        onFocus={(event) => event.target.select()}
        onChange={(event) => setTitle(event.target.value)}
        onBlur={save}
        onKeyDown={(event) => {
          if (event.key === 'Enter') save();
          if (event.key !== 'Escape') return;
          // Escape ends the renaming, and does not close the dialog.
          event.stopPropagation();
          onDone();
        }}
        className={classNames(INPUT, 'h-8')}
      />
    </li>
  );
}
