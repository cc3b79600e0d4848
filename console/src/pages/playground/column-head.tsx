import { Columns2, X } from 'lucide-react';
import { Button, IconButton } from '../../components/button.tsx';
import { Select } from '../../components/select.tsx';
import { useIsRunning, usePlayground } from './context.ts';
import { initialModel, summaryOf } from './model-text.ts';
import { useColumns } from './use-columns.ts';

/** Selects the model of a column, and adds or closes a second column. */
export function ColumnHead({ column }: { column: number }) {
  const { draft, models } = usePlayground();
  const { choose, close } = useColumns();
  const isRunning = useIsRunning();
  const model = draft.columns[column]?.model ?? '';
  const many = draft.columns.length > 1;
  return (
    <div className="flex items-center gap-2 border-b border-line px-4 py-2 sm:px-6 lg:px-8">
      <Select
        label={many ? `Model ${column + 1}` : 'Model'}
        className="min-w-0 flex-1 sm:max-w-md"
        value={model}
        disabled={isRunning}
        choices={models.map((one) => ({ value: one.id, label: one.id, hint: summaryOf(one) }))}
        onChange={(id) => choose(column, id)}
      />
      {many ? (
        <IconButton
          label={`Close column ${column + 1}`}
          className="ml-auto"
          disabled={isRunning}
          onClick={() => close(column)}
        >
          <X className="size-4" aria-hidden="true" />
        </IconButton>
      ) : (
        <Button
          kind="quiet"
          className="ml-auto"
          disabled={isRunning || models.length < 2}
          title={models.length < 2 ? 'Comparing requires at least two models' : undefined}
          icon={<Columns2 className="size-4" aria-hidden="true" />}
          onClick={() => choose(1, initialModel(models, model))}
        >
          <span className="sr-only sm:not-sr-only">Compare</span>
        </Button>
      )}
    </div>
  );
}
