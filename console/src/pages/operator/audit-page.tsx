import { ScrollText, SearchX } from 'lucide-react';
import { useEffect } from 'react';
import { useList } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { Page } from '../../components/page.tsx';
import { Loaded } from '../../components/loaded.tsx';
import { EmptyState } from '../../components/states.tsx';
import { ListFooter, Table } from '../../components/table.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { auditColumns } from './audit-columns.tsx';
import { AuditDialog } from './audit-dialog.tsx';
import { AuditFilters } from './audit-filters.tsx';
import type { Entry } from './action-labels.ts';
import { useNames } from './names.ts';

const PAGE = 50;

/** The audit log, newest first. */
export default function AuditPage() {
  const names = useNames();
  return (
    <Page
      title="Audit log"
      hint="Sign-ins, and changes to accounts, keys, plans, users and models. Events cannot be edited or deleted."
    >
      <Card flush>
        <AuditFilters names={names} />
        <Entries names={names} />
      </Card>
    </Page>
  );
}

function Entries({ names }: { names: ReturnType<typeof useNames> }) {
  const [query, change] = useQueryState();
  const filter = {
    ...given('actor', query.get('actor')),
    ...given('action', query.get('action')),
    ...given('subject', query.get('subject')),
    ...given('account_id', query.get('of')),
  };
  const entries = useList('listAudit', { query: { ...filter, limit: PAGE } }, { keep: true });
  const { data: items, hasMore, isReadingMore, more } = entries;
  const openId = query.get('entry');
  const open = items?.find(({ id }) => id === openId) ?? null;
  // IDs increase with time, so a smaller ID than all loaded ones is on a later page.
  const further = openId !== null && open === null && (items?.at(-1)?.id ?? '') > openId;
  useEffect(() => {
    if (further && hasMore && !isReadingMore) more();
  });
  const show = ({ id }: Entry) => change({ entry: id });
  const none =
    Object.keys(filter).length > 0 ? (
      <EmptyState icon={SearchX} title="No matching events">
        Remove a filter to see more events.
      </EmptyState>
    ) : (
      <EmptyState icon={ScrollText} title="No events yet">
        Sign-ins, and changes to accounts, keys, plans, users and models, will appear here.
      </EmptyState>
    );
  return (
    <Loaded query={entries} empty={none}>
      {(loaded) => (
        <>
          <Table
            label="Audit log"
            columns={auditColumns(names, show)}
            rows={loaded}
            keyOf={({ id }) => id}
            onOpen={show}
            isOpen={({ id }) => id === openId}
          />
          <ListFooter
            shown={loaded.length}
            what={loaded.length === 1 ? 'event' : 'events'}
            hasMore={hasMore}
            busy={isReadingMore}
            onMore={more}
          />
          <AuditDialog entry={open} names={names} onClose={() => change({ entry: null })} />
        </>
      )}
    </Loaded>
  );
}

/** Returns a filter parameter, if it is set. */
function given<Name extends string>(name: Name, value: string | null): Partial<Record<Name, string>> {
  return value === null ? {} : ({ [name]: value } as Record<Name, string>); // A computed key has the type `string`.
}
