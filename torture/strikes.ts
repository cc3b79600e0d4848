import { once } from 'node:events';
import { existsSync, readFileSync, renameSync } from 'node:fs';
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as pause } from 'node:timers/promises';
import { createClient } from '@redis/client';
import type { TestServer } from '../test/server-process.ts';
import type { Blow } from './blow.ts';
import { sendBodies } from './bodies.ts';
import { LEASE_MS, LOAD_STALL_MS } from './configuration.ts';
import { lie } from './lying.ts';
import { childrenOf, send } from './program.ts';
import type { Stage } from './stage.ts';

export type Target = 'copy' | 'embedded' | 'engine' | 'postgres' | 'valkey' | 'disk' | 'rows';

interface Kind {
  name: string;
  weight: number;
  target: Target;
  /** Only with SQLite. */
  sqlite?: true;
  /** Only while everything else is healthy, so that it shows who is served meanwhile. */
  alone?: true;
  /** How long it lasts, in milliseconds, where that is for us to say. */
  lastsMs: readonly [least: number, most: number];
  strike(blow: Blow): Promise<void>;
}

/** Pause between attempts to end a fault, in milliseconds. */
const RETRY_MS = 50;

/** How often a service is asked whether it is ready before a fault that needs it to be is left out. */
const READY_ATTEMPTS = 100;

const MOMENT = [0, 0] as const;
const WITHIN_LEASE = [50, LEASE_MS / 2] as const;
const BEYOND_LEASE = [LEASE_MS * 1.2, LEASE_MS * 2] as const;

/** Every kind of fault. */
export const KINDS: readonly Kind[] = [
  { name: 'service killed', weight: 6, target: 'copy', lastsMs: [0, 500], strike: killCopy },
  { name: 'service killed for long', weight: 2, target: 'copy', lastsMs: BEYOND_LEASE, strike: killCopy },
  { name: 'service told to stop', weight: 3, target: 'copy', lastsMs: [0, 200], strike: endCopy },
  { name: 'service paused', weight: 8, target: 'copy', lastsMs: WITHIN_LEASE, strike: pauseCopy },
  {
    name: 'service paused beyond its lease',
    weight: 6,
    target: 'copy',
    lastsMs: BEYOND_LEASE,
    strike: pauseCopy,
  },
  { name: 'embedded engine killed', weight: 5, target: 'embedded', lastsMs: MOMENT, strike: killEmbedded },
  {
    name: 'embedded engine paused',
    weight: 4,
    target: 'embedded',
    lastsMs: [50, 3000],
    strike: pauseEmbedded,
  },
  { name: 'engine killed', weight: 6, target: 'engine', lastsMs: [0, 1000], strike: killEngine },
  { name: 'engine paused', weight: 6, target: 'engine', lastsMs: [50, 4500], strike: pauseEngine },
  {
    name: 'embedded engine hangs while loading',
    weight: 3,
    target: 'embedded',
    lastsMs: [LOAD_STALL_MS * 1.1, LOAD_STALL_MS * 1.5],
    strike: hangLoad,
  },
  { name: 'engine fails fast', weight: 5, target: 'engine', lastsMs: [500, 3000], strike: failFast },
  {
    name: 'replica lies about usage',
    weight: 4,
    target: 'copy',
    alone: true,
    lastsMs: MOMENT,
    strike: lie,
  },
  { name: 'hostile bodies', weight: 4, target: 'copy', alone: true, lastsMs: MOMENT, strike: sendBodies },
  { name: 'disk full', weight: 8, target: 'disk', lastsMs: [50, 2500], strike: fillDisk },
  { name: 'database locked', weight: 4, target: 'disk', lastsMs: [50, 2500], strike: lockDatabase },
  { name: 'rows refused', weight: 6, target: 'rows', lastsMs: [50, 2500], strike: refuseRows },
  // A fault of the service, so that none starts meanwhile.
  {
    name: 'database moved away',
    weight: 4,
    target: 'copy',
    sqlite: true,
    lastsMs: [50, LEASE_MS * 2],
    strike: moveDatabase,
  },
  { name: 'PostgreSQL killed', weight: 5, target: 'postgres', lastsMs: [0, 1000], strike: killPostgres },
  { name: 'PostgreSQL process killed', weight: 6, target: 'postgres', lastsMs: MOMENT, strike: killBackend },
  { name: 'PostgreSQL session ended', weight: 6, target: 'postgres', lastsMs: MOMENT, strike: endSession },
  { name: 'PostgreSQL paused', weight: 6, target: 'postgres', lastsMs: WITHIN_LEASE, strike: pausePostgres },
  {
    name: 'PostgreSQL paused beyond leases',
    weight: 4,
    target: 'postgres',
    lastsMs: BEYOND_LEASE,
    strike: pausePostgres,
  },
  { name: 'Valkey killed', weight: 5, target: 'valkey', lastsMs: [0, 1000], strike: killValkey },
  { name: 'Valkey paused', weight: 5, target: 'valkey', lastsMs: [50, 3000], strike: pauseValkey },
  { name: 'Valkey flushed', weight: 5, target: 'valkey', lastsMs: MOMENT, strike: flushValkey },
];

