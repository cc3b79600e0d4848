import { ArrowDown, ChevronRight } from 'lucide-react';
import { useEffect, useState } from 'react';
import { Button } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { Segmented } from '../../components/choices.tsx';
import { ColumnHead } from './column-head.tsx';
import { Composer } from './composer.tsx';
import { EmptyColumn } from './empty-column.tsx';
import { useActions, usePlayground } from './context.ts';
import type { Column } from './draft.ts';
import { useFollow } from './follow.ts';
import { ModelNotice } from './model-notice.tsx';
import { Turn } from './turn.tsx';
import { TypedText } from './typed-text.tsx';

/** Chat mode: one conversation, or two side by side. */
export function Chat() {
  const { draft } = usePlayground();
  const [seen, setSeen] = useState(0);
  return (
    <div className="flex h-full flex-col">
      <SystemPrompt />
      <ColumnChoice seen={seen} onSee={setSeen} />
      <div className="flex min-h-0 flex-1 divide-line md:divide-x">
        {draft.columns.map((column, index) => (
          // Columns have no id; only the second one is ever added or removed.
          <Conversation key={`${index}`} column={column} index={index} isSeen={index === seen} />
        ))}
      </div>
      <Composer />
    </div>
  );
}

/** The system prompt, collapsed to one line until it is edited. */
function SystemPrompt() {
  const { draft } = usePlayground();
  const { change, send } = useActions();
  const [open, setOpen] = useState(false);
  return (
    <div className="border-b border-line px-4 sm:px-6 lg:px-8">
      <button
        type="button"
        aria-expanded={open}
        onClick={() => setOpen(!open)}
        className="flex h-10 w-full items-center gap-2 text-left text-sm"
      >
        <ChevronRight
          className={`size-4 shrink-0 text-ink-3 transition-transform ${open ? 'rotate-90' : ''}`}
          aria-hidden="true"
        />
        <span className="shrink-0 font-medium">System prompt</span>
        {!open && <span className="truncate text-ink-3">{draft.system.trim() || 'None'}</span>}
      </button>
      {open && (
        <TypedText
          label="System prompt"
          placeholder="You are a careful assistant. Answer in one sentence."
          value={draft.system}
          focused
          onChange={(system) => change({ type: 'set', values: { system } })}
          onSend={send}
          className="mb-3 max-h-48"
        />
      )}
    </div>
  );
}

/** Selects the visible column on narrow windows. */
export function ColumnChoice({ seen, onSee }: { seen: number; onSee: (column: number) => void }) {
  const { draft } = usePlayground();
  useEffect(() => {
    if (seen >= draft.columns.length) onSee(0);
  }, [seen, draft.columns.length, onSee]);
  if (draft.columns.length < 2) return null;
  return (
    <div className="border-b border-line px-4 py-2 md:hidden">
      <Segmented
        label="Column"
        value={`${seen}`}
        choices={draft.columns.map(({ model }, index) => ({
          value: `${index}`,
          label: <span className="max-w-36 truncate">{model.split('/').at(-1)}</span>,
        }))}
        onChange={(value) => onSee(Number(value))}
      />
    </div>
  );
}

function Conversation({ column, index, isSeen }: { column: Column; index: number; isSeen: boolean }) {
  const { draft } = usePlayground();
  const { scroller, content, isAway, toEnd } = useFollow(column.turns.length > 0);
  const last = column.turns.at(-1)?.id;
  // A new turn scrolls to the end.
  useEffect(() => {
    if (last !== undefined) toEnd();
  }, [last, toEnd]);
  const many = draft.columns.length > 1;
  return (
    <section
      aria-label={many ? `Conversation ${index + 1}` : 'Conversation'}
      className={classNames('relative min-w-0 flex-1 flex-col md:flex', isSeen ? 'flex' : 'hidden')}
    >
      <ColumnHead column={index} />
      <div
        ref={scroller}
        tabIndex={0}
        className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2"
      >
        <div ref={content} className="mx-auto max-w-3xl space-y-3 px-4 py-4 sm:px-6">
          <ModelNotice model={column.model} />
          {column.turns.length === 0 && <EmptyColumn model={column.model} />}
          {column.turns.map((turn) => (
            <Turn key={turn.id} turn={turn} isLast={turn.id === last} />
          ))}
        </div>
      </div>
      {isAway && (
        <div className="pointer-events-none absolute inset-x-0 bottom-3 flex justify-center">
          <Button
            size="small"
            className="pointer-events-auto shadow-popup"
            icon={<ArrowDown className="size-3.5" aria-hidden="true" />}
            onClick={toEnd}
          >
            Scroll to latest
          </Button>
        </div>
      )}
    </section>
  );
}
