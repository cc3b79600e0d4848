import { Columns2, SquareTerminal, X } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Button, IconButton } from '../../components/button.tsx';
import { Segmented } from '../../components/choices.tsx';
import { classNames } from '../../components/class-names.ts';
import { Select } from '../../components/select.tsx';
import { Notice } from '../../components/states.tsx';
import { MAX_COLUMNS, modelsOf, type Column } from './draft.ts';
import { initialModel, stateOf, summaryOf, type Model } from './model-text.ts';
import { useActions, useIsRunning, usePlayground } from './state.tsx';

interface ColumnsProps {
  /** Accessible name of a column. */
  name: string;
  /** Renders the content of a column, below the selection of its model. */
  children: (column: Column) => ReactNode;
}

/** One or several columns, each with a model. Narrow windows show one at a time. */
export function Columns({ name, children }: ColumnsProps) {
  const { columns } = usePlayground().draft;
  const [shown, setShown] = useState(0);
  if (shown >= columns.length) setShown(0);
  const many = columns.length > 1;
  return (
    <>
      {many && <ColumnChoice shown={shown} onChoose={setShown} />}
      <div className="flex min-h-0 flex-1 divide-line overflow-x-auto md:divide-x">
        {columns.map((column, index) => (
          <section
            // Columns have no ID.
            key={`${index}`}
            aria-label={many ? `${name} ${index + 1}` : name}
            className={classNames(
              'relative min-w-0 flex-1 flex-col md:flex',
              columns.length > 2 && 'md:min-w-72',
              index === shown ? 'flex' : 'hidden',
            )}
          >
            <ColumnHead column={index} />
            {children(column)}
          </section>
        ))}
      </div>
    </>
  );
}

/** Selects the visible column on narrow windows. */
function ColumnChoice({ shown, onChoose }: { shown: number; onChoose: (column: number) => void }) {
  const { draft } = usePlayground();
  return (
    <div className="overflow-x-auto border-b border-line px-4 py-2 md:hidden">
      <Segmented
        label="Column"
        value={`${shown}`}
        choices={draft.columns.map(({ model }, index) => ({
          value: `${index}`,
          label: <span className="max-w-36 truncate">{model.split('/').at(-1)}</span>,
        }))}
        onChange={(value) => onChoose(Number(value))}
      />
    </div>
  );
}

/** Selects the model of a column, and adds or closes columns. */
function ColumnHead({ column }: { column: number }) {
  const { draft, models } = usePlayground();
  const { chooseModel, closeColumn } = useActions();
  const isRunning = useIsRunning();
  const model = draft.columns[column]?.model ?? '';
  const many = draft.columns.length > 1;
  return (
    <div className="flex items-center gap-2 border-b border-line px-4 py-1.5 sm:px-6 sm:py-2 lg:px-8">
      <Select
        label={many ? `Model ${column + 1}` : 'Model'}
        className="min-w-0 flex-1 sm:max-w-md"
        value={model}
        disabled={isRunning}
        choices={models.map((one) => ({ value: one.id, label: one.id, hint: summaryOf(one) }))}
        onChange={(id) => chooseModel(column, id)}
      />
      {column === draft.columns.length - 1 && draft.columns.length < MAX_COLUMNS && (
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
          icon={<Columns2 className="size-4" aria-hidden="true" />}
          onClick={() => chooseModel(draft.columns.length, initialModel(models, modelsOf(draft)))}
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
          onClick={() => closeColumn(column)}
        >
          <X className="size-4" aria-hidden="true" />
        </IconButton>
      )}
    </div>
  );
}

/** Like `NotReady`, for the model of a column. */
export function ModelNotice({ model }: { model: string }) {
  const { models } = usePlayground();
  const found = models.find(({ id }) => id === model);
  return found && <NotReady model={found} models={models} />;
}

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
export function EmptyColumn({ model }: { model: string }) {
  const { models } = usePlayground();
  const found = models.find(({ id }) => id === model);
  return (
    <div className="flex flex-col items-center px-2 py-8 text-center">
      <span className="mb-4 flex size-11 items-center justify-center rounded-full bg-accent-soft text-accent">
        <SquareTerminal className="size-5" aria-hidden="true" />
      </span>
      <h2 className="text-sm font-semibold break-all">
        {models.length === 0 ? 'No models that generate text' : `Chat with ${model.split('/').at(-1)}`}
      </h2>
      <p className="mt-1 max-w-md text-sm text-ink-3">
        {models.length === 0
          ? 'An operator can add models on the Models page.'
          : found && `${summaryOf(found)}.`}
      </p>
      <p className="mt-1 max-w-md text-sm text-ink-3">
        Requests are charged to your account and count toward its limits.
      </p>
    </div>
  );
}
