import { once } from 'node:events';
import { existsSync, readFileSync, renameSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@redis/client';
import type { TestServer } from '../test/support/server-process.ts';
import { FALSE_USAGE_NAMES } from './false-usage.ts';
import { replicaRequest, whileServingOthers, type FaultContext } from './fault-context.ts';
import { sendHostileBodies } from './hostile-bodies.ts';
import { FIRST_BYTE_MS, LEASE_MS, LOAD_STALL_MS, RETRY_AFTER_MS } from './configuration.ts';
import { childrenOf, sendSignal } from '../test/support/program.ts';
import type { Testbed } from './testbed.ts';
import { floodWithoutKey } from './unauthenticated-flood.ts';

export type FaultTarget = 'instance' | 'embedded' | 'engine' | 'postgres' | 'valkey' | 'disk' | 'rows';

interface FaultType {
  name: string;
  weight: number;
  target: FaultTarget;
  /** Only with SQLite. */
  sqlite?: true;
  /** Whether no other fault may overlap, because the fault checks that other callers are served. */
  exclusive?: true;
  /** Range of the duration, in milliseconds. */
  durationMs: readonly [least: number, most: number];
  inject(context: FaultContext): Promise<void>;
}

/** Pause between attempts to end a fault, in milliseconds. */
const RETRY_MS = 50;

/** Number of readiness checks before a fault that needs a ready instance is skipped. */
const READY_ATTEMPTS = 100;

const MOMENT = [0, 0] as const;
const WITHIN_LEASE = [50, LEASE_MS / 2] as const;
const BEYOND_LEASE = [LEASE_MS * 1.2, LEASE_MS * 2] as const;

export const FAULT_TYPES: readonly FaultType[] = [
  { name: 'service killed', weight: 6, target: 'instance', durationMs: [0, 500], inject: killInstance },
  {
    name: 'service down beyond its lease',
    weight: 2,
    target: 'instance',
    durationMs: BEYOND_LEASE,
    inject: killInstance,
  },
  { name: 'service stopped', weight: 3, target: 'instance', durationMs: [0, 200], inject: stopInstance },
  { name: 'service paused', weight: 8, target: 'instance', durationMs: WITHIN_LEASE, inject: pauseInstance },
  {
    name: 'service paused beyond its lease',
    weight: 6,
    target: 'instance',
    durationMs: BEYOND_LEASE,
    inject: pauseInstance,
  },
  { name: 'embedded engine killed', weight: 5, target: 'embedded', durationMs: MOMENT, inject: killEmbedded },
  {
    name: 'embedded engine paused',
    weight: 4,
    target: 'embedded',
    durationMs: [50, 3000],
    inject: pauseEmbedded,
  },
  { name: 'engine killed', weight: 6, target: 'engine', durationMs: [0, 1000], inject: killEngine },
  { name: 'engine paused', weight: 6, target: 'engine', durationMs: [50, 4500], inject: pauseEngine },
  {
    name: 'embedded engine stalled while loading',
    weight: 3,
    target: 'embedded',
    durationMs: [LOAD_STALL_MS * 1.1, LOAD_STALL_MS * 1.5],
    inject: stallLoad,
  },
  {
    name: 'engine fails immediately',
    weight: 5,
    target: 'engine',
    durationMs: [500, 3000],
    inject: failFast,
  },
  {
    name: 'replica reports false usage',
    weight: 4,
    target: 'instance',
    exclusive: true,
    durationMs: MOMENT,
    inject: sendFalseUsageRequests,
  },
  {
    name: 'hostile bodies',
    weight: 4,
    target: 'instance',
    exclusive: true,
    durationMs: MOMENT,
    inject: sendHostileBodies,
  },
  {
    name: 'replica slow or limited',
    weight: 4,
    target: 'instance',
    exclusive: true,
    durationMs: MOMENT,
    inject: sendToSlowAndLimitedReplicas,
  },
  {
    name: 'flood without a key',
    weight: 4,
    target: 'instance',
    exclusive: true,
    durationMs: MOMENT,
    inject: floodWithoutKey,
  },
  { name: 'disk full', weight: 8, target: 'disk', durationMs: [50, 2500], inject: fillDisk },
  { name: 'database locked', weight: 4, target: 'disk', durationMs: [50, 2500], inject: lockDatabase },
  { name: 'rows refused', weight: 6, target: 'rows', durationMs: [50, 2500], inject: refuseRows },
  // Targets the service, so that no other fault restarts it in the meantime.
  {
    name: 'database moved away',
    weight: 4,
    target: 'instance',
    sqlite: true,
    durationMs: [50, LEASE_MS * 2],
    inject: moveDatabase,
  },
  { name: 'PostgreSQL killed', weight: 5, target: 'postgres', durationMs: [0, 1000], inject: killPostgres },
  {
    name: 'PostgreSQL backend killed',
    weight: 6,
    target: 'postgres',
    durationMs: MOMENT,
    inject: killBackend,
  },
  {
    name: 'PostgreSQL session terminated',
    weight: 6,
    target: 'postgres',
    durationMs: MOMENT,
    inject: terminateSession,
  },
  {
    name: 'PostgreSQL paused',
    weight: 6,
    target: 'postgres',
    durationMs: WITHIN_LEASE,
    inject: pausePostgres,
  },
  {
    name: 'PostgreSQL paused beyond leases',
    weight: 4,
    target: 'postgres',
    durationMs: BEYOND_LEASE,
    inject: pausePostgres,
  },
  { name: 'Valkey killed', weight: 5, target: 'valkey', durationMs: [0, 1000], inject: killValkey },
  { name: 'Valkey paused', weight: 5, target: 'valkey', durationMs: [50, 3000], inject: pauseValkey },
  { name: 'Valkey flushed', weight: 5, target: 'valkey', durationMs: MOMENT, inject: flushValkey },
];

async function killInstance({ testbed, index, waitDuration }: FaultContext): Promise<void> {
  const program = at(testbed.instances, index).program;
  await program.down('SIGKILL');
  await waitDuration();
  program.up();
}

async function stopInstance({ testbed, index, waitDuration }: FaultContext): Promise<void> {
  const program = at(testbed.instances, index).program;
  await program.down('SIGTERM');
  await waitDuration();
  program.up();
}

async function pauseInstance({ testbed, index, suspend }: FaultContext): Promise<void> {
  await suspend(pidsOf(at(testbed.instances, index).program.pid));
}

async function killEmbedded({ testbed, index }: FaultContext): Promise<void> {
  for (const pid of await engineOf(testbed, index)) sendSignal('SIGKILL', pid);
}

async function pauseEmbedded({ testbed, index, suspend }: FaultContext): Promise<void> {
  await suspend(await engineOf(testbed, index));
}

/** Kills the embedded engine and suspends its successor. */
async function stallLoad({ testbed, index, suspend }: FaultContext): Promise<void> {
  const before = await engineOf(testbed, index);
  for (const pid of before) sendSignal('SIGKILL', pid);
  await suspend(await engineOf(testbed, index, before));
}

/** How long to wait for an engine that is down, in milliseconds. After many crashes it stays down for a minute. */
const ENGINE_MS = 10_000;

/** Resolves with the process of an instance's embedded engine that is not in `before`, or none if it stays down. */
async function engineOf(testbed: Testbed, index: number, before: readonly number[] = []): Promise<number[]> {
  const deadline = performance.now() + ENGINE_MS;
  for (;;) {
    const pids = pidsOf(at(testbed.instances, index).program.pid).flatMap(childrenOf);
    const found = pids.filter((pid) => !before.includes(pid));
    if (found.length > 0 || performance.now() > deadline) return found;
    await pause(20);
  }
}

/** Replaces the engine with a server that reports that it is healthy, and fails every request immediately. */
async function failFast({ testbed, index, waitDuration }: FaultContext): Promise<void> {
  const engine = at(testbed.engines, index);
  await engine.program.down('SIGKILL');
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === '/health') response.end('{}');
    else response.writeHead(500).end('{"error":{"message":"The engine failed.","code":"internal_error"}}');
  });
  server.listen(engine.port, '127.0.0.1');
  await once(server, 'listening');
  try {
    await waitDuration();
  } finally {
    server.close();
    server.closeAllConnections();
    engine.program.up();
  }
}

