import { Ban, CirclePause, CirclePlay, Ellipsis, Gauge, Pencil } from 'lucide-react';
import { useState, useId } from 'react';
import type { ApiError } from '../../api/client.ts';
import { useAction, useRead } from '../../api/queries.ts';
import { Button } from '../../components/button.tsx';
import { Confirm } from '../../components/confirm.tsx';
import { Dialog, FormActions } from '../../components/dialog.tsx';
import { TextField } from '../../components/field.tsx';
import { Form, FormError } from '../../components/form.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import type { Account } from './account-labels.tsx';
import { chosenPlan, planChoice } from './plan-choices.ts';
import { PlanField } from './plan-field.tsx';

/** The account that owns keys created without an account. It cannot be closed. */
const DEFAULT_ACCOUNT = 'default';

type Dialog = 'rename' | 'plan' | Account['status'];

/** The menu of account actions and their dialogs. */
export function AccountActions({ account }: { account: Account }) {
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const close = () => setDialog(null);
  const { status } = account;
  if (status === 'closed') return null;
  return (
    <>
      <Menu trigger={<Button icon={<Ellipsis className="size-4" aria-hidden="true" />}>Actions</Button>}>
        <MenuItem icon={<Pencil />} onClick={() => setDialog('rename')}>
          Rename
        </MenuItem>
        <MenuItem icon={<Gauge />} onClick={() => setDialog('plan')}>
          Change plan
        </MenuItem>
        <MenuSeparator />
        {status === 'active' ? (
          <MenuItem icon={<CirclePause />} onClick={() => setDialog('suspended')}>
            Suspend
          </MenuItem>
        ) : (
          <MenuItem icon={<CirclePlay />} onClick={() => setDialog('active')}>
            Resume
          </MenuItem>
        )}
        {account.id !== DEFAULT_ACCOUNT && (
          <MenuItem danger icon={<Ban />} onClick={() => setDialog('closed')}>
            Close account
          </MenuItem>
        )}
      </Menu>
      <RenameAccount account={account} open={dialog === 'rename'} onClose={close} />
      <ChangePlan account={account} open={dialog === 'plan'} onClose={close} />
      <ChangeStatus
        account={account}
        to={dialog === 'rename' || dialog === 'plan' ? null : dialog}
        onClose={close}
      />
    </>
  );
}

interface ChangeProps {
  account: Account;
  open: boolean;
  onClose: () => void;
}

/** Renames an account. */
function RenameAccount({ account, open, onClose }: ChangeProps) {
  const form = useId();
  const { change, close } = useChange(onClose, ({ name }) => `Account renamed to ${name}`);
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      title={`Rename ${account.name}`}
      hint="The account ID does not change."
      actions={<FormActions form={form} action="Rename" busy={change.isPending} onCancel={close} />}
    >
      <NameForm
        id={form}
        name={account.name}
        error={change.error}
        onSubmit={(name) =>
          change.mutate({ params: { id: account.id }, body: { name } }, { onSuccess: close })
        }
      />
    </Dialog>
  );
}

/** Changes the plan of an account. */
function ChangePlan({ account, open, onClose }: ChangeProps) {
  const form = useId();
  const { change, close } = useChange(
    onClose,
    ({ name, plan }) => `${name} is now on ${plan === null ? 'the default plan' : `plan ${plan}`}`,
  );
  return (
    <Dialog
      modal
      open={open}
      onClose={close}
      title={`Change plan of ${account.name}`}
      hint="Takes effect with the next request. Usage so far counts toward the new limits."
      actions={<FormActions form={form} action="Change plan" busy={change.isPending} onCancel={close} />}
    >
      <PlanForm
        id={form}
        plan={account.plan}
        error={change.error}
        onSubmit={(plan) =>
          change.mutate({ params: { id: account.id }, body: { plan } }, { onSuccess: close })
        }
      />
    </Dialog>
  );
}

