import { Field as BaseField } from '@base-ui/react/field';
import { RotateCcw } from 'lucide-react';
import { classNames } from '../../components/class-names.ts';
import { Field, INPUT } from '../../components/field.tsx';
import { useActions, usePlayground } from './context.ts';
import { boundsOf, type NumberParameter } from './parameters.ts';

/** One number: typed, or slid where its values are few enough. Empty: as the service has it by itself. */
export function NumberField({ parameter }: { parameter: NumberParameter }) {
  const { draft, faults } = usePlayground();
  const { change } = useActions();
  const { name, label, hint, fallback, step, min, max, unit, whole } = parameter;
  const typed = draft.settings.numbers[name] ?? '';
  const set = (text: string) => change({ type: 'number', name, typed: text });
  const input = (
    <BaseField.Control
      value={typed}
      placeholder={fallback}
      inputMode={whole ? 'numeric' : 'decimal'}
      autoComplete="off"
      onValueChange={(text) => set(text)}
      className={classNames(INPUT, 'h-8 tabular-nums', step !== undefined && 'w-20 text-right')}
    />
  );
  return (
    <Field
      label={unit === undefined ? label : `${label}, ${unit}`}
      error={faults[name]}
      hint={`${hint} ${boundsOf(parameter)}, default: ${fallback}.`}
      aside={
        <span className="flex items-center gap-1">
          <Reset label={label} isSet={typed !== ''} onReset={() => set('')} />
          {step !== undefined && input}
        </span>
      }
    >
      {step === undefined ? (
        input
      ) : (
        <input
          type="range"
          aria-label={`${label}, slider`}
          min={min}
          max={max}
          step={step}
          value={typed === '' ? fallback : typed}
          onChange={(event) => set(event.target.value)}
          className="h-4 w-full cursor-pointer accent-accent"
        />
      )}
    </Field>
  );
}

/** Gives a parameter back to the service. Its place is kept where there is nothing to give back. */
export function Reset({ label, isSet, onReset }: { label: string; isSet: boolean; onReset: () => void }) {
  return (
    <button
      type="button"
      aria-label={`Reset ${label.toLowerCase()}`}
      title="Reset"
      onClick={onReset}
      className={classNames(
        'inline-flex size-6 items-center justify-center rounded-md text-ink-3 hover:bg-hover hover:text-ink',
        !isSet && 'invisible',
      )}
    >
      <RotateCcw className="size-3.5" aria-hidden="true" />
    </button>
  );
}
