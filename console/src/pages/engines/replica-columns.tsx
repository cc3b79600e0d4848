import type { ReactNode } from 'react';
import type { ItemOf } from '../../api/client.ts';
import type { Column } from '../../components/table.tsx';
import { bytes, counted, fixed, percentColumn, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { ModelName } from '../../components/model-name.tsx';
import { StateBadge } from '../../components/state-badge.tsx';

export type Replica = ItemOf<'listEngines'>;

/** Returns a unique key: replicas of two models may have the same name. */
export const keyOfReplica = ({ model, name }: Replica): string => `${model} ${name}`;

/** Formats a value; null, which means that the engine does not report it, becomes a dash. */
export function orUnknown<Value>(value: Value | null, write: (value: Value) => ReactNode): ReactNode {
  return value === null ? <span className="text-ink-3">—</span> : write(value);
}

/** Returns the share of prompt tokens found in the prefix cache, 0 to 1; null: not reported, or no prompt yet. */
export function cacheShare({ prompt_tokens: prompt, cached_tokens: cached }: Replica): number | null {
  return prompt === null || cached === null || prompt === 0 ? null : cached / prompt;
}

/** Returns the counts behind the share of `cacheShare`. */
function cacheCounts({ prompt_tokens: prompt, cached_tokens: cached }: Replica): string | undefined {
  return prompt === null || cached === null
    ? undefined
    : `${whole(cached)} of ${whole(prompt)} prompt tokens`;
}

/** Returns the time since the replica became ready, in milliseconds; null: not reported. */
export function uptimeMs({ started_at: startedAt }: Replica): number | null {
  return startedAt === null ? null : Math.max(0, Date.now() - Date.parse(startedAt));
}

/** The columns of the list of replicas; `onOpen` shows the details of one. */
export function replicaColumns(onOpen: (replica: Replica) => void): Column<Replica>[] {
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
      cell: (replica) => <State replica={replica} />,
    },
    {
      name: 'slots',
      heading: 'Slots in use',
      value: ({ slots_in_use: used }) => used,
      cell: (replica) => <Slots replica={replica} />,
    },
    {
      name: 'queue',
      heading: 'Queue',
      value: ({ queued }) => queued,
      numeric: true,
      from: 'md',
      cell: ({ queued }) => orUnknown(queued, whole),
    },
    {
      name: 'speed',
      heading: 'Tokens/s',
      value: ({ tokens_per_second: speed }) => speed,
      numeric: true,
      from: 'md',
      cell: ({ tokens_per_second: speed }) => orUnknown(speed, (value) => fixed(value, 1)),
    },
    {
      name: 'memory',
      heading: 'Memory',
      value: ({ memory_bytes: memory }) => memory,
      numeric: true,
      from: 'md',
      cell: ({ memory_bytes: memory }) => orUnknown(memory, bytes),
    },
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

function State({ replica }: { replica: Replica }) {
  const { state, reason, received_bytes: received, total_bytes: total } = replica;
  return (
    <>
      <StateBadge status={replica} />
      {(state === 'down' || state === 'paused') && reason !== null && (
        <span className="block max-w-40 truncate text-xs text-ink-3 first-letter:uppercase" title={reason}>
          {reason}
        </span>
      )}
      {state === 'downloading' && received !== null && (
        <span className="block text-xs text-ink-3">
          {bytes(received)}
          {total !== null && ` of ${bytes(total)}`}
        </span>
      )}
    </>
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

/** Returns the location of a replica: the URL of its server, or this machine. */
export const locationOf = ({ model, name }: Replica): string =>
  name === `embedded:${model}`
    ? 'Embedded (this machine)'
    : name === `command:${model}`
      ? 'Program (this machine)'
      : name;

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
