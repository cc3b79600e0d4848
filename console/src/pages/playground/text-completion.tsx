import { Button } from '../../components/button.tsx';
import { CopyButton } from '../../components/copy.tsx';
import type { Answer } from './answer.ts';
import { AnswerView, LiveAnswerView } from './answer-view.tsx';
import { Columns, EmptyColumn, ModelNotice } from './columns.tsx';
import { SendOrStop, Starters, StorageNotice } from './composer.tsx';
import { isUnused, withoutPrompt, type Column } from './draft.ts';
import { useActions, useIsRunning, usePlayground } from './state.tsx';
import { TypedText } from './typed-text.tsx';

/** The text mode: a prompt and its completion by one or several models. */
export function TextCompletion() {
  const { draft } = usePlayground();
  const { change, send } = useActions();
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
            <StorageNotice
              clears={{
                what: 'prompt',
                isEmpty: draft.prompt === '' && isUnused(draft),
                clear: withoutPrompt,
              }}
            />
            <SendOrStop label="Complete" disabled={draft.prompt === ''} />
          </div>
        </div>
      </div>
      <Columns name="Completion">{(column) => <Completed column={column} />}</Columns>
    </div>
  );
}

function Completed({ column: { model, completion } }: { column: Column }) {
  return (
    <div tabIndex={0} className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2">
      <div className="mx-auto max-w-3xl space-y-3 px-4 py-4 sm:px-6">
        <ModelNotice model={model} />
        {completion === null ? (
          <EmptyColumn model={model} />
        ) : (
          <article aria-label="Response" className="rounded-xl border border-line bg-surface px-4 py-3">
            {completion.answer === null ? (
              <LiveAnswerView id={completion.id} showsSource />
            ) : (
              <Ended id={completion.id} answer={completion.answer} />
            )}
          </article>
        )}
      </div>
    </div>
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
        showsSource
      />
    </>
  );
}
