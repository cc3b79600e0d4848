import { Ban, CirclePause, CirclePlay, Ellipsis, Gauge, Pencil, SlidersHorizontal } from 'lucide-react';
import type { ComponentProps, ReactNode } from 'react';
import { act } from '../../api/act.ts';
import type { Arguments, ItemOf } from '../../api/client.ts';
import { useKeys, useRead } from '../../api/queries.ts';
import { Status, type Tone } from '../../components/badge.tsx';
import { Button } from '../../components/button.tsx';
import { confirm } from '../../components/confirm.tsx';
import { EditDialog } from '../../components/edit-dialog.tsx';
import { Field, TextField } from '../../components/field.tsx';
import { LimitFields } from '../../components/limit-fields.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import { openOverlay } from '../../components/overlays.tsx';
import { savingLimits } from '../../components/save-limits.ts';
import { Select } from '../../components/select.tsx';
import { LoadFailure, Skeleton } from '../../components/states.tsx';
import {
  LIMIT_NAMES,
  limitAmount,
  limitErrors,
  limitsSet,
  limitText,
  typedLimits,
} from '../../format/limits.ts';

type Plan = ItemOf<'listPlans'>;

/** The account that owns keys created without an account. It cannot be closed. */
const DEFAULT_ACCOUNT = 'default';

/** The menu of account actions. */
export function AccountActions({ account, plan }: { account: Account; plan: Plan | undefined }) {
  const { status } = account;
  if (status === 'closed') return null;
  return (
    <Menu trigger={<Button icon={<Ellipsis />}>Actions</Button>}>
      <MenuItem icon={<Pencil />} onClick={() => renameAccount(account)}>
        Rename
      </MenuItem>
      <MenuItem icon={<Gauge />} onClick={() => changePlan(account)}>
        Change plan
      </MenuItem>
      <MenuItem icon={<SlidersHorizontal />} onClick={() => editLimits(account, plan)}>
        Edit limits
      </MenuItem>
      <MenuSeparator />
      {status === 'active' ? (
        <MenuItem icon={<CirclePause />} onClick={() => changeStatus(account, 'suspended')}>
          Suspend
        </MenuItem>
      ) : (
        <MenuItem icon={<CirclePlay />} onClick={() => changeStatus(account, 'active')}>
          Resume
        </MenuItem>
      )}
      {account.id !== DEFAULT_ACCOUNT && (
        <MenuItem danger icon={<Ban />} onClick={() => changeStatus(account, 'closed')}>
          Close account
        </MenuItem>
      )}
    </Menu>
  );
}

function change(
  { id }: Account,
  body: Arguments<'changeAccount'>['body'],
  done?: (account: Account) => string,
): Promise<Account> {
  return act('changeAccount', { params: { id }, body }, done && { done });
}

/** Opens a form that closes with the page of the account, such as when the browser goes back to another. */
function openForm(form: (close: () => void) => ReactNode): void {
  void openOverlay((close) => form(() => close()), { endsWithHost: true });
}

function renameAccount(account: Account): void {
  openForm((close) => (
    <EditDialog
      title={`Rename ${account.name}`}
      hint="The account ID does not change."
      action="Rename"
      initial={{ name: account.name }}
      submit={({ name }) => change(account, { name }, (renamed) => `Account renamed to ${renamed.name}`)}
      onClose={close}
    >
      {(_, __, field) => <NameField {...field('name')} />}
    </EditDialog>
  ));
}

function changePlan(account: Account): void {
  openForm((close) => (
    <EditDialog
      title={`Change plan of ${account.name}`}
      hint="Takes effect with the next request. Usage so far counts toward the new limits."
      action="Change plan"
      initial={{ plan: account.plan }}
      submit={({ plan }) =>
        change(
          account,
          { plan },
          ({ name, plan: now }) => `${name} is now on ${now === null ? 'the default plan' : `plan ${now}`}`,
        )
      }
      onClose={close}
    >
      {({ plan }, set) => <PlanField plan={plan} set={set} />}
    </EditDialog>
  ));
}

/** Edits the account's own limits over those of its plan. */
export function editLimits(account: Account, plan: Plan | undefined): void {
  const ofPlan = plan?.limits ?? {};
  openForm((close) => (
    <EditDialog
      size="medium"
      title={`Edit limits of ${account.name}`}
      hint="They take the place of those of the plan. An empty field keeps the plan's limit."
      action="Save"
      initial={typedLimits(account.limits ?? {})}
      check={limitErrors}
      submit={savingLimits('account', account)}
      onClose={close}
    >
      {(_, __, field) => (
        <>
          <LimitFields
            names={LIMIT_NAMES}
            field={field}
            placeholder={(name) => {
              const bound = ofPlan[name];
              return bound === undefined ? 'No limit' : `${limitAmount(name, bound)} (plan)`;
            }}
          />
          {account.limits?.models !== undefined && (
            <p className="text-xs leading-5 text-ink-3">
              The account's own limits for models are not shown here and stay as they are.
            </p>
          )}
        </>
      )}
    </EditDialog>
  ));
}

