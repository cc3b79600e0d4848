import { ArrowLeftRight, Pencil, Play, RefreshCw, Trash2 } from 'lucide-react';
import { memo, useState } from 'react';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { CopyButton } from '../../components/copy.tsx';
import { AnswerView, LiveAnswerView } from './answer-view.tsx';
import { useActions, useIsLive, useIsRunning } from './state.tsx';
import type { Turn as TurnData } from './draft.ts';
import { ReasoningOpen } from './reasoning.tsx';
import { RichText } from './rich-text.tsx';
import { ToolCalls } from './tool-calls.tsx';
import { TypedText } from './typed-text.tsx';

const NAMES = { user: 'User', assistant: 'Assistant' } as const;

/** A turn of a conversation, with actions to edit, rerun or delete it, or to switch its role. */
export const Turn = memo(function Turn({ turn, isLast }: { turn: TurnData; isLast: boolean }) {
  const { change, runFrom } = useActions();
  const [editing, setEditing] = useState(false);
  const reasoningOpen = useState(false);
  const isLive = useIsLive(turn.id);
  const calls = <ToolCalls turn={turn} isLast={isLast} />;
  return (
    <article
      aria-label={NAMES[turn.role]}
      className={classNames(
        'group/turn rounded-xl px-4 py-3',
        turn.role === 'user' ? 'bg-sunken' : 'border border-line bg-surface',
      )}
    >
      <header className="mb-1 flex h-8 items-center justify-between gap-2">
        <span className="text-xs font-medium text-ink-2">{NAMES[turn.role]}</span>
        {!isLive && !editing && <TurnActions turn={turn} onEdit={() => setEditing(true)} />}
      </header>
      <ReasoningOpen value={reasoningOpen}>
        {editing ? (
          <EditTurn turn={turn} onDone={() => setEditing(false)} />
        ) : turn.answer !== null ? (
          <AnswerView
            answer={turn.answer}
            text={turn.text}
            calls={calls}
            onChoose={(choice) => change({ type: 'choose', id: turn.id, choice })}
            onRetry={() => runFrom(turn.id)}
          />
        ) : turn.role === 'assistant' && turn.text === '' && turn.calls.length === 0 ? (
          <LiveAnswerView id={turn.id} />
        ) : (
          <>
            <RichText text={turn.text} />
            {calls}
          </>
        )}
      </ReasoningOpen>
    </article>
  );
});

/** The actions of a turn. Visible on hover and keyboard focus, and always on touch devices. */
function TurnActions({ turn, onEdit }: { turn: TurnData; onEdit: () => void }) {
  const { change, remove, runFrom } = useActions();
  const isRunning = useIsRunning();
  const other = turn.role === 'user' ? 'assistant' : 'user';
  return (
    <div className="-mr-2 flex opacity-0 transition-opacity group-focus-within/turn:opacity-100 group-hover/turn:opacity-100 pointer-coarse:opacity-100">
      {turn.text !== '' && <CopyButton text={turn.text} what="text" />}
      <IconButton label="Edit" disabled={isRunning} onClick={onEdit}>
        <Pencil className="size-4" aria-hidden="true" />
      </IconButton>
      <IconButton
        label={turn.role === 'user' ? 'Run again from here' : 'Regenerate'}
        disabled={isRunning}
        onClick={() => runFrom(turn.id)}
      >
        {turn.role === 'user' ? (
          <Play className="size-4" aria-hidden="true" />
        ) : (
          <RefreshCw className="size-4" aria-hidden="true" />
        )}
      </IconButton>
      <IconButton
        label={`Change role to ${other}`}
        disabled={isRunning}
        onClick={() => change({ type: 'switch_role', turn: turn.id })}
      >
        <ArrowLeftRight className="size-4" aria-hidden="true" />
      </IconButton>
      <IconButton label="Delete" disabled={isRunning} onClick={() => remove(turn.id)}>
        <Trash2 className="size-4" aria-hidden="true" />
      </IconButton>
    </div>
  );
}

function EditTurn({ turn, onDone }: { turn: TurnData; onDone: () => void }) {
  const { change, runFrom } = useActions();
  const [text, setText] = useState(turn.text);
  const save = () => {
    if (text !== turn.text) change({ type: 'edit', turn: turn.id, text });
    onDone();
  };
  const run = () => {
    onDone();
    runFrom(turn.id, text === turn.text ? undefined : text);
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
