import type { ItemOf } from '../../api/client.ts';
import { Status, type Tone } from '../../components/badge.tsx';

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