async function killCopy({ stage, index, lasts }: Blow): Promise<void> {
  const program = at(stage.copies, index).program;
  await program.down('SIGKILL');
  await lasts();
  program.up();
}

async function endCopy({ stage, index, lasts }: Blow): Promise<void> {
  const program = at(stage.copies, index).program;
  await program.down('SIGTERM');
  await lasts();
  program.up();
}

async function pauseCopy({ stage, index, freeze }: Blow): Promise<void> {
  await freeze(pidsOf(at(stage.copies, index).program.pid));
}

async function killEmbedded({ stage, index }: Blow): Promise<void> {
  for (const pid of await engineOf(stage, index)) send('SIGKILL', pid);
}

async function pauseEmbedded({ stage, index, freeze }: Blow): Promise<void> {
  await freeze(await engineOf(stage, index));
}

/** Kills the embedded engine and stops its successor, which then makes no progress. */
async function hangLoad({ stage, index, freeze }: Blow): Promise<void> {
  const before = await engineOf(stage, index);
  for (const pid of before) send('SIGKILL', pid);
  await freeze(await engineOf(stage, index, before));
}

/** How long an engine is waited for that is down, in milliseconds; one that crashed often stays down for a minute. */
const ENGINE_MS = 10_000;

/** The process of a copy's embedded engine, which is not one of `before`; none where it stays down for long. */
async function engineOf(stage: Stage, index: number, before: readonly number[] = []): Promise<number[]> {
  const deadline = performance.now() + ENGINE_MS;
  for (;;) {
    const pids = pidsOf(at(stage.copies, index).program.pid).flatMap(childrenOf);
    const found = pids.filter((pid) => !before.includes(pid));
    if (found.length > 0 || performance.now() > deadline) return found;
    await pause(20);
  }
}

/** Puts a server in the engine's place that says it is healthy and fails every request at once. */
async function failFast({ stage, index, lasts }: Blow): Promise<void> {
  const engine = at(stage.engines, index);
  await engine.program.down('SIGKILL');
  const server = createServer((request, response) => {
    request.resume();
    if (request.url === '/health') response.end('{}');
    else response.writeHead(500).end('{"error":{"message":"It fails.","code":"internal_error"}}');
  });
  server.listen(engine.port, '127.0.0.1');
  await once(server, 'listening');
  try {
    await lasts();
  } finally {
    server.close();
    server.closeAllConnections();
    engine.program.up();
  }
}

async function killEngine({ stage, index, lasts }: Blow): Promise<void> {
  const { program } = at(stage.engines, index);
  await program.down('SIGKILL');
  await lasts();
  program.up();
}

