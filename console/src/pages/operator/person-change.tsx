import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import { useSession } from '../../shell/session.tsx';

type Person = ItemOf<'listPeople'>;

/** A change to a user that needs confirmation. */
export interface Change {
  kind: 'make_operator' | 'unmake_operator' | 'delete';
  person: Person;
}

/** Confirms a change to a user; null: closed. */
export function PersonChange({ change, onClose }: { change: Change | null; onClose: () => void }) {
  const { person: self } = useSession();
  const changePerson = useAction('changePerson', {
    changes: ['listPeople', 'getSession'],
    done: ({ name, operator }) => `${name} is ${operator ? 'now' : 'no longer'} an operator`,
  });
  const deletePerson = useAction('deletePerson', {
    changes: ['listPeople', 'listMembers'],
    done: `Deleted ${change?.person.name ?? 'user'}`,
  });
  const run = ({ kind, person: { id } }: Change) => {
    if (kind === 'delete') deletePerson.mutate({ params: { id } }, { onSettled: onClose });
    else {
      changePerson.mutate(
        { params: { id }, body: { operator: kind === 'make_operator' } },
        { onSettled: onClose },
      );
    }
  };
  return (
    <Confirm
      open={change !== null}
      onClose={onClose}
      title={change === null ? '' : titleOf(change)}
      action={change === null ? '' : ACTIONS[change.kind]}
      danger={change?.kind !== 'make_operator'}
      busy={changePerson.isPending || deletePerson.isPending}
      onConfirm={() => change !== null && run(change)}
    >
      {change !== null && meaningOf(change, change.person.id === self.id)}
    </Confirm>
  );
}

const ACTIONS: Readonly<Record<Change['kind'], string>> = {
  make_operator: 'Make operator',
  unmake_operator: 'Remove operator role',
  delete: 'Delete user',
};

function titleOf({ kind, person: { name } }: Change): string {
  switch (kind) {
    case 'make_operator':
      return `Make ${name} an operator?`;
    case 'unmake_operator':
      return `Remove the operator role from ${name}?`;
    case 'delete':
      return `Delete ${name}?`;
  }
}

function meaningOf({ kind, person }: Change, self: boolean): ReactNode {
  switch (kind) {
    case 'make_operator':
      return (
        <>
          <p>Operators manage the whole service: every account, key and user, and all usage.</p>
          {!person.two_factor && (
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
            {person.email} is signed out and removed from every account, and can no longer sign in. To return,
            they need a new invitation.
          </p>
          <p>Accounts, keys and usage are kept. The audit log keeps their ID but not their name and email.</p>
        </>
      );
  }
}