/** `close` also drops the response, which must not close another dialog. */
function useChange(onClose: () => void, done: (account: Account) => string) {
  const change = useAction('changeAccount', {
    changes: ['getAccount', 'listAccounts', 'listPlans', 'listAudit', 'readLimits', 'getSession'],
    done,
    quiet: true,
  });
  const close = () => {
    change.reset();
    onClose();
  };
  return { change, close };
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
  const submit = () => {
    onSubmit(name);
  };
  return (
    <Form id={id} error={error} onSubmit={submit}>
      <TextField
        name="name"
        label="Name"
        required
        maxLength={100}
        autoComplete="off"
        value={name}
        onChange={({ target }) => setName(target.value)}
      />
      <FormError error={error} />
    </Form>
  );
}

interface PlanFormProps extends FormProps {
  plan: string | null;
  onSubmit: (plan: string | null) => void;
}

function PlanForm({ id, plan: now, error, onSubmit }: PlanFormProps) {
  const [plan, setPlan] = useState(planChoice(now));
  const submit = () => {
    onSubmit(chosenPlan(plan));
  };
  return (
    <Form id={id} error={error} onSubmit={submit}>
      <PlanField value={plan} onChange={setPlan} />
      <FormError error={error} />
    </Form>
  );
}

interface ChangeStatusProps {
  account: Account;
  /** The new status; null: closed. */
  to: Account['status'] | null;
  onClose: () => void;
}

const ACTIONS = { active: 'Resume', suspended: 'Suspend', closed: 'Close account' } as const;
const QUESTIONS = {
  active: (name: string) => `Resume ${name}?`,
  suspended: (name: string) => `Suspend ${name}?`,
  closed: (name: string) => `Close ${name} permanently?`,
} as const;
const DONE = { active: 'resumed', suspended: 'suspended', closed: 'closed' } as const;

/** Confirms suspending, resuming or closing an account and states the consequences. */
function ChangeStatus({ account, to, onClose }: ChangeStatusProps) {
  const change = useAction('changeAccount', {
    changes: ['getAccount', 'listAccounts', 'listPlans', 'listAudit', 'listKeys', 'getSession'],
    done: ({ name, status }) => `Account ${name} ${DONE[status]}`,
  });
  return (
    <Confirm
      open={to !== null}
      onClose={onClose}
      title={to === null ? '' : QUESTIONS[to](account.name)}
      action={to === null ? '' : ACTIONS[to]}
      danger={to !== 'active'}
      request={change}
      onConfirm={() => {
        if (to === null) return;
        change.mutate({ params: { id: account.id }, body: { status: to } }, { onSettled: onClose });
      }}
    >
      {to === 'active' && <p>Its keys work again within a second, except revoked and expired ones.</p>}
      {(to === 'suspended' || to === 'closed') && (
        <Consequences account={account} permanent={to === 'closed'} />
      )}
    </Confirm>
  );
}

function Consequences({ account, permanent }: { account: Account; permanent: boolean }) {
  const keys = useRead('listKeys', { query: { account_id: account.id, limit: 1000 } });
  const running = useRead('listRequests', { query: { account_id: account.id, state: 'open', limit: 200 } });
  const live = keys.data?.data.filter(({ status }) => status === 'live');
  const admins = live?.filter(({ kind }) => kind === 'admin').length ?? 0;
  const requests = running.data?.data.length;
  return (
    <>
      <p>
        {live === undefined || keys.data?.next_cursor !== null
          ? 'All of its keys stop working within a second.'
          : live.length === 0
            ? 'It has no active keys.'
            : live.length === 1
              ? 'Its active key stops working within a second.'
              : `Its ${live.length} active keys stop working within a second.`}{' '}
        {requests === undefined || requests === 0
          ? 'Any running requests end with the error invalid_api_key.'
          : requests === 1
            ? 'The running request ends with the error invalid_api_key.'
            : `The ${requests}${running.data?.next_cursor == null ? '' : ' or more'} running requests end with the error invalid_api_key.`}
      </p>
      {admins > 0 && (
        <p className="font-medium text-ink">
          {admins === 1
            ? 'One active key is an admin key. The management API will refuse it.'
            : `${admins} active keys are admin keys. The management API will refuse them.`}
        </p>
      )}
      <p>
        {permanent
          ? 'A closed account cannot be reopened. Its usage, receipts and audit log are kept.'
          : 'Nothing is deleted. You can resume the account at any time.'}
      </p>
    </>
  );
}