async function killEngine({ testbed, index, waitDuration }: FaultContext): Promise<void> {
  const { program } = at(testbed.engines, index);
  await program.down('SIGKILL');
  await waitDuration();
  program.up();
}

async function pauseEngine({ testbed, index, suspend }: FaultContext): Promise<void> {
  await suspend(pidsOf(at(testbed.engines, index).program.pid));
}

async function fillDisk({ testbed, waitDuration, random }: FaultContext): Promise<void> {
  const pid = testbed.instances[0]?.program.pid ?? null;
  testbed.disk?.fill(random.pick([0, 4096, 65_536, 262_144]), pid);
  try {
    await waitDuration();
  } finally {
    testbed.disk?.free(pid);
  }
}

/** Locks the database like an open transaction in the SQLite shell. */
async function lockDatabase({ testbed, waitDuration }: FaultContext): Promise<void> {
  using connection = new DatabaseSync(testbed.sqliteFile, { timeout: 1000 });
  try {
    connection.exec('begin immediate');
  } catch {
    // The database is locked by another process.
    return;
  }
  await waitDuration();
}

/** Makes the database refuse the settlements of some requests. */
async function refuseRows({ testbed, waitDuration }: FaultContext): Promise<void> {
  using connection = new DatabaseSync(testbed.sqliteFile, { timeout: 1000 });
  try {
    connection.exec(`create trigger refuse_rows before update on ledger
      when new.billed = 1 and substr(new.id, -1) in ('0', '1', '2', '3')
      begin select raise(abort, 'refused by torture'); end`);
  } catch {
    // The disk is full, or the database is locked or moved.
    return;
  }
  await waitDuration();
  for (;;) {
    try {
      connection.exec('drop trigger refuse_rows');
      return;
    } catch {
      await pause(RETRY_MS);
    }
  }
}

