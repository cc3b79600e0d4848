import { useRead } from '../../api/queries.ts';
import { Field } from '../../components/field.tsx';
import { LoadFailure } from '../../components/loaded.tsx';
import { Select } from '../../components/select.tsx';
import { Skeleton } from '../../components/states.tsx';
import { planChoices } from './plan-choices.ts';

interface PlanFieldProps {
  /** See `planChoice`. */
  value: string;
  onChange: (value: string) => void;
  hint?: string;
}

/** Selects a plan. A plan missing from the configuration can be kept but not chosen. */
export function PlanField({ value, onChange, hint }: PlanFieldProps) {
  const plans = useRead('listPlans', undefined);
  if (plans.data === undefined && plans.error === null) return <Skeleton className="h-15 w-full" />;
  if (plans.data === undefined) return <LoadFailure query={plans} what="the plans" />;
  const known = planChoices(plans.data.data);
  const choices = known.some((choice) => choice.value === value)
    ? known
    : [...known, { value, label: value, hint: 'not in the configuration', disabled: true }];
  return (
    <Field name="plan" label="Plan" hint={hint}>
      <Select value={value} choices={choices} onChange={onChange} />
    </Field>
  );
}
