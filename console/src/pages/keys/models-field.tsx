import { useId } from 'react';
import { useRead } from '../../api/queries.ts';
import { Checkbox, Segmented } from '../../components/choices.tsx';

interface ModelsFieldProps {
  /** Null: all. */
  chosen: readonly string[] | null;
  onChange: (chosen: readonly string[] | null) => void;
  /** What is wrong with it; null: nothing. */
  error: string | null;
}

/** Which models a key may use: all, those that come later too, or just these. */
export function ModelsField({ chosen, onChange, error }: ModelsFieldProps) {
  const label = useId();
  const models = useRead('listServedModels', undefined);
  const served = models.data?.data.map(({ id }) => id) ?? [];
  // A key may name models that are not served any more.
  const all = [...new Set([...served, ...(chosen ?? [])])];
  return (
    <div role="group" aria-labelledby={label} className="flex flex-col gap-1.5">
      <div className="flex flex-wrap items-center justify-between gap-2">
        <span id={label} className="text-xs font-medium text-ink-2">
          Models
        </span>
        <Segmented
          label="Models that it may use"
          value={chosen === null ? 'all' : 'some'}
          choices={[
            { value: 'all', label: 'All models' },
            { value: 'some', label: 'Only these' },
          ]}
          onChange={(which) => onChange(which === 'all' ? null : [])}
        />
      </div>
      {chosen === null ? (
        <p className="text-xs leading-5 text-ink-3">Those that are added later too.</p>
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
                <span className="text-xs text-ink-3"> is not served now</span>
              )}
            </Checkbox>
          ))}
          {all.length === 0 && (
            <p className="text-xs text-ink-3">
              {models.isPending
                ? 'Reading which there are.'
                : (models.error?.message ?? 'No model is served.')}
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