async function pauseEngine({ stage, index, freeze }: Blow): Promise<void> {
  await freeze(pidsOf(at(stage.engines, index).program.pid));
}

async function fillDisk({ stage, lasts, random }: Blow): Promise<void> {
  const pid = stage.copies[0]?.program.pid ?? null;
  stage.disk?.fill(random.pick([0, 4096, 65_536, 262_144]), pid);
  try {
    await lasts();
  } finally {
    stage.disk?.free(pid);
  }
}

/** As a shell of SQLite does in which somebody has begun a transaction. */
async function lockDatabase({ stage, lasts }: Blow): Promise<void> {
  using connection = new DatabaseSync(stage.sqliteFile, { timeout: 1000 });
  try {
    connection.exec('begin immediate');
  } catch {
    // Others had it locked all the while.
    return;
  }
  await lasts();
}

/** Has the database refuse the settlements of some requests, whatever else happens to it meanwhile. */
async function refuseRows({ stage, lasts }: Blow): Promise<void> {
  using connection = new DatabaseSync(stage.sqliteFile, { timeout: 1000 });
  try {
    connection.exec(`create trigger refuse_rows before update on ledger
      when new.billed = 1 and substr(new.id, -1) in ('0', '1', '2', '3')
      begin select raise(abort, 'refused by torture'); end`);
  } catch {
    // The disk is full, the database is locked or moved away.
    return;
  }
  await lasts();
  for (;;) {
    try {
      connection.exec('drop trigger refuse_rows');
      return;
    } catch {
      await pause(RETRY_MS);
    }
  }
}

/** Moves the files of the database away and back, as an operator does who notices a mistake. */
async function moveDatabase({ stage, index, lasts }: Blow): Promise<void> {
  // One that is starting would create a new database, as it should.
  if (!(await isReady(at(stage.copies, index).url))) return;
  const files = ['', '-wal', '-shm'].map((suffix) => `${stage.sqliteFile}${suffix}`);
  const moved = files.filter((file) => existsSync(file));
  for (const file of moved) renameSync(file, `${file}.moved`);
  await lasts();
  for (const file of moved) renameSync(`${file}.moved`, file);
}

async function killPostgres({ stage, lasts }: Blow): Promise<void> {
  await restart(stage.postgres, lasts);
}

async function killBackend({ stage, random }: Blow): Promise<void> {
  const pids = pidsOf(stage.postgres?.pid ?? null).flatMap(childrenOf);
  if (pids.length > 0) send('SIGKILL', random.pick(pids));
}

async function endSession({ stage, random }: Blow): Promise<void> {
  const sessions = pidsOf(stage.postgres?.pid ?? null)
    .flatMap(childrenOf)
    .filter((pid) => titleOf(pid).includes('127.0.0.1'));
  if (sessions.length > 0) send('SIGTERM', random.pick(sessions));
}

async function pausePostgres({ stage, freeze }: Blow): Promise<void> {
  const pids = pidsOf(stage.postgres?.pid ?? null);
  await freeze([...pids, ...pids.flatMap(childrenOf)]);
}

async function killValkey({ stage, lasts }: Blow): Promise<void> {
  await restart(stage.valkey, lasts);
}

async function pauseValkey({ stage, freeze }: Blow): Promise<void> {
  await freeze(pidsOf(stage.valkey?.pid ?? null));
}

async function flushValkey({ stage }: Blow): Promise<void> {
  const client = createClient({ url: stage.valkey?.url ?? '' });
  client.on('error', () => {});
  await client.connect();
  await client.flushAll();
  client.destroy();
}

async function restart(server: TestServer | null, lasts: () => Promise<void>): Promise<void> {
  if (server === null) return;
  send('SIGKILL', server.pid);
  await lasts();
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

/** How PostgreSQL calls a process of its own. */
function titleOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
  } catch {
    return '';
  }
}

function at<T>(list: readonly T[], index: number): T {
  const found = list[index];
  if (found === undefined) throw new RangeError(`there is no ${index}th`);
  return found;
}
