import { SearchX, Users } from 'lucide-react';
import { useEffect, useState } from 'react';
import type { ItemOf } from '../../api/client.ts';
import { useList } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { SearchField } from '../../components/search-field.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState } from '../../components/states.tsx';
import { ListFooter, Table } from '../../components/table.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { useSession } from '../../state/session.tsx';
import { UserChange, type Change } from './user-change.tsx';
import { userColumns } from './users-columns.tsx';

const PAGE = 1000;

/** All users. */
export function UsersList() {
  const { user: self } = useSession();
  const users = useList('listUsers', { query: { limit: PAGE } });
  const [query, change] = useQueryState();
  const [pendingChange, setPendingChange] = useState<Change | null>(null);
  const text = query.get('q') ?? '';
  const { data: items, hasMore, isReadingMore, more } = users;
  useEffect(() => {
    if (text !== '' && hasMore && !isReadingMore) more();
  });
  const operators = hasMore ? null : (items?.filter(({ operator }) => operator).length ?? null);
  return (
    <Card flush className="mt-4">
      <div className="border-b border-line p-3 sm:px-5">
        <SearchField
          label="Search by name or email"
          className="w-full sm:w-64"
          value={text}
          onChange={(q) => change({ q }, { replace: true })}
        />
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
                columns={userColumns({ selfId: self.id, operators, onChange: setPendingChange })}
                rows={shown}
                keyOf={({ id }) => id}
              />
              <ListFooter
                shown={shown.length}
                what={shown.length === 1 ? 'user' : 'users'}
                hasMore={hasMore}
                busy={isReadingMore}
                onMore={more}
              />
            </>
          );
        }}
      </Loaded>
      <UserChange change={pendingChange} onClose={() => setPendingChange(null)} />
    </Card>
  );
}

function matches({ name, email, id }: ItemOf<'listUsers'>, text: string): boolean {
  const words = text.trim().toLowerCase();
  return name.toLowerCase().includes(words) || email.includes(words) || id.includes(words);
}
