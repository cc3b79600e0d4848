import { Plus, X } from 'lucide-react';
import { Button, IconButton } from '../../components/button.tsx';
import { classNames } from '../../components/class-names.ts';
import { INPUT } from '../../components/field.tsx';
import { useActions, usePlayground } from './state.tsx';
import { MAX_STOPS } from './settings.ts';

/** Inputs for stop sequences. */
export function StopFields() {
  const { draft, errors } = usePlayground();
  const { change } = useActions();
  const { stop } = draft.settings;
  const set = (sequences: readonly string[]) => change({ type: 'settings', values: { stop: sequences } });
  return (
    <fieldset className="flex flex-col gap-1.5">
      <legend className="mb-1.5 text-xs font-medium text-ink-2">Stop sequences</legend>
      {stop.map((typed, index) => {
        const error = errors[`stop[${index}]`];
        return (
          // Sequences have no id.
          <div key={`${index}`}>
            <div className="flex items-center gap-1">
              <input
                aria-label={`Stop sequence ${index + 1}`}
                aria-invalid={error !== undefined}
                value={typed}
                autoComplete="off"
                onChange={(event) => set(stop.with(index, event.target.value))}
                className={classNames(INPUT, 'h-8 font-mono text-xs')}
              />
              <IconButton
                label={`Remove stop sequence ${index + 1}`}
                onClick={() => set(stop.filter((_, other) => other !== index))}
              >
                <X className="size-4" aria-hidden="true" />
              </IconButton>
            </div>
            {error !== undefined && <p className="mt-1 text-xs text-bad">{error}</p>}
          </div>
        );
      })}
      {stop.length < MAX_STOPS && (
        <Button
          size="small"
          className="self-start"
          icon={<Plus className="size-3.5" aria-hidden="true" />}
          onClick={() => set([...stop, ''])}
        >
          Add sequence
        </Button>
      )}
      <p className="text-xs leading-5 text-ink-3">
        Generation stops as soon as one of these sequences appears. At most {MAX_STOPS}. Use \n for a new
        line, \t for a tab and \\ for a backslash.
      </p>
    </fieldset>
  );
}
