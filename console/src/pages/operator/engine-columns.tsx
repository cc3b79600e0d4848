import type { ReactNode } from 'react';
import type { Element } from '../../api/client.ts';
import type { Column } from '../../components/table.tsx';
import { bytes, oneDigit, percent, whole } from '../../format/number.ts';
import { duration } from '../../format/time.ts';
import { EngineStatus } from '../../components/engine-status.tsx';
import { NOT_TOLD } from './words.ts';

export type Engine = Element<'listEngines'>;

/** Names a replica among all: two models may have replicas of the same name. */
export const keyOfEngine = ({ model, name }: Engine): string => `${model} ${name}`;

/** What is told, written; a word where it is not. */
export function told<Value>(value: Value | null, write: (value: Value) => ReactNode): ReactNode {
  return value === null ? <span className="text-xs text-ink-3">{NOT_TOLD}</span> : write(value);
}

/** Share of the prompt tokens that the prefix cache held, 0 to 1; null: not told, or none came yet. */
export function cacheShare({ prompt_tokens: prompt, cached_tokens: cached }: Engine): number | null {
  return prompt === null || cached === null || prompt === 0 ? null : cached / prompt;
}

/** For how long it has been ready, in milliseconds; null: not told. */
export function uptimeMs({ started_at: startedAt }: Engine): number | null {
  return startedAt === null ? null : Math.max(0, Date.now() - Date.parse(startedAt));
}

/** The columns of the list; `onOpen` shows all that is known of one. */
export function engineColumns(onOpen: (engine: Engine) => void): Column<Engine>[] {
  return [
    {
      name: 'replica',
      heading: 'Replica',
      grow: true,
      cell: (engine) => <Replica engine={engine} onOpen={onOpen} />,
    },
    { name: 'state', heading: 'State', from: 'sm', cell: (engine) => <State engine={engine} /> },
    { name: 'slots', heading: 'Slots in use', cell: (engine) => <Slots engine={engine} /> },
    { name: 'queue', heading: 'Queue', numeric: true, from: 'md', cell: ({ queued }) => told(queued, whole) },
    {
      name: 'speed',
      heading: 'Tokens/s',
      numeric: true,
      from: 'md',
      cell: ({ tokens_per_second: speed }) => told(speed, oneDigit),
    },
    {
      name: 'memory',
      heading: 'Memory',
      numeric: true,
      from: 'lg',
      cell: ({ memory_bytes: memory }) => told(memory, bytes),
    },
    {
      name: 'cache',
      heading: 'Cache hits',
      numeric: true,
      from: 'lg',
      cell: (engine) => told(cacheShare(engine), percent),
    },
    { name: 'uptime', heading: 'Uptime', from: 'xl', cell: (engine) => <Uptime engine={engine} /> },
    { name: 'backend', heading: 'Backend', from: 'xl', cell: (engine) => <Backend engine={engine} /> },
  ];
}

function Replica({ engine, onOpen }: { engine: Engine; onOpen: (engine: Engine) => void }) {
  return (
    <>
      <button
        type="button"
        className="block max-w-full truncate text-left font-medium hover:underline"
        title={engine.model}
        onClick={() => onOpen(engine)}
      >
        {engine.model}
      </button>
      <span className="hidden truncate text-xs text-ink-3 sm:block" title={engine.name}>
        {placeOf(engine)}
      </span>
      <span className="block text-xs sm:hidden">
        <EngineStatus engine={engine} />
      </span>
    </>
  );
}

function State({ engine }: { engine: Engine }) {
  const { state, reason, received_bytes: received, total_bytes: total } = engine;
  return (
    <>
      <EngineStatus engine={engine} />
      {(state === 'down' || state === 'paused') && reason !== null && (
        <span className="block max-w-40 truncate text-xs text-ink-3" title={reason}>
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

/** How many of the slots generate: a bar, and the numbers beside it. */
function Slots({ engine: { slots, slots_in_use: used } }: { engine: Engine }) {
  if (slots === null || used === null) return told(null, String);
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

/** Where it is: the address of another server, or here. */
export const placeOf = ({ model, name }: Engine): string =>
  name === `embedded:${model}` ? 'embedded, on this machine' : name;

function Uptime({ engine }: { engine: Engine }) {
  const { restarts } = engine;
  return (
    <>
      <span className="block whitespace-nowrap tabular-nums">{told(uptimeMs(engine), duration)}</span>
      {restarts !== null && (
        <span className={`block text-xs whitespace-nowrap ${restarts > 0 ? 'text-warn' : 'text-ink-3'}`}>
          {whole(restarts)} {restarts === 1 ? 'restart' : 'restarts'}
        </span>
      )}
    </>
  );
}

function Backend({ engine: { backend, dialect } }: { engine: Engine }) {
  return (
    <>
      <span className="block whitespace-nowrap">{told(backend, String)}</span>
      <span className="block text-xs whitespace-nowrap text-ink-3">{dialect}</span>
    </>
  );
}
