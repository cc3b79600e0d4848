import { ArrowDown, ChevronRight, Columns2, SquareTerminal, X } from 'lucide-react';
import { memo, useEffect, useState } from 'react';
import { useStickToBottom } from 'use-stick-to-bottom';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { Select } from '../../components/select.tsx';
import { EmptyState, Notice } from '../../components/states.tsx';
import { Composer } from './composer.tsx';
import { MAX_COLUMNS, type Column } from './draft.ts';
import { initialModel, stateOf, summaryOf, type Model } from './model-text.ts';
import { useIsRunning, useModels, usePlayground, usePlaygroundState, useSelectedModels } from './state.tsx';
import { Turn } from './turn.tsx';
import { TypedText } from './typed-text.tsx';

export function Chat() {
  return (
    <div className="flex h-full flex-col">
      <SystemPrompt />
      <Columns />
      <Composer />
    </div>
  );
}

/** The system prompt, collapsed to one line until it is edited. */
function SystemPrompt() {
  const playground = usePlayground();
  const system = usePlaygroundState(({ draft }) => draft.system);
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
        />
        <span className="shrink-0 font-medium">System prompt</span>
        {!open && <span className="truncate text-ink-3">{system.trim() || 'None'}</span>}
      </button>
      {open && (
        <TypedText
          label="System prompt"
          placeholder="You are a careful assistant. Answer in one sentence."
          value={system}
          focused
          onChange={(typed) => playground.set({ system: typed })}
          onSend={() => playground.send()}
          className="mb-3 max-h-48"
        />
      )}
    </div>
  );
}

function Conversation({ column }: { column: Column }) {
  const models = useModels();
  const found = models.find(({ id }) => id === column.model);
  const last = column.turns.at(-1)?.id;
  const { scrollRef, contentRef, isAtBottom, scrollToBottom } = useStickToBottom({
    initial: last === undefined ? false : 'instant',
    resize: 'instant',
  });
  // A new turn scrolls to the end.
  useEffect(() => {
    if (last !== undefined) void scrollToBottom();
  }, [last, scrollToBottom]);
  return (
    <>
      <div
        ref={scrollRef}
        tabIndex={0}
        className="min-h-0 flex-1 overflow-y-auto focus-visible:-outline-offset-2"
      >
        <div ref={contentRef} className="mx-auto max-w-3xl space-y-3 px-2 py-3 sm:px-6 sm:py-4">
          {found && <NotReady model={found} models={models} />}
          {column.turns.length === 0 && <EmptyColumn model={column.model} found={found} />}
          {column.turns.map((turn) => (
            <Turn key={turn.id} turn={turn} isLast={turn.id === last} />
          ))}
        </div>
      </div>
      {!isAtBottom && last !== undefined && (
        <div className="pointer-events-none absolute inset-x-0 bottom-3 flex justify-center">
          <Button
            size="small"
            className="pointer-events-auto shadow-popup"
            icon={<ArrowDown />}
            onClick={() => void scrollToBottom()}
          >
            Scroll to latest
          </Button>
        </div>
      )}
    </>
  );
}

/** One or several columns, each with a model, which scroll sideways if the window is narrow. */
function Columns() {
  const columns = usePlaygroundState(({ draft }) => draft.columns);
  const many = columns.length > 1;
  return (
    <div className="flex min-h-0 flex-1 divide-x divide-line overflow-x-auto max-md:snap-x max-md:snap-mandatory">
      {columns.map((column, index) => (
        <section
          // Columns have no ID.
          key={`${index}`}
          aria-label={many ? `Conversation ${index + 1}` : 'Conversation'}
          className={classNames(
            'relative flex min-w-0 flex-1 snap-start flex-col',
            many && 'max-md:min-w-[85%]',
            columns.length > 2 && 'md:min-w-72',
          )}
        >
          <ColumnHead column={index} />
          <Conversation column={column} />
        </section>
      ))}
    </div>
  );
}

/** Selects the model of a column, and adds or closes columns. Not rendered again with each frame of a response. */
const ColumnHead = memo(function ColumnHead({ column }: { column: number }) {
  const playground = usePlayground();
  const models = useModels();
  const selected = useSelectedModels();
  const isRunning = useIsRunning();
  const many = selected.length > 1;
  return (
    <div className="flex items-center gap-2 border-b border-line px-4 py-1.5 sm:px-6 sm:py-2 lg:px-8">
      <Select
        label={many ? `Model ${column + 1}` : 'Model'}
        className="min-w-0 flex-1 sm:max-w-md"
        value={selected[column] ?? ''}
        disabled={isRunning}
        choices={models.map((one) => ({ value: one.id, label: one.id, hint: summaryOf(one) }))}
        onChange={(id) => playground.chooseModel(column, id)}
      />
      {column === selected.length - 1 && selected.length < MAX_COLUMNS && (
        <Button
          kind="quiet"
          className="ml-auto px-2"
          disabled={isRunning || models.length < 2}
          title={
            models.length < 2
              ? 'Comparing requires at least two models'
              : many
                ? 'Compare another model'
                : undefined
          }
          icon={<Columns2 />}
          onClick={() => playground.chooseModel(selected.length, initialModel(models, selected))}
        >
          <span className={many ? 'sr-only' : 'sr-only sm:not-sr-only'}>
            {many ? 'Compare another model' : 'Compare'}
          </span>
        </Button>
      )}
      {many && (
        <IconButton
          label={`Close column ${column + 1}`}
          disabled={isRunning}
          onClick={() => playground.closeColumn(column)}
        >
          <X />
        </IconButton>
      )}
    </div>
  );
});

/** Shows the progress of a model that is not ready, and names another one of `models` that is. */
export function NotReady({ model, models }: { model: Model; models: readonly Model[] }) {
  if (model.state === 'ready') return null;
  const ready = models.find(({ state }) => state === 'ready');
  const others = models.filter(({ id, state }) => id !== model.id && state !== 'ready' && state !== 'down');
  return (
    <Notice tone={model.state === 'down' ? 'bad' : 'warn'} title={`${model.id} is not ready`}>
      <p>
        {stateOf(model)}
        {model.reason !== null && `: ${model.reason}`}.{' '}
        {ready
          ? `${ready.id} is ready; select it instead.`
          : `No model is ready.${others.map((one) => ` ${one.id}: ${stateOf(one).toLowerCase()}.`).join('')}`}
      </p>
    </Notice>
  );
}

/** A column without a conversation: names its model. */
function EmptyColumn({ model, found }: { model: string; found: Model | undefined }) {
  const models = useModels();
  const hasModels = models.length > 0;
  return (
    <EmptyState
      icon={SquareTerminal}
      title={hasModels ? `Chat with ${model.split('/').at(-1)}` : 'No models that generate text'}
    >
      <p>{hasModels ? found && `${summaryOf(found)}.` : 'An operator can add models on the Models page.'}</p>
      <p className="mt-1">Requests are charged to your account and count toward its limits.</p>
    </EmptyState>
  );
}
