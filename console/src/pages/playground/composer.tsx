import { ArrowUp, Plus, Square } from 'lucide-react';
import { Button } from '../../components/button.tsx';
import { Select } from '../../components/select.tsx';
import { isApple } from '../../components/shortcut-keys.tsx';
import { useActions, useIsRunning, usePlayground } from './state.tsx';
import { awaitsResults, canRespond } from './draft.ts';
import { Starters } from './starters.tsx';
import { StorageNotice } from './storage-notice.tsx';
import { TypedText } from './typed-text.tsx';

/** The input for the next message. */
export function Composer() {
  const { draft } = usePlayground();
  const { change, send, add } = useActions();
  const isRunning = useIsRunning();
  const typed = draft.input.trim() !== '';
  const awaiting = draft.columns.some(awaitsResults);
  const canSend = !awaiting && (typed ? draft.inputRole === 'user' : draft.columns.some(canRespond));
  const submit = typed && draft.inputRole === 'assistant' ? add : send;
  return (
    <div className="border-t border-line bg-surface pt-3 pb-2">
      <div className="mx-auto max-w-3xl px-4 sm:px-6">
        <Starters className="mb-3" />
        <TypedText
          label="Message"
          placeholder={draft.inputRole === 'user' ? 'Write a message' : 'Write an assistant message'}
          value={draft.input}
          onChange={(input) => change({ type: 'set', values: { input } })}
          onSend={submit}
          enterSends
          className="max-h-60"
        />
        {awaiting && typed && (
          <p role="status" className="mt-2 text-xs text-ink-3">
            Enter the results of the calls above first.
          </p>
        )}
        <div className="mt-2 flex items-center gap-2">
          <Select
            label="Role"
            small
            value={draft.inputRole}
            choices={[
              { value: 'user', label: 'User' },
              { value: 'assistant', label: 'Assistant' },
            ]}
            onChange={(inputRole) => change({ type: 'set', values: { inputRole } })}
          />
          <Button
            size="small"
            kind="quiet"
            disabled={!typed || isRunning || awaiting}
            icon={<Plus className="size-3.5" aria-hidden="true" />}
            onClick={add}
          >
            <span>
              Add<span className="sr-only sm:not-sr-only"> without sending</span>
            </span>
          </Button>
          <span className="ml-auto">
            <SendOrStop label={canSend && !typed ? 'Run' : 'Send'} keys="↵" disabled={!canSend} />
          </span>
        </div>
        <StorageNotice />
      </div>
    </div>
  );
}

/** The send button; a stop button while a response is in progress. */
export function SendOrStop({
  label,
  keys = SEND_KEYS,
  disabled,
}: {
  label: string;
  /** The shortcut, as shown on the button. */
  keys?: string;
  disabled: boolean;
}) {
  const { send, stop } = useActions();
  const isRunning = useIsRunning();
  if (isRunning) {
    return (
      <Button
        icon={<Square className="size-3.5 fill-current" aria-hidden="true" />}
        onClick={(event) => {
          // The second click of a double click on Send, which was in the same place.
          if (event.detail !== 2) stop();
        }}
      >
        Stop
        <Keys>Esc</Keys>
      </Button>
    );
  }
  return (
    <Button
      kind="primary"
      disabled={disabled}
      icon={<ArrowUp className="size-4" aria-hidden="true" />}
      onClick={send}
    >
      {label}
      <Keys>{keys}</Keys>
    </Button>
  );
}

const SEND_KEYS = isApple ? '⌘ ↵' : 'Ctrl ↵';

/** A keyboard shortcut hint, for devices with a keyboard. */
function Keys({ children }: { children: string }) {
  return (
    <kbd aria-hidden="true" className="hidden font-sans text-2xs font-normal lg:pointer-fine:inline">
      {children}
    </kbd>
  );
}