/** Moves the files of the database away and back. */
async function moveDatabase({ testbed, index, waitDuration }: FaultContext): Promise<void> {
  // A starting instance would create a new database.
  if (!(await isReady(at(testbed.instances, index).url))) return;
  const files = ['', '-wal', '-shm'].map((suffix) => `${testbed.sqliteFile}${suffix}`);
  const moved = files.filter((file) => existsSync(file));
  for (const file of moved) renameSync(file, `${file}.moved`);
  await waitDuration();
  for (const file of moved) renameSync(`${file}.moved`, file);
}

/** The log message about false usage, which is logged at most once per interval for each replica. */
const WARNING = 'replica reported impossible token counts';
const WARNING_INTERVAL_MS = 60_000;

const REQUEST_SHAPES = (['chat', 'text'] as const).flatMap((endpoint) =>
  [true, false].map((streamed) => ({ endpoint, streamed })),
);

/** Sends requests with every false usage, and checks that the log reports the replica. */
async function sendFalseUsageRequests(context: FaultContext): Promise<void> {
  const since = Date.now() - WARNING_INTERVAL_MS;
  await whileServingOthers(context, async () => {
    for (const usage of FALSE_USAGE_NAMES) {
      const sending = REQUEST_SHAPES.map((shape) =>
        context.send(
          replicaRequest(context, 'hostile', {
            ...shape,
            usage,
            words: context.random.between(1, 60),
            spareTokens: context.random.between(1, 40),
          }),
        ),
      );
      for (const record of await Promise.all(sending)) {
        if (record.outcome.kind === 'complete') continue;
        context.report({ kind: 'unserved', what: `a request with false usage (${usage}) failed`, record });
      }
    }
  });
  if (!wasWarned(context, since))
    context.report({ kind: 'wrong', what: 'the log does not report the replica with false usage' });
}

/** Number of requests in turn while one of two replicas responds with 429. */
const REQUESTS_IN_TURN = 20;

/**
 * Requests responses that are not streamed and take longer than the first byte of a stream may, and sends other requests
 * in turn. All must be complete, and the replica that responds with 429 gets one of them per `RETRY_AFTER_MS`.
 */
