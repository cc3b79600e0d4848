import { ScrollText, SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import { ACTION_LABELS } from '../../api/client.ts';
import { useKeys, useList, useMore, useRead } from '../../api/queries.ts';
import { ActorName, SubjectName } from '../../audit/audit-names.tsx';
import {
  actionLabel,
  changesOf,
  foldKindOf,
  groupText,
  standaloneLabel,
  type Entry,
} from '../../audit/audit-texts.ts';
import { Button } from '../../components/button.tsx';
import { Card } from '../../components/card.tsx';
import { useToday } from '../../components/date-range-days.ts';
import { TimeFilter } from '../../components/date-range.tsx';
import { DetailList, Mono } from '../../components/detail-list.tsx';
import { Dialog } from '../../components/dialog.tsx';
import { FoldButton } from '../../components/fold-button.tsx';
import { fold, rowOf, useFolds, type FoldRow } from '../../components/fold.ts';
import { TextLink } from '../../components/link.tsx';
import { Page } from '../../components/page.tsx';
import { SearchSelect } from '../../components/search-select.tsx';
import { EmptyState, Loaded, LoadFailure } from '../../components/states.tsx';
import { changedRest, ListFooter, Table, type Column } from '../../components/table.tsx';
import { timeRangeOf, timeRangeQuery } from '../../components/time-range.ts';
import { Time } from '../../components/time.tsx';
import { DataAge } from '../../components/updated-at.tsx';
import { exactTime } from '../../format/time.ts';
import { useQueryState } from '../../state/url-query.ts';

const PAGE = 50;

/** An entry, or a group of entries about playground keys. */
type AuditRow = FoldRow<Entry>;

export default function AuditPage() {
  return (
    <Page
      title="Audit log"
      hint="Sign-ins, and changes to accounts, keys, plans, users and models. Events cannot be edited or deleted."
      actions={<DataAge operations={['listAudit']} />}
    >
      <Card flush>
        <AuditFilters />
        <Entries />
      </Card>
    </Page>
  );
}

function Entries() {
  const [query, change] = useQueryState();
  const filter = {
    ...given('actor', query.get('actor')),
    ...given('action', query.get('action')),
    ...given('subject', query.get('subject')),
    ...given('account_id', query.get('of')),
    ...timeRangeQuery(timeRangeOf(query), useToday()),
  };
  const entries = useList('listAudit', { query: { ...filter, limit: PAGE } }, { keep: true });
  const items = entries.data;
  const { isExpanded, toggle } = useFolds<Entry>();
  const openId = query.get('entry');
  const open = items?.find(({ id }) => id === openId) ?? null;
  // IDs increase with time, so a smaller ID than all loaded ones is on a later page.
  const further = openId !== null && open === null && (items?.at(-1)?.id ?? '') > openId;
  useMore(further, entries);
  const show = ({ entry: { id }, group }: AuditRow) =>
    group === null ? change({ entry: id }) : toggle(group);
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
            id="audit-log"
            rest={changedRest(entries, (loaded) => loaded.map(rowOf))}
            columns={auditColumns(isExpanded, show)}
            rows={fold(loaded, foldKindOf, isExpanded)}
            csvRows={loaded.map(rowOf)}
            keyOf={({ entry: { id }, group }) => (group === null ? id : `${id} group`)}
            onOpen={show}
            isOpen={({ entry: { id }, group }) => group === null && id === openId}
          />
          <ListFooter shown={loaded.length} what={loaded.length === 1 ? 'event' : 'events'} rest={entries} />
          <AuditDialog entry={open} onClose={() => change({ entry: null })} />
        </>
      )}
    </Loaded>
  );
}

/** Returns a filter parameter, if it is set. */
function given<Name extends string>(name: Name, value: string | null): Partial<Record<Name, string>> {
  return value === null ? {} : ({ [name]: value } as Record<Name, string>); // A computed key has the type `string`.
}