/** Creates an account. Resolves to it; undefined: the dialog was closed. */
export function createAccount(): Promise<Account | undefined> {
  return openOverlay<Account>((close) => (
    <EditDialog
      title="Create account"
      hint="An account owns API keys. You can invite its owner in the next step."
      action="Create account"
      initial={NEW_ACCOUNT}
      submit={async (body) =>
        close(await act('createAccount', { body }, { done: ({ name }) => `Account ${name} created` }))
      }
      onClose={() => close()}
    >
      {({ plan }, set, field) => (
        <>
          <NameField hint="For example, the name of a company or team" {...field('name')} />
          <PlanField plan={plan} set={set} hint="Limits the combined usage of all keys of the account" />
        </>
      )}
    </EditDialog>
  ));
}

const NEW_ACCOUNT: { name: string; plan: string | null } = { name: '', plan: null };

function NameField(props: Omit<ComponentProps<typeof TextField>, 'label'>) {
  return <TextField label="Name" required maxLength={100} autoComplete="off" {...props} />;
}

/** Value of the default plan in the list. No plan has an empty name. */
const DEFAULT_PLAN = '';

interface PlanFieldProps {
  /** Null: the default plan. */
  plan: string | null;
  set: (changed: { plan: string | null }) => void;
  hint?: string;
}

/** Selects a plan. A plan missing from the configuration can be kept but not chosen. */
function PlanField({ plan, set, hint }: PlanFieldProps) {
  const plans = useRead('listPlans', undefined);
  if (plans.data === undefined && plans.error === null) return <Skeleton className="h-15 w-full" />;
  if (plans.data === undefined) return <LoadFailure query={plans} what="the plans" />;
  const all = plans.data.data;
  const defaultPlan = all.find((one) => one.default);
  const isMissing = plan !== null && !all.some(({ name, limits }) => name === plan && limits !== null);
  return (
    <Field name="plan" label="Plan" hint={hint}>
      <Select
        value={plan ?? DEFAULT_PLAN}
        choices={[
          // Follows changes to the default.
          { value: DEFAULT_PLAN, label: `Default plan${defaultPlan ? ` (${defaultPlan.name})` : ''}` },
          ...all.flatMap(({ name, limits }) =>
            limits === null ? [] : [{ value: name, label: name, hint: summaryOf(limits) }],
          ),
          ...(isMissing
            ? [{ value: plan, label: plan, hint: 'not in the configuration', disabled: true }]
            : []),
        ]}
        onChange={(choice) => set({ plan: choice === DEFAULT_PLAN ? null : choice })}
      />
    </Field>
  );
}

function summaryOf(limits: NonNullable<Plan['limits']>): string {
  const texts = limitsSet(limits).map(({ limit, bound }) => limitText(limit, bound));
  return texts.length === 0 ? 'No limits' : texts.slice(0, 2).join(', ');
}

const STATUS_CHANGES = {
  active: { question: (name: string) => `Resume ${name}?`, action: 'Resume', done: 'resumed' },
  suspended: { question: (name: string) => `Suspend ${name}?`, action: 'Suspend', done: 'suspended' },
  closed: {
    question: (name: string) => `Close ${name} permanently?`,
    action: 'Close account',
    done: 'closed',
  },
};

/** Confirms suspending, resuming or closing an account and states the consequences. */
function changeStatus(account: Account, to: Account['status']): void {
  const { question, action, done } = STATUS_CHANGES[to];
  void confirm({
    title: question(account.name),
    action,
    danger: to !== 'active',
    children:
      to === 'active' ? (
        <p>Its keys work again within a second, except revoked and expired ones.</p>
      ) : (
        <Consequences account={account} permanent={to === 'closed'} />
      ),
    run: () => change(account, { status: to }, ({ name }) => `Account ${name} ${done}`),
  });
}

function Consequences({ account, permanent }: { account: Account; permanent: boolean }) {
  const keys = useKeys({ account_id: account.id });
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

export type Account = ItemOf<'listAccounts'>;
type AccountStatus = Account['status'];

/** Labels of the account states. */
export const STATUS_LABELS: Readonly<Record<AccountStatus, string>> = {
  active: 'Active',
  suspended: 'Suspended',
  closed: 'Closed',
};

const TONES: Readonly<Record<AccountStatus, Tone>> = { active: 'good', suspended: 'warn', closed: 'neutral' };

/** The state of an account. */
export function AccountState({ status }: { status: AccountStatus }) {
  return <Status tone={TONES[status]}>{STATUS_LABELS[status]}</Status>;
}

/** The plan of an account; the default plan if the account has none. */
export function PlanName({ plan, defaultPlan }: { plan: string | null; defaultPlan: string | undefined }) {
  if (plan !== null) return <span className="truncate">{plan}</span>;
  return (
    <span className="truncate">
      {defaultPlan ?? ''} <span className="text-xs text-ink-3">default</span>
    </span>
  );
}