async function sendToSlowAndLimitedReplicas(context: FaultContext): Promise<void> {
  const { testbed, send, report } = context;
  const sendOne = async (options: Partial<Parameters<typeof replicaRequest>[2]>): Promise<void> => {
    const request = { endpoint: 'chat', streamed: false, usage: 'correct', words: 3, ...options } as const;
    const record = await send(replicaRequest(context, 'hostile', request));
    if (record.outcome.kind === 'complete') return;
    report({ kind: 'unserved', what: 'a request to a slow or limited replica failed', record });
  };
  const before = testbed.limitedReplica.counted;
  const startedAtMs = performance.now();
  const sendInTurn = async (): Promise<void> => {
    for (let number = 0; number < REQUESTS_IN_TURN; number++) {
      await sendOne({ isCounted: true, streamed: number % 2 === 0 });
    }
  };
  await whileServingOthers(context, async () => {
    const slow = REQUEST_SHAPES.filter(({ streamed }) => !streamed).map((shape) =>
      sendOne({ ...shape, delayMs: FIRST_BYTE_MS * 1.5 }),
    );
    await Promise.all([...slow, sendInTurn()]);
  });
  const most = 1 + Math.floor((performance.now() - startedAtMs) / RETRY_AFTER_MS);
  const counted = testbed.limitedReplica.counted - before;
  if (counted > most) {
    report({
      kind: 'unserved',
      what: `${counted} of ${REQUESTS_IN_TURN} requests got a 429 first, not ${most}`,
    });
  }
}

function wasWarned({ testbed, index }: FaultContext, since: number): boolean {
  const lines = readFileSync(join(testbed.folder, `instance-${index}.log`), 'utf8').split('\n');
  const last = lines.findLast((line) => line.includes(`"message":"${WARNING}"`));
  // Every log line has a time.
  return last !== undefined && (JSON.parse(last) as { time: number }).time >= since;
}

async function killPostgres({ testbed, waitDuration }: FaultContext): Promise<void> {
  await restart(testbed.postgres, waitDuration);
}

async function killBackend({ testbed, random }: FaultContext): Promise<void> {
  const pids = pidsOf(testbed.postgres?.pid ?? null).flatMap(childrenOf);
  if (pids.length > 0) sendSignal('SIGKILL', random.pick(pids));
}

async function terminateSession({ testbed, random }: FaultContext): Promise<void> {
  const sessions = pidsOf(testbed.postgres?.pid ?? null)
    .flatMap(childrenOf)
    .filter((pid) => titleOf(pid).includes('127.0.0.1'));
  if (sessions.length > 0) sendSignal('SIGTERM', random.pick(sessions));
}

async function pausePostgres({ testbed, suspend }: FaultContext): Promise<void> {
  const pids = pidsOf(testbed.postgres?.pid ?? null);
  await suspend([...pids, ...pids.flatMap(childrenOf)]);
}

async function killValkey({ testbed, waitDuration }: FaultContext): Promise<void> {
  await restart(testbed.valkey, waitDuration);
}

async function pauseValkey({ testbed, suspend }: FaultContext): Promise<void> {
  await suspend(pidsOf(testbed.valkey?.pid ?? null));
}

async function flushValkey({ testbed }: FaultContext): Promise<void> {
  const client = createClient({ url: testbed.valkey?.url ?? '' });
  client.on('error', () => {});
  await client.connect();
  await client.flushAll();
  client.destroy();
}

async function restart(server: TestServer | null, waitDuration: () => Promise<void>): Promise<void> {
  if (server === null) return;
  sendSignal('SIGKILL', server.pid);
  await waitDuration();
  await server.start();
}

async function isReady(url: string): Promise<boolean> {
  for (let attempt = 0; attempt < READY_ATTEMPTS; attempt++) {
    const response = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(1000) }).catch(() => null);
    if (response?.ok) return true;
    await pause(RETRY_MS);
  }
  return false;
}

function pidsOf(pid: number | null): number[] {
  return pid === null ? [] : [pid];
}

/** Returns the process title, which PostgreSQL sets. */
function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`index ${index} is out of range`);
  return found;
}