/** The columns of the audit log; `onOpen` shows the details of an entry, or expands a group. */
function auditColumns(
  isExpanded: (group: readonly Entry[]) => boolean,
  onOpen: (row: AuditRow) => void,
): Column<AuditRow>[] {
  return [
    {
      name: 'what',
      heading: 'Event',
      value: ({ entry: { action, subject, subject_name: name } }) =>
        `${actionLabel(action)} ${name ?? subject}`,
      grow: true,
      cell: (row) => <EventCell row={row} isExpanded={isExpanded} onOpen={onOpen} />,
    },
    {
      name: 'who',
      heading: 'Actor',
      value: ({ entry: { actor, actor_name: name } }) => name ?? actor,
      from: 'md',
      cell: ({ entry }) => (
        <Truncated>
          <ActorName entry={entry} />
        </Truncated>
      ),
    },
    {
      name: 'account',
      heading: 'Account',
      value: ({ entry: { account_name: name, account_id: id } }) => name ?? id,
      from: 'lg',
      cell: ({ entry: { account_name: name, account_id: id } }) =>
        id === null ? <span className="text-ink-3">—</span> : <Truncated>{name ?? id}</Truncated>,
    },
    {
      name: 'ip',
      heading: 'IP address',
      value: ({ entry: { ip } }) => ip,
      from: 'xl',
      cell: ({ entry: { ip } }) => <IpAddress ip={ip} />,
    },
    {
      name: 'at',
      heading: 'Time',
      value: ({ entry: { at } }) => at,
      numeric: true,
      from: 'sm',
      cell: ({ entry: { at } }) => <Time at={at} />,
    },
  ];
}

/** One truncated line; the details show the full text. */
function Truncated({ children }: { children: ReactNode }) {
  return <span className="block max-w-48 truncate">{children}</span>;
}

interface EventCellProps {
  row: AuditRow;
  isExpanded: (group: readonly Entry[]) => boolean;
  onOpen: (row: AuditRow) => void;
}

function EventCell({ row, isExpanded, onOpen }: EventCellProps) {
  const { entry, group } = row;
  return (
    <span className="block truncate">
      {group === null ? (
        <>
          <button type="button" className="text-left hover:underline" onClick={() => onOpen(row)}>
            {actionLabel(entry.action)}
          </button>{' '}
          <SubjectName entry={entry} />
        </>
      ) : (
        <FoldButton isExpanded={isExpanded(group)} onClick={() => onOpen(row)}>
          {groupText(group)}
        </FoldButton>
      )}
      <span className="block truncate text-xs text-ink-3 md:hidden">
        <ActorName entry={entry} />
        <span className="sm:hidden">
          , <Time at={entry.at} />
        </span>
      </span>
    </span>
  );
}

/** The IP address of the actor; null: the command line or the service. */
function IpAddress({ ip }: { ip: string | null }) {
  if (ip === null) return <span className="text-ink-3">Local</span>;
  return <span className="font-mono text-xs">{ip}</span>;
}

/** Accounts, and users, that the filters offer. */
const MAX_CHOICES = 1000;

const FILTERS = ['actor', 'action', 'subject', 'of', 'range', 'from', 'to'];

