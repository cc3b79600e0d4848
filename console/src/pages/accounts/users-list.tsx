import { ScrollText, SearchX, ShieldMinus, ShieldPlus, Trash2, Users } from 'lucide-react';
import { act } from '../../api/act.ts';
import type { ItemOf } from '../../api/client.ts';
import { useList, useMore } from '../../api/queries.ts';
import { Badge, UserCell } from '../../components/badge.tsx';
import { Card } from '../../components/card.tsx';
import { confirm } from '../../components/confirm.tsx';
import { Link } from '../../components/link.tsx';
import { MenuItem, MenuSeparator, RowMenu } from '../../components/menu.tsx';
import { UrlSearchField } from '../../components/search-field.tsx';
import { EmptyState, Loaded } from '../../components/states.tsx';
import { changedRest, ListFooter, Table, timeColumn, type Column } from '../../components/table.tsx';
import { useSession } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';

const PAGE = 1000;

export function UsersList() {
  const users = useList('listUsers', { query: { limit: PAGE } });
  const [query] = useQueryState();
  const text = query.get('q') ?? '';
  const { data: items, hasMore } = users;
  useMore(text !== '', users);
  const operators = hasMore ? null : (items?.filter(({ operator }) => operator).length ?? null);
  return (
    <Card flush className="mt-4">
      <div className="border-b border-line p-3 sm:px-5">
        <UrlSearchField label="Search by name or email" />
      </div>
      <Loaded
        query={users}
        empty={
          <EmptyState icon={Users} title="No users yet">
            Invite users from an account's page.
          </EmptyState>
        }
      >
        {(loaded) => {
          const shown = loaded.filter((user) => matches(user, text));
          if (shown.length === 0 && !hasMore) return <EmptyState icon={SearchX} title="No matching users" />;
          return (
            <>
              <Table
                label="Users"
                id="users"
                sortable
                rest={changedRest(users, (all) => all.filter((user) => matches(user, text)))}
                columns={userColumns(operators)}
                rows={shown}
                keyOf={({ id }) => id}
              />
              <ListFooter shown={shown.length} what={shown.length === 1 ? 'user' : 'users'} rest={users} />
            </>
          );
        }}
      </Loaded>
    </Card>
  );
}

function matches({ name, email, id }: ItemOf<'listUsers'>, text: string): boolean {
  const words = text.trim().toLowerCase();
  return name.toLowerCase().includes(words) || email.includes(words) || id.includes(words);
}

type User = ItemOf<'listUsers'>;

/** `operators`: their number; null: not all users are loaded yet. */
function userColumns(operators: number | null): Column<User>[] {
  return [
    {
      name: 'user',
      heading: 'User',
      value: ({ name }) => name,
      grow: true,
      cell: (user) => (
        <UserCell user={user}>
          {user.operator && (
            <span className="sm:hidden">
              <Badge tone="accent">Operator</Badge>
            </span>
          )}
        </UserCell>
      ),
    },
    {
      name: 'part',
      heading: 'Role',
      value: ({ operator }) => (operator ? 'Operator' : 'User'),
      from: 'sm',
      cell: ({ operator }) =>
        operator ? <Badge tone="accent">Operator</Badge> : <span className="text-ink-3">User</span>,
    },
    {
      name: 'two-factor',
      heading: 'Two-factor',
      value: ({ two_factor: hasTwo }) => (hasTwo ? 'On' : 'Off'),
      from: 'md',
      cell: ({ two_factor: hasTwo }) => (hasTwo ? 'On' : <span className="text-ink-3">Off</span>),
    },
    timeColumn({ name: 'since', heading: 'Created', from: 'md' }, ({ created_at: at }) => at),
    {
      name: 'actions',
      heading: 'Actions',
      isControl: true,
      cell: (user) => <Actions user={user} isLastOperator={user.operator && operators === 1} />,
    },
  ];
}

function Actions({ user, isLastOperator: last }: { user: User; isLastOperator: boolean }) {
  const { user: self } = useSession();
  const isSelf = user.id === self.id;
  return (
    <span className="flex justify-end">
      <RowMenu label={`Actions for ${user.name}`}>
        <MenuItem icon={<ScrollText />} render={<Link to={`/operator/audit?actor=user:${user.id}`} />}>
          View audit log
        </MenuItem>
        {user.operator ? (
          <MenuItem
            icon={<ShieldMinus />}
            disabled={last}
            onClick={() => changeUser('unmake_operator', user, isSelf)}
          >
            {last ? 'Cannot remove the last operator' : 'Remove operator role'}
          </MenuItem>
        ) : (
          <MenuItem icon={<ShieldPlus />} onClick={() => changeUser('make_operator', user, isSelf)}>
            Make operator
          </MenuItem>
        )}
        <MenuSeparator />
        {isSelf ? (
          <MenuItem icon={<Trash2 />} render={<Link to="/settings" />}>
            Delete in settings
          </MenuItem>
        ) : (
          <MenuItem
            danger
            icon={<Trash2 />}
            disabled={last}
            onClick={() => changeUser('delete', user, isSelf)}
          >
            Delete
          </MenuItem>
        )}
      </RowMenu>
    </span>
  );
}

function changeUser(kind: 'make_operator' | 'unmake_operator' | 'delete', user: User, isSelf: boolean): void {
  const { id, name, email, email_verified: verified, two_factor: hasTwoFactor } = user;
  const operator = kind === 'make_operator';
  // The question warns about an unverified address.
  const body = operator && !verified ? { operator, allow_unverified: true } : { operator };
  const change = () =>
    act(
      'changeUser',
      { params: { id }, body },
      { done: `${name} is ${operator ? 'now' : 'no longer'} an operator` },
    );
  const questions = {
    make_operator: {
      title: `Make ${name} an operator?`,
      action: 'Make operator',
      danger: !verified,
      run: change,
      children: (
        <>
          <p>Operators manage the whole service: every account, key and user, and all usage.</p>
          {!verified && (
            <p>
              The address {email} is not verified: someone else may have accepted the invitation and chosen
              the password. Ask the user to reset their password or to sign in with a provider first.
            </p>
          )}
          {!hasTwoFactor && (
            <p>This user has not enabled two-factor authentication. Ask them to do so first.</p>
          )}
        </>
      ),
    },
    unmake_operator: {
      title: `Remove the operator role from ${name}?`,
      action: 'Remove operator role',
      run: change,
      children: isSelf ? (
        <p>You lose access to the operator pages immediately. Another operator can restore it.</p>
      ) : (
        <p>They lose access to the operator pages immediately, and stay a member of their accounts.</p>
      ),
    },
    delete: {
      title: `Delete ${name}?`,
      action: 'Delete user',
      run: () => act('deleteUser', { params: { id } }, { done: `Deleted ${name}` }),
      children: (
        <>
          <p>
            {email} is signed out and removed from every account, and can no longer sign in. To return, they
            need a new invitation.
          </p>
          <p>
            Accounts, keys and usage are kept. The audit log keeps the user's ID but not their name and email.
          </p>
        </>
      ),
    },
  };
  void confirm(questions[kind]);
}
