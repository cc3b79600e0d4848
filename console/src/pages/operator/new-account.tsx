import { useEffect, useId, useState, type SubmitEvent } from 'react';
import { useLocation } from 'wouter';
import type { ApiError } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { Field, TextField } from '../../components/field.tsx';
import { useFieldErrors } from '../../components/field-errors.ts';
import { FormError } from '../../components/form-error.tsx';
import { Select } from '../../components/select.tsx';
import { chosenPlan, planChoice, planChoices } from './plan-choices.ts';

/** Creates an account, then invites its first owner. */
export function NewAccount({ open, onClose }: { open: boolean; onClose: () => void }) {
  const form = useId();
  const [, navigate] = useLocation();
  const create = useAction('createAccount', {
    changes: ['listAccounts', 'listPlans'],
    done: ({ name }) => `Account ${name} created`,
    quiet: true,
  });
  const { reset } = create;
  useEffect(() => {
    if (open) reset();
  }, [open, reset]);
  return (
    <Dialog
      modal
      open={open}
      onClose={onClose}
      title="Create account"
      hint="An account owns API keys. You can invite its owner in the next step."
      actions={<FormActions form={form} action="Create account" busy={create.isPending} onCancel={onClose} />}
    >
      <AccountForm
        id={form}
        error={create.error}
        onSubmit={(body) =>
          create.mutate(
            { body },
            { onSuccess: ({ id }) => navigate(`/operator/accounts/${id}?invite=owner`) },
          )
        }
      />
    </Dialog>
  );
}

interface AccountFormProps {
  id: string;
  error: ApiError | null;
  onSubmit: (account: { name: string; plan: string | null }) => void;
}

function AccountForm({ id, error, onSubmit }: AccountFormProps) {
  const plans = useRead('listPlans', undefined);
  const [name, setName] = useState('');
  const [plan, setPlan] = useState(planChoice(null));
  const errorAt = useFieldErrors(error);
  const submit = (event: SubmitEvent) => {
    event.preventDefault();
    onSubmit({ name, plan: chosenPlan(plan) });
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
        hint="For example, the name of a company or team"
        error={errorAt('name', name)}
      />
      <Field
        label="Plan"
        hint="Limits the combined usage of all keys of the account"
        error={errorAt('plan', plan)}
      >
        <Select value={plan} choices={planChoices(plans.data?.data ?? [])} onChange={setPlan} />
      </Field>
      <FormError error={error} fields={['name', 'plan']} />
    </form>
  );
}
