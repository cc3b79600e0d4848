import type { ReactNode } from 'react';
import { Segmented } from '../../components/choices.tsx';
import { Spinner } from '../../components/spinner.tsx';
import { duration } from '../../format/time.ts';
import { emptyText, type Answer } from './answer.ts';
import { useLiveAnswer } from './state.tsx';
import { Fault } from './fault.tsx';
import { Logprobs } from './logprobs.tsx';
import { Numbers } from './numbers.tsx';
import { Reasoning } from './reasoning.tsx';
import { RichText } from './rich-text.tsx';
import { ToolCall } from './tool-calls.tsx';

interface AnswerViewProps {
  answer: Answer;
  /** The text of the selected choice, possibly edited. */
  text: string;
  onChoose: (choice: number) => void;
  onRetry: () => void;
  /** The calls of the selected choice; default: none. */
  calls?: ReactNode;
}

/** A finished response. */
export function AnswerView({ answer, text, onChoose, onRetry, calls }: AnswerViewProps) {
  const { choices, chosen, fault, usage } = answer;
  const choice = choices[chosen];
  const { logprobs = [], reasoning = '' } = choice ?? {};
  return (
    <>
      {choices.length > 1 && (
        <div className="mb-2 overflow-x-auto">
          <Segmented
            label="Choice"
            value={`${chosen}`}
            choices={choices.map((_, index) => ({ value: `${index}`, label: `Choice ${index + 1}` }))}
            onChange={(value) => onChoose(Number(value))}
          />
        </div>
      )}
      <Reasoning
        text={reasoning}
        tokenCount={choices.length === 1 && usage !== null ? usage.reasoningTokens : null}
      />
      {text !== '' && <RichText text={text} />}
      {calls}
      {text === '' && fault === null && (choice?.calls.length ?? 0) === 0 && (
        <p className="text-ink-3">{emptyText(answer)}</p>
      )}
      {fault !== null && (
        <div className={text === '' ? '' : 'mt-3'}>
          <Fault fault={fault} onRetry={onRetry} />
        </div>
      )}
      {(answer.requestId !== null || answer.totalMs !== null) && <Numbers answer={answer} />}
      {logprobs.length > 0 && <Logprobs tokens={logprobs} />}
    </>
  );
}

/** A response in progress. Updates at most once per frame, without rendering the rest of the page. */
export function LiveAnswerView({ id }: { id: string }) {
  const answer = useLiveAnswer(id);
  if (answer === undefined) return <p className="text-ink-3">No response was received.</p>;
  const hasBegun = answer.choices.some(
    ({ text, reasoning, calls }) => text !== '' || reasoning !== '' || calls.length > 0,
  );
  if (!hasBegun) {
    return (
      <p className="flex items-center gap-2 text-ink-3">
        <Spinner />
        {answer.requestId === null ? 'Waiting for the service' : 'Waiting for the first token'}
      </p>
    );
  }
  return (
    <div aria-busy="true" className="space-y-3">
      {answer.choices.map(({ text, reasoning, calls }, index) => (
        // The order of choices does not change.
        <div key={`${index}`}>
          {answer.choices.length > 1 && (
            <p className="mb-1 text-2xs font-medium text-ink-3">Choice {index + 1}</p>
          )}
          <Reasoning text={reasoning} tokenCount={null} />
          <RichText text={text} />
          {calls.map((call, position) => (
            // Calls are only appended.
            <div key={`${position}`} className="mt-3">
              <ToolCall call={call} isLive />
            </div>
          ))}
        </div>
      ))}
      <p className="flex items-center gap-2 text-xs text-ink-3 tabular-nums">
        <Spinner />
        Generating{answer.ttftMs !== null && `, first token after ${duration(answer.ttftMs)}`}
      </p>
    </div>
  );
}
