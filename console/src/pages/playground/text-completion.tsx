import { useState } from 'react';
import { Button } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { CopyButton } from '../../components/copy.tsx';
import type { Answer } from './answer.ts';
import { AnswerView, LiveAnswerView } from './answer-view.tsx';
import { ColumnChoice } from './chat.tsx';
import { ColumnHead } from './column-head.tsx';
import { SendOrStop } from './composer.tsx';
import { useActions, useIsRunning, usePlayground } from './context.ts';
import type { Column } from './draft.ts';
import { EmptyColumn } from './empty-column.tsx';
import { Starters } from './starters.tsx';
import { StorageNotice } from './storage-notice.tsx';
import { ModelNotice } from './model-notice.tsx';
import { TypedText } from './typed-text.tsx';

/** The text mode: a prompt and its completion by one or two models. */
export function TextCompletion() {
  const { draft } = usePlayground();
  const { change, send } = useActions();
  const [seen, setSeen] = useState(0);
  return (
    <div className="flex h-full flex-col">
      <div className="border-b border-line bg-surface">
        <div className="mx-auto max-w-3xl px-4 pt-3 pb-2 sm:px-6">
          <TypedText
            label="Prompt"
            placeholder="Write the beginning of a text"
            value={draft.prompt}
            onChange={(prompt) => change({ type: 'set', values: { prompt } })}
            onSend={send}
            className="max-h-[30dvh] min-h-24"
          />
          <Starters className="mt-2" />
          <div className="mt-1 flex items-center justify-between gap-3">
            <StorageNotice />
            <SendOrStop label="Complete" disabled={draft.prompt === ''} />
          </div>
        </div>
      </div>
      <ColumnChoice seen={seen} onSee={setSeen} />
      <div className="flex min-h-0 flex-1 divide-line md:divide-x">
        {draft.columns.map((column, index) => (
          // Columns have no id; only the second one is ever added or removed.
          <Completed key={`${index}`} column={column} index={index} isSeen={index === seen} />
        ))}
      </div>
    </div>
  );
}

function Completed({ column, index, isSeen }: { column: Column; index: number; isSeen: boolean }) {
  const { draft } = usePlayground();
  const { completion } = column;
  return (
    <section
      aria-label={draft.columns.length > 1 ? `Completion ${index + 1}` : 'Completion'}
      className={classNames('min-w-0 flex-1 flex-col md:flex', isSeen ? 'flex' : 'hidden')}
    >
      <ColumnHead column={index} />
      <div tabIndex={0} className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2">
        <div className="mx-auto max-w-3xl space-y-3 px-4 py-4 sm:px-6">
          <ModelNotice model={column.model} />
          {completion === null && <EmptyColumn model={column.model} />}
          {completion !== null && (
            <article aria-label="Response" className="rounded-xl border border-line bg-surface px-4 py-3">
              {completion.answer === null ? (
                <LiveAnswerView id={completion.id} />
              ) : (
                <Ended id={completion.id} answer={completion.answer} />
              )}
            </article>
          )}
        </div>
      </div>
    </section>
  );
}

function Ended({ id, answer }: { id: string; answer: Answer }) {
  const { draft } = usePlayground();
  const { change, send } = useActions();
  const isRunning = useIsRunning();
  const text = answer.choices[answer.chosen]?.text ?? '';
  // With `echo` the text includes the prompt.
  const whole = text.startsWith(draft.prompt) && draft.settings.echo ? text : draft.prompt + text;
  return (
    <>
      <header className="mb-1 flex h-8 items-center gap-1">
        <span className="mr-auto text-xs font-medium text-ink-2">Completion</span>
        {text !== '' && <CopyButton text={text} what="text" />}
        {text !== '' && (
          <Button
            size="small"
            kind="quiet"
            disabled={isRunning}
            onClick={() => change({ type: 'set', values: { prompt: whole } })}
          >
            Append to prompt
          </Button>
        )}
      </header>
      <AnswerView
        answer={answer}
        text={text}
        onChoose={(choice) => change({ type: 'choose', id, choice })}
        onRetry={send}
      />
    </>
  );
}
