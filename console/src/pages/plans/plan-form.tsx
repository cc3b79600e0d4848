import { useMemo, useState } from 'react';
import { Code } from '../../components/code.tsx';
import { copyText } from '../../components/copy.tsx';
import { TextField } from '../../components/field.tsx';
import { Form } from '../../components/form.tsx';
import { LimitFields } from '../../components/limit-fields.tsx';
import { LIMIT_NAMES } from '../../format/limits.ts';
import { readLimits, typedLimits } from '../../format/typed-limits.ts';
import { typedAmount } from '../../format/typed-number.ts';
import { configured, plansYaml, type ConfiguredPlan, type Plan } from './plan-yaml.ts';

interface PlanFormProps {
  /** Id of the form, for a submit button outside of it. */
  id: string;
  initial: ConfiguredPlan;
  isNew: boolean;
  /** The present plans, of which the YAML has all. */
  plans: readonly Plan[];
}

/** Writes the YAML of the plans with a change, and copies it. */
export function PlanForm({ id, initial, isNew, plans }: PlanFormProps) {
  const [name, setName] = useState(initial.name);
  const [weight, setWeight] = useState(String(initial.weight));
  const [isSubmitted, setSubmitted] = useState(false);
  const [texts, setTexts] = useState(() => typedLimits(initial.limits));
  const others = configured(plans);
  const { limits, errors } = useMemo(() => {
    const typed = readLimits(texts);
    // A new form has no errors.
    const ofName = isNew && (name !== '' || isSubmitted) ? nameError(name, plans) : {};
    return { ...typed, errors: { ...typed.errors, ...ofName, ...weightError(weight) } };
  }, [texts, isNew, name, isSubmitted, plans, weight]);
  const changed = {
    name,
    limits: { ...limits, ...rest(initial.limits) },
    weight: Number(typedAmount(weight)),
  };
  const all = isNew ? [...others, changed] : others.map((plan) => (plan.name === name ? changed : plan));
  const defaultPlan = plans.find((plan) => plan.default)?.name ?? name;
  const isComplete = name !== '' && Object.keys(errors).length === 0;
  const yaml = plansYaml(all, defaultPlan);
  return (
    <Form
      id={id}
      errors={errors}
      onSubmit={() => {
        setSubmitted(true);
        if (isComplete) void copyText(yaml, 'YAML');
      }}
      className="space-y-5"
    >
      {isNew && (
        <TextField
          name="name"
          label="Name"
          hint="Lowercase letters, digits, _ and -"
          autoComplete="off"
          maxLength={64}
          value={name}
          onChange={(event) => setName(event.target.value)}
        />
      )}
      <LimitFields names={LIMIT_NAMES} limits={texts} onChange={setTexts} />
      <TextField
        name="weight"
        label="Weight"
        hint="Share of a busy model, compared with accounts on other plans. 2 gets twice as many tokens as 1."
        inputMode="decimal"
        autoComplete="off"
        value={weight}
        onChange={(event) => setWeight(event.target.value)}
      />
      <section aria-labelledby="yaml" className="space-y-3 border-t border-line pt-5">
        <h3 id="yaml" className="text-sm font-semibold">
          Configuration
        </h3>
        <p className="text-sm text-ink-2">
          Replace <Mono>plans</Mono> and <Mono>defaultPlan</Mono> in the configuration file with this. It has
          all plans{hasParts(initial.limits) && ', with the burst sizes and limits for models of this one'}. A
          running service applies it when the file is saved.
        </p>
        {isComplete ? (
          <Code text={yaml} what="YAML" label="Plans as YAML" language="yaml" />
        ) : (
          <p className="rounded-lg bg-sunken p-4 text-sm text-ink-3">
            {name === '' ? 'Enter a name to get the YAML.' : 'Correct the fields above to get the YAML.'}
          </p>
        )}
      </section>
    </Form>
  );
}

/** What the form does not change. */
function rest({
  burst,
  models,
}: ConfiguredPlan['limits']): Pick<ConfiguredPlan['limits'], 'burst' | 'models'> {
  return { ...(burst && { burst }), ...(models && { models }) };
}

const hasParts = (limits: ConfiguredPlan['limits']): boolean => Object.keys(rest(limits)).length > 0;

function nameError(name: string, plans: readonly Plan[]): Record<string, string> {
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/.test(name))
    return { name: 'Enter lowercase letters, digits, _ and -, beginning with a letter or digit.' };
  // A missing plan can be added again.
  return plans.some((plan) => plan.name === name && plan.limits !== null)
    ? { name: 'This plan exists.' }
    : {};
}

function weightError(text: string): Record<string, string> {
  const weight = Number(typedAmount(text) ?? Number.NaN);
  return weight >= 0.01 && weight <= 100 ? {} : { weight: 'Enter a number from 0.01 to 100.' };
}

function Mono({ children }: { children: string }) {
  return <code className="font-mono text-xs">{children}</code>;
}
