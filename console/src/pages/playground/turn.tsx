import { CodeXml, Pencil, Play, RefreshCw, Text, Trash2 } from 'lucide-react';
import { memo, useRef, useState } from 'react';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { CopyButton } from '../../components/copy.tsx';
import { isCompleteCall, isInProgress } from './answer.ts';
import { AnswerView, Source, ToolCall } from './answer-view.tsx';
import { edited, sentCalls, withResult, type Turn as TurnData } from './draft.ts';
import { useIsRunning, usePlayground } from './state.tsx';
import { Thumbnails } from './images.tsx';
import { Markdown } from './markdown-view.tsx';
import { TypedText } from './typed-text.tsx';

const NAMES = { user: 'User', assistant: 'Assistant' } as const;

export const Turn = memo(function Turn({ turn, isLast }: { turn: TurnData; isLast: boolean }) {
  const [editing, setEditing] = useState(false);
  const [showsSource, setShowsSource] = useState(false);
  const isLive = turn.answer !== null && isInProgress(turn.answer);
  const calls = <ToolCalls turn={turn} isLast={isLast} isLive={isLive} />;
  return (
    <article
      aria-label={NAMES[turn.role]}
      className={classNames(
        'group/turn rounded-xl px-3 py-2 sm:px-4 sm:py-3',
        turn.role === 'user' ? 'bg-sunken' : 'border border-line bg-surface',
      )}
    >
      <header className="mb-1 flex h-8 items-center justify-between gap-2">
        <span className="text-xs font-medium text-ink-2">{NAMES[turn.role]}</span>
        {!isLive && !editing && (
          <TurnActions
            turn={turn}
            onEdit={() => setEditing(true)}
            showsSource={showsSource}
            onShowSource={setShowsSource}
          />
        )}
      </header>
      {editing ? (
        <EditTurn turn={turn} onDone={() => setEditing(false)} />
      ) : turn.answer !== null ? (
        <AnswerView turn={turn} answer={turn.answer} calls={calls} showsSource={showsSource} />
      ) : (
        <>
          {turn.role === 'user' && <Thumbnails images={turn.images} />}
          {turn.role === 'user' || showsSource ? <Source text={turn.text} /> : <Markdown text={turn.text} />}
          {calls}
        </>
      )}
      {isLast && !editing && isCutOff(turn) && <ContinueButton turn={turn.id} />}
    </article>
  );
});

/** Returns whether a response has a text that the user or the token limit ended. */
function isCutOff({ text, calls, answer }: TurnData): boolean {
  if (answer === null || text === '' || calls.length > 0) return false;
  return answer.stopped || answer.choices[answer.chosen]?.finish === 'length';
}

function ContinueButton({ turn }: { turn: string }) {
  const playground = usePlayground();
  const isRunning = useIsRunning();
  return (
    <Button
      size="small"
      className="mt-3"
      disabled={isRunning}
      title="Sends a message that asks the model to continue where it stopped"
      icon={<Play />}
      onClick={() => playground.continueText(turn)}
    >
      Continue
    </Button>
  );
}

interface TurnActionsProps {
  turn: TurnData;
  onEdit: () => void;
  showsSource: boolean;
  onShowSource: (shows: boolean) => void;
}

/** The actions of a turn. Visible on hover and keyboard focus, and always on touch devices. */
function TurnActions({ turn, onEdit, showsSource, onShowSource }: TurnActionsProps) {
  const playground = usePlayground();
  const isRunning = useIsRunning();
  return (
    <div className="-mr-2 flex opacity-0 transition-opacity group-focus-within/turn:opacity-100 group-hover/turn:opacity-100 pointer-coarse:opacity-100">
      {turn.text !== '' && <CopyButton text={turn.text} what="text" />}
      {turn.text !== '' && turn.role === 'assistant' && (
        <IconButton
          label={showsSource ? 'Show formatted text' : 'Show source'}
          onClick={() => onShowSource(!showsSource)}
        >
          {showsSource ? <Text /> : <CodeXml />}
        </IconButton>
      )}
      <IconButton label="Edit" disabled={isRunning} onClick={onEdit}>
        <Pencil />
      </IconButton>
      <IconButton
        label={turn.role === 'user' ? 'Run again from here' : 'Regenerate'}
        disabled={isRunning}
        onClick={() => playground.runFrom(turn.id)}
      >
        {turn.role === 'user' ? <Play /> : <RefreshCw />}
      </IconButton>
      <IconButton label="Delete" disabled={isRunning} onClick={() => playground.remove(turn.id)}>
        <Trash2 />
      </IconButton>
    </div>
  );
}

function EditTurn({ turn, onDone }: { turn: TurnData; onDone: () => void }) {
  const playground = usePlayground();
  const [text, setText] = useState(turn.text);
  const save = () => {
    if (text !== turn.text) playground.change((draft) => edited(draft, turn.id, text));
    onDone();
  };
  const run = () => {
    onDone();
    playground.runFrom(turn.id, text === turn.text ? undefined : text);
  };
  const runs = turn.role === 'user';
  return (
    <>
      <TypedText
        label={`Edit ${turn.role} message`}
        value={text}
        focused
        onChange={setText}
        onSend={runs ? run : save}
        onEscape={onDone}
        className="min-h-20"
      />
      <div className="mt-2 flex flex-wrap justify-end gap-2">
        <Button size="small" kind="quiet" onClick={onDone}>
          Cancel
        </Button>
        <Button size="small" onClick={save}>
          Save
        </Button>
        {runs && (
          <Button size="small" onClick={run}>
            Save and run
          </Button>
        )}
      </div>
    </>
  );
}

function ToolCalls({ turn, isLast, isLive }: { turn: TurnData; isLast: boolean; isLive: boolean }) {
  const playground = usePlayground();
  const isRunning = useIsRunning();
  const list = useRef<HTMLDivElement>(null);
  const { calls } = turn;
  if (calls.length === 0) return null;
  const sent = sentCalls(turn);
  const missing = sent.filter(({ result }) => result === '').length;
  const submit = () => {
    if (missing === 0) playground.continueFrom(turn.id);
    else [...(list.current?.querySelectorAll('textarea') ?? [])].find(({ value }) => value === '')?.focus();
  };
  return (
    <div ref={list} className="mt-3 space-y-3">
      {calls.map((call, index) => (
        // The ID of a call can arrive after its beginning, but calls are only appended.
        <ToolCall key={`${index}`} call={call} isLive={isLive}>
          {isLive ? null : isCompleteCall(call) ? (
            <div className="border-t border-line p-2">
              <TypedText
                label={`Result of ${call.name}${calls.length > 1 ? `, call ${index + 1}` : ''}`}
                placeholder="Enter the result, as JSON or text"
                value={call.result}
                onChange={(result) =>
                  playground.change((draft) => withResult(draft, turn.id, call.id, result))
                }
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
      {!isLive && sent.length > 0 && (
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
