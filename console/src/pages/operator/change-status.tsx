import { useAction, useRead } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import type { Account } from './account-words.tsx';

interface ChangeStatusProps {
  account: Account;
  /** Null: nothing is asked. */
  to: Account['status'] | null;
  onClose: () => void;
}

const ACTIONS = { active: 'Resume', suspended: 'Suspend', closed: 'Close for ever' } as const;
const QUESTIONS = {
  active: (name: string) => `Resume ${name}?`,
  suspended: (name: string) => `Suspend ${name}?`,
  closed: (name: string) => `Close ${name} for ever?`,
} as const;
const DONE = { active: 'active again', suspended: 'suspended', closed: 'closed' } as const;

/** Asks before an account is suspended, resumed or closed, and says what happens to its keys and requests. */
export function ChangeStatus({ account, to, onClose }: ChangeStatusProps) {
  const change = useAction('changeAccount', {
    changes: ['getAccount', 'listAccounts', 'listPlans', 'listAudit', 'listKeys', 'getSession'],
    done: ({ name, status }) => `${name} is ${DONE[status]}.`,
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
      {to === 'active' && (
        <p>Within a second its keys work again, those aside that are revoked or have expired.</p>
      )}
      {(to === 'suspended' || to === 'closed') && <WhatEnds account={account} forEver={to === 'closed'} />}
    </Confirm>
  );
}

function WhatEnds({ account, forEver }: { account: Account; forEver: boolean }) {
  const keys = useRead('listKeys', { query: { account_id: account.id, limit: 1000 } });
  const running = useRead('listRequests', { query: { account_id: account.id, state: 'open', limit: 200 } });
  const live = keys.data?.data.filter(({ status }) => status === 'live');
  const admins = live?.filter(({ kind }) => kind === 'admin').length ?? 0;
  const requests = running.data?.data.length;
  return (
    <>
      <p>
        {live === undefined
          ? 'Its keys open nothing from within a second on'
          : live.length === 0
            ? 'It has no live key'
            : `Its ${live.length === 1 ? 'live key opens' : `${live.length} live keys open`} nothing from within a second on`}
        {keys.data?.next_cursor != null && ', nor do the further ones that it has'}
        {requests !== undefined && requests > 0
          ? `, and ${requests === 1 ? 'the request that runs' : `the ${requests}${running.data?.next_cursor == null ? '' : ' or more'} requests that run`} now end with the error invalid_api_key.`
          : '. Requests that run then end with the error invalid_api_key.'}
      </p>
      {admins > 0 && (
        <p className="font-medium text-ink">
          {admins === 1
            ? 'One of them is an admin’s key: it manages'
            : `${admins} of them are admins’ keys: they manage`}{' '}
          the service no more either.
        </p>
      )}
      <p>
        {forEver
          ? 'A closed account can never be opened again. Its usage, receipts and audit log stay.'
          : 'Nothing is deleted: resume it whenever you like.'}
      </p>
    </>
  );
}
