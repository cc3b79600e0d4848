import { useAction, useRead } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import type { Account } from './account-labels.tsx';

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
export function ChangeStatus({ account, to, onClose }: ChangeStatusProps) {
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
      busy={change.isPending}
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
