import type { ReactNode } from 'react';
import type { Element } from '../../api/client.ts';
import { useAction } from '../../api/queries.ts';
import { Confirm } from '../../components/confirm.tsx';
import { useSession } from '../../shell/session.tsx';

type Person = Element<'listPeople'>;

/** What is asked to be done with a person. */
export interface Change {
  kind: 'make_operator' | 'unmake_operator' | 'delete';
  person: Person;
}

/** Asks before it is done; null: nothing is asked. */
export function PersonChange({ change, onClose }: { change: Change | null; onClose: () => void }) {
  const { person: self } = useSession();
  const changePerson = useAction('changePerson', {
    changes: ['listPeople', 'getSession'],
    done: ({ name, operator }) => `${name} is ${operator ? 'an operator now' : 'no operator any more'}.`,
  });
  const deletePerson = useAction('deletePerson', {
    changes: ['listPeople', 'listMembers'],
    done: `${change?.person.name ?? 'The person'} is deleted.`,
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
  make_operator: 'Make an operator',
  unmake_operator: 'Take it away',
  delete: 'Delete',
};

function titleOf({ kind, person: { name } }: Change): string {
  switch (kind) {
    case 'make_operator':
      return `Make ${name} an operator?`;
    case 'unmake_operator':
      return `Is ${name} no operator any more?`;
    case 'delete':
      return `Delete ${name}?`;
  }
}

function meaningOf({ kind, person }: Change, self: boolean): ReactNode {
  switch (kind) {
    case 'make_operator':
      return (
        <>
          <p>They may then manage the whole service: every account, key and person, and see all usage.</p>
          {!person.two_factor && <p>They have no second factor. Ask them to set one up first.</p>}
        </>
      );
    case 'unmake_operator':
      return self ? (
        <p>You lose these pages at once. Another operator can give them back to you.</p>
      ) : (
        <p>They lose the operator's pages at once, and keep the accounts that they are members of.</p>
      );
    case 'delete':
      return (
        <>
          <p>
            {person.email} can sign in no more: their sessions end, and they leave every account. To come back
            they need another invitation.
          </p>
          <p>Accounts, keys and usage stay. The audit log keeps their id, and neither name nor address.</p>
        </>
      );
  }
}
