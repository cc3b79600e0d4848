import { useEffect, useId, useState, type SubmitEvent } from 'react';
import type { ApiError } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { Field, TextField } from '../../components/field.tsx';
import { useFieldErrors } from '../../components/field-errors.ts';
import { FormError } from '../../components/form-error.tsx';
import { Select } from '../../components/select.tsx';
import type { Account } from './account-labels.tsx';
import { chosenPlan, planChoice, planChoices } from './plan-choices.ts';

interface ChangeProps {
  account: Account;
  open: boolean;
  onClose: () => void;
}

/** Renames an account. */
export function RenameAccount({ account, open, onClose }: ChangeProps) {
  const form = useId();
  const change = useChange(open, ({ name }) => `Account renamed to ${name}`);
  return (
    <Dialog
      modal
      open={open}
      onClose={onClose}
      title={`Rename ${account.name}`}
      hint="The account ID does not change."
      actions={<FormActions form={form} action="Rename" busy={change.isPending} onCancel={onClose} />}
    >
      <NameForm
        id={form}
        name={account.name}
        error={change.error}
        onSubmit={(name) =>
          change.mutate({ params: { id: account.id }, body: { name } }, { onSuccess: onClose })
        }
      />
    </Dialog>
  );
}

/** Changes the plan of an account. */
export function ChangePlan({ account, open, onClose }: ChangeProps) {
  const form = useId();
  const change = useChange(
    open,
    ({ name, plan }) => `${name} is now on ${plan === null ? 'the default plan' : `plan ${plan}`}`,
  );
  return (
    <Dialog
      modal
      open={open}
      onClose={onClose}
      title={`Change plan of ${account.name}`}
      hint="Takes effect with the next request. Usage so far counts toward the new limits."
      actions={<FormActions form={form} action="Change plan" busy={change.isPending} onCancel={onClose} />}
    >
      <PlanForm
        id={form}
        plan={account.plan}
        error={change.error}
        onSubmit={(plan) =>
          change.mutate({ params: { id: account.id }, body: { plan } }, { onSuccess: onClose })
        }
      />
    </Dialog>
  );
}

function useChange(open: boolean, done: (account: Account) => string) {
  const change = useAction('changeAccount', {
    changes: ['getAccount', 'listAccounts', 'listPlans', 'listAudit', 'readLimits', 'getSession'],
    done,
    quiet: true,
  });
  const { reset } = change;
  useEffect(() => {
    if (open) reset();
  }, [open, reset]);
  return change;
}

interface FormProps {
  id: string;
  error: ApiError | null;
}

function NameForm({
  id,
  name: now,
  error,
  onSubmit,
}: FormProps & { name: string; onSubmit: (name: string) => void }) {
  const [name, setName] = useState(now);
  const errorAt = useFieldErrors(error);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSubmit(name);
  };
  return (
    <form id={id} onSubmit={submit} className="space-y-4">
      <TextField
        label="Name"
        required
        maxLength={100}
        autoComplete="off"
        value={name}
        onChange={({ target }) => setName(target.value)}
        error={errorAt('name', name)}
      />
      <FormError error={error} fields={['name']} />
    </form>
  );
}

interface PlanFormProps extends FormProps {
  plan: string | null;
  onSubmit: (plan: string | null) => void;
}

function PlanForm({ id, plan: now, error, onSubmit }: PlanFormProps) {
  const plans = useRead('listPlans', undefined);
  const [plan, setPlan] = useState(planChoice(now));
  const errorAt = useFieldErrors(error);
  const known = planChoices(plans.data?.data ?? []);
  // A plan missing from the configuration can be kept but not chosen.
  const choices = known.some(({ value }) => value === plan)
    ? known
    : [...known, { value: plan, label: plan, hint: 'not in the configuration', disabled: true }];
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSubmit(chosenPlan(plan));
  };
  return (
    <form id={id} onSubmit={submit} className="space-y-4">
      <Field label="Plan" error={errorAt('plan', plan)}>
        <Select value={plan} choices={choices} onChange={setPlan} />
      </Field>
      <FormError error={error} fields={['plan']} />
    </form>
  );
}
