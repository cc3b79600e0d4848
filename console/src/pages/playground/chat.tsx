import { ArrowDown, ChevronRight } from 'lucide-react';
import { useCallback, useEffect, useRef, useState, type RefObject } from 'react';
import { Button } from '../../components/button.tsx';
import { Columns, EmptyColumn, ModelNotice } from './columns.tsx';
import { Composer } from './composer.tsx';
import type { Column } from './draft.ts';
import { useActions, usePlayground } from './state.tsx';
import { Turn } from './turn.tsx';
import { TypedText } from './typed-text.tsx';

/** Chat mode: one conversation, or two side by side. */
export function Chat() {
  return (
    <div className="flex h-full flex-col">
      <SystemPrompt />
      <Columns name="Conversation">{(column) => <Conversation column={column} />}</Columns>
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
        className="flex h-9 w-full items-center gap-2 text-left text-sm sm:h-10"
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

function Conversation({ column }: { column: Column }) {
  const { scroller, content, isAway, toEnd } = useFollow(column.turns.length > 0);
  const last = column.turns.at(-1)?.id;
  // A new turn scrolls to the end.
  useEffect(() => {
    if (last !== undefined) toEnd();
  }, [last, toEnd]);
  return (
    <>
      <div
        ref={scroller}
        tabIndex={0}
        className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2"
      >
        <div ref={content} className="mx-auto max-w-3xl space-y-3 px-2 py-3 sm:px-6 sm:py-4">
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
    </>
  );
}

/** Distance from the end that counts as the end, in CSS pixels. */
const NEAR = 48;

interface Follow {
  /** Ref of the scroll container. */
  scroller: RefObject<HTMLDivElement | null>;
  /** Ref of the growing content. */
  content: RefObject<HTMLDivElement | null>;
  /** The user has scrolled up, so new content does not scroll the view. */
  isAway: boolean;
  /** Scrolls to the end and follows it. */
  toEnd: () => void;
}

/** Keeps growing content scrolled to the end while `active`, unless the user scrolls up. */
function useFollow(active: boolean): Follow {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const following = useRef(true);
  const [isAway, setAway] = useState(false);

  const toEnd = useCallback(() => {
    following.current = true;
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  }, []);

  useEffect(() => {
    const [frame, inner] = [scroller.current, content.current];
    if (!active || frame === null || inner === null) return;
    let top = frame.scrollTop;
    const onScroll = () => {
      const isNear = frame.scrollHeight - frame.scrollTop - frame.clientHeight < NEAR;
      // Only scrolling up stops following. Content that grew in the meantime must not stop it.
      if (isNear) following.current = true;
      else if (frame.scrollTop < top) following.current = false;
      top = frame.scrollTop;
      setAway(!following.current);
    };
    const grown = new ResizeObserver(() => {
      if (following.current) toEnd();
      else setAway(true);
    });
    grown.observe(inner);
    grown.observe(frame);
    frame.addEventListener('scroll', onScroll, { passive: true });
    return () => {
      grown.disconnect();
      frame.removeEventListener('scroll', onScroll);
    };
  }, [active, toEnd]);

  return { scroller, content, isAway, toEnd };
}