function AuditFilters() {
  const [query, change] = useQueryState();
  const accounts = useRead('listAccounts', { query: { limit: MAX_CHOICES } });
  const users = useRead('listUsers', { query: { limit: MAX_CHOICES } });
  const keys = useKeys({});
  const time = timeRangeOf(query);
  const narrowed = FILTERS.some((name) => query.has(name));
  const ofAccounts = (accounts.data?.data ?? []).map(({ id, name }) => choice(`account:${id}`, name, id));
  const ofUsers = (users.data?.data ?? []).map(({ id, name, email }) => choice(`user:${id}`, name, email));
  const ofKeys = (keys.data?.data ?? []).map(({ id, name, last_four: lastFour }) =>
    choice(`key:${id}`, name, `…${lastFour}`),
  );
  const visitor = choice('visitor', 'Visitor', 'not signed in');
  const selects = [
    {
      name: 'actor',
      label: 'Actor',
      choices: [choice('service', 'Service'), visitor, ...ofUsers, ...ofKeys],
      typed: typedName,
    },
    {
      name: 'action',
      label: 'Event',
      choices: Object.keys(ACTION_LABELS).map((action) => choice(action, standaloneLabel(action), action)),
    },
    {
      name: 'subject',
      label: 'Subject',
      choices: [...ofAccounts, ...ofUsers, ...ofKeys],
      typed: typedName,
    },
    {
      name: 'of',
      label: 'Account',
      choices: (accounts.data?.data ?? []).map(({ id, name }) => choice(id, name, id)),
    },
  ];
  return (
    <div className="grid grid-cols-2 items-center gap-2 border-b border-line p-3 sm:px-5 lg:flex lg:flex-wrap">
      {selects.map(({ name, label, ...select }) => (
        <SearchSelect
          key={name}
          label={label}
          any={`Any ${label.toLowerCase()}`}
          value={query.get(name)}
          onChange={(value) => change({ [name]: value })}
          className="lg:w-44"
          {...select}
        />
      ))}
      <TimeFilter value={time} onChange={({ range, from, to }) => change({ range, from, to })} />
      {narrowed && (
        <Button
          size="small"
          kind="quiet"
          className="justify-self-start"
          onClick={() => change(Object.fromEntries(FILTERS.map((name) => [name, null])))}
        >
          Clear filters
        </Button>
      )}
      <div className="col-span-2 space-y-2 empty:hidden">
        <LoadFailure query={accounts} what="the names of accounts" />
        <LoadFailure query={users} what="the names of users" />
        <LoadFailure query={keys} what="the names of keys" />
      </div>
    </div>
  );
}

const choice = (value: string, label: string, hint?: string) => ({ value, label, hint });

/** Accepts names that no list contains: `cli:ops`, `plan:free`, deleted users. */
const typedName = (text: string): string | null => (/^[a-z]+:\S+$/.test(text) ? text : null);

interface AuditDialogProps {
  /** Null: closed. */
  entry: Entry | null;
  onClose: () => void;
}

function AuditDialog({ entry, onClose }: AuditDialogProps) {
  return (
    <Dialog
      side
      open={entry !== null}
      onClose={onClose}
      title={
        entry && (
          <>
            {actionLabel(entry.action)} <SubjectName entry={entry} />
          </>
        )
      }
      hint={entry === null ? undefined : exactTime(entry.at)}
    >
      {entry && <Details entry={entry} />}
    </Dialog>
  );
}

function Details({ entry }: { entry: Entry }) {
  const { actor, ip, action, subject, account_id: accountId, id, at } = entry;
  const changes = changesOf(entry);
  return (
    <div className="space-y-6">
      {changes.length > 0 && (
        <section>
          <h3 className="mb-2 text-xs font-medium text-ink-3">Details</h3>
          <ul className="divide-y divide-line rounded-lg border border-line text-sm">
            {changes.map(({ field, from, to }) => (
              <li key={field} className="px-4 py-3">
                <span className="block text-xs text-ink-3">{field}</span>
                {from !== null && <del className="block break-words text-ink-3">{from}</del>}
                <span className="block break-words">{to}</span>
              </li>
            ))}
          </ul>
        </section>
      )}
      <DetailList
        details={[
          { label: 'Time', value: <Time at={at} /> },
          { label: 'Actor', value: <ActorName entry={entry} /> },
          { label: 'IP address', value: <IpAddress ip={ip} /> },
          accountId !== null && {
            label: 'Account',
            value: (
              <TextLink to={`/operator/accounts/${accountId}`}>{entry.account_name ?? accountId}</TextLink>
            ),
          },
          { label: 'Event type', value: <Mono>{action}</Mono> },
          { label: 'Actor ID', value: <Mono>{actor}</Mono> },
          { label: 'Subject ID', value: <Mono>{subject}</Mono> },
          { label: 'Event ID', value: <Mono>{id}</Mono> },
        ]}
      />
      <p className="flex flex-wrap gap-x-4 gap-y-1 text-sm">
        <TextLink to={`/operator/audit?actor=${encodeURIComponent(actor)}`}>
          All events by this actor
        </TextLink>
        <TextLink to={`/operator/audit?subject=${encodeURIComponent(subject)}`}>
          All events for this subject
        </TextLink>
      </p>
    </div>
  );
}
