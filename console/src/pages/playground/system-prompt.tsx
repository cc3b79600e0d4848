import { ChevronRight } from 'lucide-react';
import { useState } from 'react';
import { useActions, usePlayground } from './context.ts';
import { TypedText } from './typed-text.tsx';

/** The system prompt, collapsed to one line until it is edited. */
export function SystemPrompt() {
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
