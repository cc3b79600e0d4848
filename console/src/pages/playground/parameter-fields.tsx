import { Field as BaseField } from '@base-ui/react/field';
import { ChevronRight, RotateCcw } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { Switch } from '../../components/choices.tsx';
import { classNames } from '../../components/class-names.ts';
import { Field } from '../../components/field.tsx';
import { INPUT } from '../../components/input.ts';
import { recommendedOf } from './request.ts';
import { boundsOf, type NumberParameter, type Settings } from './settings.ts';
import { useModels, usePlayground, usePlaygroundState, useSelectedModels } from './state.tsx';

export function useSettings() {
  const playground = usePlayground();
  const settings = usePlaygroundState(({ draft }) => draft.settings);
  const errors = usePlaygroundState((state) => state.errors);
  return { settings, errors, set: (values: Partial<Settings>) => playground.setSettings(values) };
}

interface SectionProps {
  title: string;
  /** Summary of the settings, next to the title; null: nothing is set. */
  note: string | null;
  /** Whether the section contains this parameter. Invalid input for such a parameter keeps the section open. */
  contains: (parameter: string) => boolean;
  children: ReactNode;
}

export function Section({ title, note, contains, children }: SectionProps) {
  const errors = usePlaygroundState((state) => state.errors);
  const content = useId();
  const [wanted, setWanted] = useState(false);
  const open = wanted || Object.keys(errors).some(contains);
  return (
    <section className="border-t border-line last-of-type:border-b">
      <h2>
        <button
          type="button"
          aria-expanded={open}
          aria-controls={content}
          onClick={() => setWanted(!open)}
          className="flex h-11 w-full items-center gap-2 text-left text-sm font-medium"
        >
          <ChevronRight
            className={`size-4 shrink-0 text-ink-3 transition-transform ${open ? 'rotate-90' : ''}`}
          />
          {title}
          {note !== null && <span className="ml-auto text-xs font-normal text-ink-3">{note}</span>}
        </button>
      </h2>
      <div id={content} hidden={!open} className="space-y-6 pt-2 pb-6">
        {children}
      </div>
    </section>
  );
}

/** An input for a number, with a slider for small ranges. Empty: the recommendation for the model, or the default. */
export function NumberField({ parameter }: { parameter: NumberParameter }) {
  const playground = usePlayground();
  const { settings, errors } = useSettings();
  const models = useModels();
  const { name, label, hint, step, unit, whole } = parameter;
  const values = new Set(useSelectedModels().map((model) => recommendedOf(models, model)[name]));
  const [recommended, ...others] = values;
  // The models of two columns can have different recommendations.
  const isMixed = others.length > 0;
  const unset = recommended === undefined || isMixed ? null : `${recommended}`;
  const fallback = unset ?? (isMixed ? 'Varies' : parameter.fallback);
  const typed = settings.numbers[name] ?? '';
  const set = (text: string) => playground.setNumber(name, text);
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
  return (
    <Field
      label={unit === undefined ? label : `${label} (${unit})`}
      error={errors[name]}
      hint={step === undefined ? `${boundsOf(parameter)}. ${hint}` : hint}
      aside={
        step === undefined ? (
          reset
        ) : (
          <span className="flex items-center gap-1">
            {reset}
            <span className="w-16">{input}</span>
          </span>
        )
      }
    >
      {step === undefined ? (
        input
      ) : (
        <Slider
          parameter={parameter}
          step={step}
          value={typed === '' ? (unset ?? parameter.fallback) : typed}
          unset={
            unset === null ? (isMixed ? 'varies by model' : `default ${fallback}`) : `recommended ${unset}`
          }
          onSlide={set}
        />
      )}
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

interface HintedSwitchProps {
  label: string;
  hint: string;
  checked: boolean;
  disabled?: boolean;
  onChange: (checked: boolean) => void;
}

export function HintedSwitch({ label, hint, ...props }: HintedSwitchProps) {
  return (
    <div>
      <Switch {...props}>{label}</Switch>
      <p className="mt-1 text-xs leading-5 text-ink-3">{hint}</p>
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
      <RotateCcw className="size-3.5" />
    </button>
  );
}
