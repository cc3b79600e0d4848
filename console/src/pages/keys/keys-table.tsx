import { ChartColumn, Ellipsis, Eye, ListTree, Pencil, RefreshCw, Trash2 } from 'lucide-react';
import type { ItemOf } from '../../api/client.ts';
import type { QueryState } from '../../api/queries.ts';
import { Badge } from '../../components/badge.tsx';
import { IconButton } from '../../components/button.tsx';
import { BareCheckbox } from '../../components/choices.tsx';
import { Link } from '../../components/link.tsx';
import { Unloaded } from '../../components/loaded.tsx';
import { Menu, MenuItem, MenuSeparator } from '../../components/menu.tsx';
import { Table, timeColumn, type Column } from '../../components/table.tsx';
import { Time } from '../../components/time.tsx';
import { exactMoney, moneyColumn } from '../../format/money.ts';
import { KeyState, MaskedKey, Tags, useKeyRights } from './key-state.tsx';

type Key = ItemOf<'listKeys'>;

interface KeysTableProps {
  keys: readonly Key[];
  usage: QueryState<unknown>;
  /** Cost this month by key id, USD as decimal strings; undefined: not loaded. */
  spend: ReadonlyMap<string, string> | undefined;
  /** Id of the open key. */
  openId: string | null;
  /** Returns the path of a key. */
  hrefOf: (key: Key) => string;
  onOpen: (key: Key) => void;
  onEdit: (key: Key) => void;
  onRotate: (key: Key) => void;
  onRevoke: (key: Key) => void;
  /** Ids of the selected keys; null: keys are not being selected. */
  selected: ReadonlySet<string> | null;
  onToggle: (key: Key) => void;
}

/** The table of keys. */
export function KeysTable(props: KeysTableProps) {
  return (
    <Table
      label="API keys"
      id="keys"
      sortable
      columns={keyColumns(props)}
      rows={props.keys}
      keyOf={({ id }) => id}
      onOpen={props.selected === null ? props.onOpen : props.onToggle}
      isOpen={({ id }) => props.selected?.has(id) ?? id === props.openId}
    />
  );
}

const TAGS: Column<Key> = {
  name: 'tags',
  heading: 'Tags',
  value: ({ tags }) => tags.join(', '),
  from: 'lg',
  cell: ({ tags }) => <Tags tags={tags} />,
};

function keyColumns(props: KeysTableProps): Column<Key>[] {
  const { usage, spend, hrefOf, onOpen, onEdit, onRotate, onRevoke, selected, onToggle } = props;
  const amount = moneyColumn(spend?.values() ?? []);
  const spent = ({ id }: Key) => {
    if (spend === undefined) return <Unloaded query={usage} className="ml-auto h-4 w-12" />;
    const usd = spend.get(id) ?? '0';
    return <span title={exactMoney(usd)}>{amount(usd)}</span>;
  };
  const checkboxes: Column<Key> = {
    name: 'selected',
    heading: 'Selected',
    isControl: true,
    cell: (key) => (
      <BareCheckbox
        label={`Select ${key.name}`}
        checked={selected?.has(key.id) ?? false}
        onChange={() => onToggle(key)}
      />
    ),
  };
  const columns: Column<Key>[] = [
    {
      name: 'name',
      heading: 'Name',
      value: ({ name }) => name,
      grow: true,
      cell: (key) => (
        <>
          <span className="flex items-center gap-2">
            <Link to={hrefOf(key)} className="truncate rounded-sm font-medium hover:underline">
              {key.name}
            </Link>
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
    },
    ...(props.keys.some(({ tags }) => tags.length > 0) ? [TAGS] : []),
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
    {
      name: 'spend',
      heading: 'Cost this month',
      value: ({ id }) => spend?.get(id) ?? '0',
      numeric: true,
      cell: spent,
    },
    {
      name: 'state',
      heading: 'Status',
      value: ({ status }) => status,
      from: 'sm',
      cell: (key) => <KeyState apiKey={key} />,
    },
    {
      name: 'actions',
      heading: 'Actions',
      isControl: true,
      cell: (key) => <Actions apiKey={key} {...{ onOpen, onEdit, onRotate, onRevoke }} />,
    },
  ];
  return selected === null ? columns : [checkboxes, ...columns.slice(0, -1)];
}

function Actions({
  apiKey: key,
  onOpen,
  onEdit,
  onRotate,
  onRevoke,
}: { apiKey: Key } & Pick<KeysTableProps, 'onOpen' | 'onEdit' | 'onRotate' | 'onRevoke'>) {
  const rights = useKeyRights()(key);
  return (
    <Menu
      trigger={
        <IconButton label={`Actions for ${key.name}`}>
          <Ellipsis />
        </IconButton>
      }
    >
      <MenuItem icon={<Eye />} onClick={() => onOpen(key)}>
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
              <MenuItem icon={<Pencil />} onClick={() => onEdit(key)}>
                Edit
              </MenuItem>
              <MenuItem icon={<RefreshCw />} onClick={() => onRotate(key)}>
                Rotate
              </MenuItem>
            </>
          )}
          <MenuItem icon={<Trash2 />} danger onClick={() => onRevoke(key)}>
            Revoke
          </MenuItem>
        </>
      )}
    </Menu>
  );
}
