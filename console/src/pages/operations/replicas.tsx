import { Cpu } from 'lucide-react';
import { useRead } from '../../api/queries.ts';
import { Card } from '../../components/card.tsx';
import { TextLink } from '../../components/link.tsx';
import { ModelName } from '../../components/model-name.tsx';
import { useOpening } from '../../components/opening.ts';
import { StateBadge, StateCell } from '../../components/state-badge.tsx';
import { EmptyState, Loaded } from '../../components/states.tsx';
import { numberColumn, Table, type Column } from '../../components/table.tsx';
import { bytes, counted, fixed, percentColumn, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { useQueryState } from '../../state/url-query.ts';
import {
  cacheShare,
  locationOf,
  orUnknown,
  ReplicaDialog,
  uptimeMs,
  type Replica,
} from './replica-dialog.tsx';

/** Returns a unique key: replicas of two models may have the same name. */
const keyOfReplica = ({ model, name }: Replica): string => `${model} ${name}`;

/** Returns the counts behind the share of `cacheShare`. */
function cacheCounts({ prompt_tokens: prompt, cached_tokens: cached }: Replica): string | undefined {
  return prompt === null || cached === null
    ? undefined
    : `${whole(cached)} of ${whole(prompt)} prompt tokens`;
}

const EVERY_MS = 2000;

export function Replicas() {
  const replicas = useRead('listEngines', undefined, { everyMs: EVERY_MS });
  const [query, change] = useQueryState();
  const open = query.get('engine');
  const opening = useOpening(open);
  const show = (replica: Replica) => change({ engine: keyOfReplica(replica) });
  return (
    <Card flush title="Replicas" hint="Engines and servers that run the models">
      <Loaded
        query={replicas}
        empty={
          <EmptyState icon={Cpu} title="No models">
            Add a model or a server on the <TextLink to="/models">Models</TextLink> page. See also{' '}
            <TextLink to="/docs/guide/replicas">Replicas</TextLink>.
          </EmptyState>
        }
      >
        {({ data }) => (
          <Table
            label="Replicas"
            id="replicas"
            sortable
            columns={replicaColumns(show)}
            rows={data}
            keyOf={keyOfReplica}
            onOpen={show}
            isOpen={(replica) => keyOfReplica(replica) === open}
          />
        )}
      </Loaded>
      <ReplicaDialog
        key={opening}
        replica={replicas.data?.data.find((replica) => keyOfReplica(replica) === open) ?? null}
        onClose={() => change({ engine: null })}
      />
    </Card>
  );
}

/** `onOpen` shows the details of a replica. */
function replicaColumns(onOpen: (replica: Replica) => void): Column<Replica>[] {
  return [
    {
      name: 'replica',
      heading: 'Replica',
      value: ({ model, name }) => `${model} ${name}`,
      grow: true,
      cell: (replica) => <Name replica={replica} onOpen={onOpen} />,
    },
    {
      name: 'state',
      heading: 'State',
      value: ({ state }) => state,
      from: 'sm',
      cell: (replica) => <StateCell status={replica} />,
    },
    {
      name: 'slots',
      heading: 'Slots in use',
      value: ({ slots_in_use: used }) => used,
      cell: (replica) => <Slots replica={replica} />,
    },
    numberColumn({ name: 'queue', heading: 'Queue', from: 'md' }, ({ queued }) => queued),
    numberColumn(
      { name: 'speed', heading: 'Tokens/s', from: 'md' },
      ({ tokens_per_second: speed }) => speed,
      (speed) => fixed(speed, 1),
    ),
    numberColumn({ name: 'memory', heading: 'Memory', from: 'md' }, ({ memory_bytes: size }) => size, bytes),
    {
      name: 'cache',
      heading: 'Cache hit rate',
      value: cacheShare,
      numeric: true,
      from: 'lg',
      cell: (replica) => (
        <span title={cacheCounts(replica)}>{orUnknown(cacheShare(replica), percentColumn)}</span>
      ),
    },
    {
      name: 'uptime',
      heading: 'Uptime',
      value: uptimeMs,
      from: 'xl',
      cell: (replica) => <Uptime replica={replica} />,
    },
    { name: 'backend', heading: 'Backend', from: 'xl', cell: (replica) => <Backend replica={replica} /> },
  ];
}

function Name({ replica, onOpen }: { replica: Replica; onOpen: (replica: Replica) => void }) {
  return (
    <>
      <button
        type="button"
        aria-label={replica.model}
        className="block max-w-full text-left font-medium hover:underline"
        onClick={() => onOpen(replica)}
      >
        <ModelName short id={replica.model} />
      </button>
      <span className="hidden truncate text-xs text-ink-3 sm:block" title={replica.name}>
        {locationOf(replica)}
      </span>
      <span className="block text-xs sm:hidden">
        <StateBadge status={replica} />
      </span>
      <Narrow replica={replica} />
    </>
  );
}

/** Load and memory below the name, for narrow windows, where their columns are hidden. */
function Narrow({ replica }: { replica: Replica }) {
  const { queued, tokens_per_second: speed, memory_bytes: memory } = replica;
  const values = [
    { name: 'Queue', value: orUnknown(queued, whole) },
    { name: 'Tokens/s', value: orUnknown(speed, (value) => fixed(value, 1)) },
    { name: 'Memory', value: orUnknown(memory, bytes) },
  ];
  return (
    <dl className="mt-1 flex flex-wrap gap-x-3 text-xs md:hidden">
      {values.map(({ name, value }) => (
        <div key={name} className="flex gap-1">
          <dt className="text-ink-3">{name}</dt>
          <dd className="tabular-nums">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** The slots in use, as a bar and as numbers, or only a number if the server does not report how many it has. */
function Slots({ replica: { slots, slots_in_use: used } }: { replica: Replica }) {
  if (slots === null || used === null) return orUnknown(used, whole);
  return (
    <span className="flex items-center gap-2.5 whitespace-nowrap">
      <span className="h-1.5 w-12 overflow-hidden rounded-full bg-sunken sm:w-16" aria-hidden="true">
        <span
          className="block h-full rounded-full bg-accent transition-[width]"
          style={{ width: `${Math.min(100, (used / slots) * 100)}%` }}
        />
      </span>
      <span className="tabular-nums">
        {used} of {slots}
      </span>
    </span>
  );
}

function Uptime({ replica }: { replica: Replica }) {
  const { restarts } = replica;
  return (
    <>
      <span className="block whitespace-nowrap tabular-nums">{orUnknown(uptimeMs(replica), duration)}</span>
      {restarts !== null && (
        <span className={`block text-xs whitespace-nowrap ${restarts > 0 ? 'text-warn' : 'text-ink-3'}`}>
          {counted(restarts, 'restart')}
        </span>
      )}
    </>
  );
}

function Backend({ replica: { backend, dialect } }: { replica: Replica }) {
  return (
    <>
      <span className="block whitespace-nowrap">{orUnknown(backend, String)}</span>
      <span className="block text-xs whitespace-nowrap text-ink-3">{dialect}</span>
    </>
  );
}
