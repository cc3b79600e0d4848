import { Segmented } from '../../components/choices.tsx';
import { Spinner } from '../../components/spinner.tsx';
import { duration } from '../../format/time.ts';
import type { Answer } from './answer.ts';
import { useLiveAnswer } from './context.ts';
import { Fault } from './fault.tsx';
import { Logprobs } from './logprobs.tsx';
import { Numbers } from './numbers.tsx';
import { Reasoning } from './reasoning.tsx';
import { RichText } from './rich-text.tsx';

interface AnswerViewProps {
  answer: Answer;
  /** What is read: a choice of the answer, or what was made of it. */
  text: string;
  onChoose: (choice: number) => void;
  onRetry: () => void;
}

/** An answer that has come to its end. */
export function AnswerView({ answer, text, onChoose, onRetry }: AnswerViewProps) {
  const { choices, chosen, fault } = answer;
  const { logprobs = [], reasoning = '' } = choices[chosen] ?? {};
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
      <Reasoning text={reasoning} />
      {text !== '' && <RichText text={text} />}
      {text === '' && fault === null && (
        <p className="text-ink-3">
          {answer.stopped ? 'Stopped before a word came.' : 'The answer is empty.'}
        </p>
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

/** An answer that is under way: drawn with every frame in which something came, by itself. */
export function LiveAnswerView({ id }: { id: string }) {
  const answer = useLiveAnswer(id);
  if (answer === undefined) return <p className="text-ink-3">The answer did not come.</p>;
  const begun = answer.choices.filter(({ text, reasoning }) => text !== '' || reasoning !== '');
  if (begun.length === 0) {
    return (
      <p className="flex items-center gap-2 text-ink-3">
        <Spinner />
        {answer.requestId === null ? 'Waiting for the service' : 'Waiting for the first token'}
      </p>
    );
  }
  return (
    <div aria-busy="true" className="space-y-3">
      {answer.choices.map(({ text, reasoning }, index) => (
        // Choices keep their places.
        <div key={`${index}`}>
          {answer.choices.length > 1 && (
            <p className="mb-1 text-2xs font-medium text-ink-3">Choice {index + 1}</p>
          )}
          <Reasoning text={reasoning} open={text === ''} />
          <RichText text={text} />
        </div>
      ))}
      <p className="flex items-center gap-2 text-xs text-ink-3 tabular-nums">
        <Spinner />
        Answering{answer.ttftMs !== null && `, first token after ${duration(answer.ttftMs)}`}
      </p>
    </div>
  );
}
