import { useId } from 'react';
import { useRead } from '../../api/queries.ts';
import { Checkbox, Segmented } from '../../components/choices.tsx';

interface ModelsFieldProps {
  /** Null: all. */
  chosen: readonly string[] | null;
  onChange: (chosen: readonly string[] | null) => void;
  /** Validation error. */
  error: string | null;
}

/** Selects the models that a key may use: all, including later ones, or a list. */
export function ModelsField({ chosen, onChange, error }: ModelsFieldProps) {
  const label = useId();
  const models = useRead('listServedModels', undefined);
  const served = models.data?.data.map(({ id }) => id) ?? [];
  // A key may name models that are no longer configured.
  const all = [...new Set([...served, ...(chosen ?? [])])];
  return (
    <div role="group" aria-labelledby={label} className="flex flex-col gap-1.5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span id={label} className="text-xs font-medium text-ink-2">
          Models
        </span>
        <Segmented
          label="Allowed models"
          value={chosen === null ? 'all' : 'some'}
          choices={[
            { value: 'all', label: 'All models' },
            { value: 'some', label: 'Selected models' },
          ]}
          onChange={(which) => onChange(which === 'all' ? null : [])}
        />
      </div>
      {chosen === null ? (
        <p className="text-xs leading-5 text-ink-3">Includes models added later</p>
      ) : (
        <div className="max-h-52 space-y-2.5 overflow-y-auto rounded-lg border border-line-strong p-3">
          {all.map((id) => (
            <Checkbox
              key={id}
              checked={chosen.includes(id)}
              onChange={(checked) =>
                onChange(all.filter((one) => (one === id ? checked : chosen.includes(one))))
              }
            >
              <span className="font-mono text-xs break-all">{id}</span>
              {models.data !== undefined && !served.includes(id) && (
                <span className="text-xs text-ink-3"> (not available)</span>
              )}
            </Checkbox>
          ))}
          {all.length === 0 && (
            <p className="text-xs text-ink-3">
              {models.isPending ? 'Loading models' : (models.error?.message ?? 'No models configured')}
            </p>
          )}
        </div>
      )}
      {error !== null && (
        <p role="alert" className="text-xs text-bad">
          {error}
        </p>
      )}
    </div>
  );
}
