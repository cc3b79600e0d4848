import { Field as BaseField } from '@base-ui/react/field';
import { RotateCcw } from 'lucide-react';
import { classNames } from '../../components/class-names.ts';
import { Field, INPUT } from '../../components/field.tsx';
import { useActions, usePlayground } from './state.tsx';
import { boundsOf, type NumberParameter } from './settings.ts';
import { recommendedOf } from './request.ts';

/** An input for a number, with a slider for small ranges. Empty: the recommendation for the model, or the default. */
export function NumberField({ parameter }: { parameter: NumberParameter }) {
  const { draft, errors, models } = usePlayground();
  const { change } = useActions();
  const { name, label, hint, step, unit, whole } = parameter;
  const values = new Set(draft.columns.map(({ model }) => recommendedOf(models, model)[name]));
  const [recommended, ...others] = values;
  // The models of two columns can have different recommendations.
  const isMixed = others.length > 0;
  const unset = recommended === undefined || isMixed ? null : `${recommended}`;
  const fallback = unset ?? (isMixed ? 'Varies' : parameter.fallback);
  const typed = draft.settings.numbers[name] ?? '';
  const set = (text: string) => change({ type: 'number', name, typed: text });
  const reset = <Reset label={label} isSet={typed !== ''} onReset={() => set('')} />;
  const input = (
    <BaseField.Control
      value={typed}
      placeholder={fallback}
      inputMode={whole ? 'numeric' : 'decimal'}
      autoComplete="off"
      onValueChange={(text) => set(text)}
      className={classNames(INPUT, 'h-8 tabular-nums', step !== undefined && 'px-2 text-right')}
    />
  );
  const named = unit === undefined ? label : `${label} (${unit})`;
  if (step === undefined) {
    return (
      <Field label={named} error={errors[name]} hint={`${boundsOf(parameter)}. ${hint}`} aside={reset}>
        {input}
      </Field>
    );
  }
  return (
    <Field
      label={named}
      error={errors[name]}
      hint={hint}
      aside={
        <span className="flex items-center gap-1">
          {reset}
          <span className="w-16">{input}</span>
        </span>
      }
    >
      <Slider
        parameter={parameter}
        step={step}
        value={typed === '' ? (unset ?? parameter.fallback) : typed}
        unset={
          unset === null ? (isMixed ? 'varies by model' : `default ${fallback}`) : `recommended ${unset}`
        }
        onSlide={set}
      />
    </Field>
  );
}

interface SliderProps {
  parameter: NumberParameter;
  step: number;
  value: string;
  /** Text for the default that applies if there is no value. */
  unset: string;
  onSlide: (value: string) => void;
}

/** A slider labeled with its bounds and its default. */
function Slider({ parameter, step, value, unset, onSlide }: SliderProps) {
  const { label, min, max, aboveMin } = parameter;
  return (
    <div>
      <input
        type="range"
        aria-label={`${label}, slider`}
        min={aboveMin ? min + step : min}
        max={max}
        step={step}
        value={value}
        onChange={(event) => onSlide(event.target.value)}
        className="block h-4 w-full cursor-pointer accent-accent"
      />
      <p className="mt-0.5 flex justify-between text-2xs text-ink-3 tabular-nums">
        <span>{aboveMin ? `> ${min}` : min}</span>
        <span>{unset}</span>
        <span>{max}</span>
      </p>
    </div>
  );
}

/** A reset button. Invisible but keeps its space if the parameter is not set. */
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
