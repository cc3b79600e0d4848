import { ChartColumn, Ellipsis, Eye, ListTree, Pencil, RefreshCw, Trash2 } from 'lucide-react';
import { useMemo } from 'react';
import type { ItemOf } from '../../api/client.ts';
import type { QueryState } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { BareCheckbox } from '../../components/choices.tsx';
import { Link } from '../../components/link.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import { Unloaded } from '../../components/states.tsx';
import { Table, timeColumn, type Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { exactMoney, moneyColumn } from '../../format/money.ts';
import { useKeyRights } from '../../state/session.tsx';
import { useQueryState } from '../../state/url-query.ts';
import { revokeKey, rotateKey } from './key-changes.tsx';
import { KeyState, MaskedKey, Tags } from './key-state.tsx';

type Key = ItemOf<'listKeys'>;

interface KeysTableProps {
  keys: readonly Key[];
  /** The usage of this month by key. */
  usage: QueryState<readonly ItemOf<'readUsage'>[]>;
  /** Ids of the selected keys; null: keys are not being selected. */
  selected: ReadonlySet<string> | null;
  onToggle: (key: Key) => void;
}

/** The table of keys. */
export function KeysTable({ keys, usage, selected, onToggle }: KeysTableProps) {
  const [query, change] = useQueryState();
  const spend = useMemo(
    () => usage.data && new Map(usage.data.map(({ key_id: id, cost_usd: usd }) => [id ?? '', usd])),
    [usage.data],
  );
  const hasTags = keys.some(({ tags }) => tags.length > 0);
  return (
    <Table
      label="API keys"
      id="keys"
      sortable
      columns={[
        ...(selected === null ? [] : [checkboxes(selected, onToggle)]),
        NAME,
        ...(hasTags ? [TAGS] : []),
        ...TIMES,
        costColumn(usage, spend),
        STATE,
        ...(selected === null ? [ACTIONS] : []),
      ]}
      rows={keys}
      keyOf={({ id }) => id}
      onOpen={selected === null ? ({ id }) => change({ key: id }) : onToggle}
      isOpen={({ id }) => selected?.has(id) ?? id === query.get('key')}
    />
  );
}

function checkboxes(selected: ReadonlySet<string>, onToggle: (key: Key) => void): Column<Key> {
  return {
    name: 'selected',
    heading: 'Selected',
    isControl: true,
    cell: (key) => (
      <BareCheckbox
        label={`Select ${key.name}`}
        checked={selected.has(key.id)}
        onChange={() => onToggle(key)}
      />
    ),
  };
}

/** `spend`: in USD by key ID, as decimal strings; undefined: not loaded. */
function costColumn(usage: QueryState<unknown>, spend: ReadonlyMap<string, string> | undefined): Column<Key> {
  const amount = moneyColumn(spend?.values() ?? []);
  return {
    name: 'spend',
    heading: 'Cost this month',
    value: ({ id }) => spend?.get(id) ?? '0',
    numeric: true,
    cell: ({ id }) => {
      if (spend === undefined) return <Unloaded query={usage} className="ml-auto h-4 w-12" />;
      const usd = spend.get(id) ?? '0';
      return <span title={exactMoney(usd)}>{amount(usd)}</span>;
    },
  };
}

const TAGS: Column<Key> = {
  name: 'tags',
  heading: 'Tags',
  value: ({ tags }) => tags.join(', '),
  from: 'lg',
  cell: ({ tags }) => <Tags tags={tags} />,
};

const NAME: Column<Key> = {
  name: 'name',
  heading: 'Name',
  value: ({ name }) => name,
  grow: true,
  cell: (key) => (
    <>
      <span className="flex items-center gap-2">
        <KeyLink apiKey={key} />
        {key.kind === 'admin' && <Badge tone="warn">Admin</Badge>}
        {key.status !== 'live' && (
          <span className="sm:hidden">
            <KeyState apiKey={key} />
          </span>
        )}
      </span>
      <span className="block truncate">
        <MaskedKey apiKey={key} />
      </span>
    </>
  ),
};

const TIMES: readonly Column<Key>[] = [
  timeColumn({ name: 'created', heading: 'Created', from: 'xl' }, ({ created_at: at }) => at),
  {
    name: 'used',
    heading: 'Last used',
    value: ({ last_used_at: at }) => at,
    from: 'md',
    cell: ({ last_used_at, last_used_client: client, last_used_ip: ip }) => (
      <>
        <Time at={last_used_at} relative />
        {(client !== null || ip !== null) && (
          <span
            className="block max-w-52 truncate text-2xs text-ink-3"
            title={[client, ip].filter((part) => part !== null).join(', ')}
          >
            {client !== null && ip !== null ? `${client} from ` : client}
            {ip !== null && <code className="font-mono">{ip}</code>}
          </span>
        )}
      </>
    ),
  },
  timeColumn({ name: 'expires', heading: 'Expires', from: 'lg' }, ({ expires_at: at }) => at),
];

const STATE: Column<Key> = {
  name: 'state',
  heading: 'Status',
  value: ({ status }) => status,
  from: 'sm',
  cell: (key) => <KeyState apiKey={key} />,
};

const ACTIONS: Column<Key> = {
  name: 'actions',
  heading: 'Actions',
  isControl: true,
  cell: (key) => <Actions apiKey={key} />,
};

/** A link that opens a key, and keeps the filters. */
function KeyLink({ apiKey: { id, name } }: { apiKey: Key }) {
  const [query] = useQueryState();
  const to = new URLSearchParams(query);
  to.set('key', id);
  return (
    <Link to={`/keys?${to}`} className="truncate rounded-sm font-medium hover:underline">
      {name}
    </Link>
  );
}

function Actions({ apiKey: key }: { apiKey: Key }) {
  const [, change] = useQueryState();
  const rights = useKeyRights()(key);
  return (
    <Menu
      trigger={
        <IconButton label={`Actions for ${key.name}`}>
          <Ellipsis />
        </IconButton>
      }
    >
      <MenuItem icon={<Eye />} onClick={() => change({ key: key.id })}>
        View details
      </MenuItem>
      <MenuItem icon={<ListTree />} render={<Link to={`/requests?key=${key.id}`} />}>
        View requests
      </MenuItem>
      <MenuItem icon={<ChartColumn />} render={<Link to={`/usage?key=${key.id}`} />}>
        View usage
      </MenuItem>
      {rights !== null && (
        <>
          <MenuSeparator />
          {rights === 'change' && (
            <>
              <MenuItem icon={<Pencil />} onClick={() => change({ key: key.id, edit: '1' })}>
                Edit
              </MenuItem>
              <MenuItem icon={<RefreshCw />} onClick={() => void rotateKey(key)}>
                Rotate
              </MenuItem>
            </>
          )}
          <MenuItem icon={<Trash2 />} danger onClick={() => revokeKey(key)}>
            Revoke
          </MenuItem>
        </>
      )}
    </Menu>
  );
}
