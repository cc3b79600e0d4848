import { useEffect, useId, useState, type SubmitEvent } from 'react';
import { useLocation } from 'wouter';
import type { ApiError } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { Field, TextField } from '../../components/field.tsx';
import { faultAt, FormFault } from '../../components/form-fault.tsx';
import { Select } from '../../components/select.tsx';
import { chosenPlan, planChoice, planChoices } from './plan-choices.ts';

/** Makes an account, and goes on to inviting its first owner. */
export function NewAccount({ open, onClose }: { open: boolean; onClose: () => void }) {
  const form = useId();
  const [, navigate] = useLocation();
  const create = useAction('createAccount', {
    changes: ['listAccounts', 'listPlans'],
    done: ({ name }) => `The account ${name} is there.`,
    quiet: true,
  });
  const { reset } = create;
  useEffect(() => {
    if (open) reset();
  }, [open, reset]);
  return (
    <Dialog
      open={open}
      onClose={onClose}
      title="New account"
      hint="Keys belong to an account. Once it is there, you can invite who owns it."
      actions={
        <>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit" form={form} busy={create.isPending}>
            Create account
          </Button>
        </>
      }
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
        hint="What people call it, such as the name of a company or a team."
        error={faultAt(error, 'name')}
      />
      <Field
        label="Plan"
        hint="It limits what all keys of the account use together."
        error={faultAt(error, 'plan')}
      >
        <Select value={plan} choices={planChoices(plans.data?.data ?? [])} onChange={setPlan} />
      </Field>
      <FormFault error={error} fields={['name', 'plan']} />
    </form>
  );
}
