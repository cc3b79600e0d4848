import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import { useSession } from '../../state/session.tsx';

type User = ItemOf<'listUsers'>;

/** A change to a user that needs confirmation. */
export interface Change {
  kind: 'make_operator' | 'unmake_operator' | 'delete';
  user: User;
}

/** Confirms a change to a user; null: closed. */
export function UserChange({ change, onClose }: { change: Change | null; onClose: () => void }) {
  const { user: self } = useSession();
  const changeUser = useAction('changeUser', {
    changes: ['listUsers', 'getSession'],
    done: ({ name, operator }) => `${name} is ${operator ? 'now' : 'no longer'} an operator`,
  });
  const deleteUser = useAction('deleteUser', {
    changes: ['listUsers', 'listMembers'],
    done: `Deleted ${change?.user.name ?? 'user'}`,
  });
  const run = ({ kind, user: { id, email_verified: verified } }: Change) => {
    if (kind === 'delete') deleteUser.mutate({ params: { id } }, { onSettled: onClose });
    else {
      const operator = kind === 'make_operator';
      // The dialog has warned about an unverified address.
      const body = operator && !verified ? { operator, allow_unverified: true } : { operator };
      changeUser.mutate({ params: { id }, body }, { onSettled: onClose });
    }
  };
  return (
    <Confirm
      open={change !== null}
      onClose={onClose}
      title={change === null ? '' : titleOf(change)}
      action={change === null ? '' : ACTIONS[change.kind]}
      danger={change?.kind !== 'make_operator' || !change.user.email_verified}
      busy={changeUser.isPending || deleteUser.isPending}
      onConfirm={() => change !== null && run(change)}
    >
      {change !== null && meaningOf(change, change.user.id === self.id)}
    </Confirm>
  );
}

const ACTIONS: Readonly<Record<Change['kind'], string>> = {
  make_operator: 'Make operator',
  unmake_operator: 'Remove operator role',
  delete: 'Delete user',
};

function titleOf({ kind, user: { name } }: Change): string {
  switch (kind) {
    case 'make_operator':
      return `Make ${name} an operator?`;
    case 'unmake_operator':
      return `Remove the operator role from ${name}?`;
    case 'delete':
      return `Delete ${name}?`;
  }
}

function meaningOf({ kind, user }: Change, self: boolean): ReactNode {
  switch (kind) {
    case 'make_operator':
      return (
        <>
          <p>Operators manage the whole service: every account, key and user, and all usage.</p>
          {!user.email_verified && (
            <p>
              The address {user.email} is not verified: someone else may have accepted the invitation and
              chosen the password. Ask the user to reset their password or to sign in with a provider first.
            </p>
          )}
          {!user.two_factor && (
            <p>This user has not enabled two-factor authentication. Ask them to do so first.</p>
          )}
        </>
      );
    case 'unmake_operator':
      return self ? (
        <p>You lose access to the operator pages immediately. Another operator can restore it.</p>
      ) : (
        <p>They lose access to the operator pages immediately, and stay a member of their accounts.</p>
      );
    case 'delete':
      return (
        <>
          <p>
            {user.email} is signed out and removed from every account, and can no longer sign in. To return,
            they need a new invitation.
          </p>
          <p>
            Accounts, keys and usage are kept. The audit log keeps the user's ID but not their name and email.
          </p>
        </>
      );
  }
}
