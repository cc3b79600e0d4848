import { Wrench } from 'lucide-react';
import { useRef, type ReactNode } from 'react';
import { Button } from '../../components/button.tsx';
import { CopyButton } from '../../components/copy.tsx';
import { formatArguments, isCompleteCall, type ToolCall as Call } from './answer.ts';
import { useActions, useIsRunning } from './state.tsx';
import { sentCalls, type Turn } from './draft.ts';
import { TypedText } from './typed-text.tsx';

/** The calls of a turn. The user types their results, and continues the response with them. */
export function ToolCalls({ turn, isLast }: { turn: Turn; isLast: boolean }) {
  const { change, continueFrom } = useActions();
  const isRunning = useIsRunning();
  const list = useRef<HTMLDivElement>(null);
  const { calls } = turn;
  if (calls.length === 0) return null;
  const sent = sentCalls(turn);
  const missing = sent.filter(({ result }) => result === '').length;
  const submit = () => {
    if (missing === 0) continueFrom(turn.id);
    else [...(list.current?.querySelectorAll('textarea') ?? [])].find(({ value }) => value === '')?.focus();
  };
  return (
    <div ref={list} className="mt-3 space-y-3">
      {calls.map((call, index) => (
        <ToolCall key={call.id} call={call}>
          {isCompleteCall(call) ? (
            <div className="border-t border-line p-2">
              <TypedText
                label={`Result of ${call.name}${calls.length > 1 ? `, call ${index + 1}` : ''}`}
                placeholder="Enter the result, as JSON or text"
                value={call.result}
                onChange={(result) => change({ type: 'result', turn: turn.id, call: call.id, result })}
                onSend={submit}
                enterSends
                className="block max-h-60 font-mono text-xs"
              />
            </div>
          ) : (
            <IncompleteNote isCut={turn.answer?.choices[turn.answer.chosen]?.finish === 'length'} />
          )}
        </ToolCall>
      ))}
      {sent.length > 0 && (
        <div className="flex flex-wrap items-center gap-x-3 gap-y-2">
          <Button size="small" disabled={isRunning || missing > 0} onClick={submit}>
            {isLast ? 'Send results' : 'Send results again'}
          </Button>
          <p className="text-xs text-ink-3">{hintOf(sent.length, missing)}</p>
        </div>
      )}
    </div>
  );
}

function hintOf(count: number, missing: number): string {
  if (missing === 0) return 'The model continues with these results.';
  if (count === 1) return 'Enter the result of the call.';
  return `Enter the results of all calls: ${missing} missing.`;
}

interface ToolCallProps {
  call: Call;
  /** The arguments are still arriving. */
  isLive?: boolean;
  children?: ReactNode;
}

/** A call: the name of the function and its arguments, which are indented unless the response ended within them. */
export function ToolCall({ call, isLive = false, children }: ToolCallProps) {
  const { name, arguments: json } = call;
  const shown = json === '' && !isLive ? '{}' : json;
  return (
    <div
      role="group"
      aria-label={`Call of ${name}`}
      className="overflow-hidden rounded-lg border border-line"
    >
      <div className="flex h-9 items-center gap-2 border-b border-line bg-sunken pr-1 pl-3">
        <Wrench className="size-3.5 shrink-0 text-ink-3" aria-hidden="true" />
        <span className="mr-auto truncate font-mono text-xs font-medium">{name}</span>
        <CopyButton text={json} what="arguments" />
      </div>
      <pre
        tabIndex={0}
        className="max-h-96 overflow-auto p-3 font-mono text-xs leading-5 wrap-anywhere whitespace-pre-wrap focus-visible:-outline-offset-2"
      >
        {isLive || isCompleteCall(call) ? formatArguments(shown) : json}
      </pre>
      {children}
    </div>
  );
}

function IncompleteNote({ isCut }: { isCut: boolean }) {
  return (
    <p className="border-t border-line bg-warn-soft px-3 py-2 text-xs leading-5 text-ink">
      {isCut
        ? 'The arguments were cut off at the token limit. Raise the maximum tokens and regenerate the response.'
        : 'The arguments are not a JSON object. Regenerate the response.'}{' '}
      This call is not sent back to the model.
    </p>
  );
}
