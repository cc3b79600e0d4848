import assert from 'node:assert/strict';
import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { openService, until } from '../../harness.ts';
import { SQLITE, testDatabases, type TestDatabase } from '../../support/servers.ts';
import {
  counts,
  endLeases,
  open,
  newRow,
  settlement,
  readRow,
  countByState,
  readUsageDays,
} from './fixture.ts';

const KILLS = 5;
const LEASE_MS = 500;

/** A process that writes a ledger. Disposing kills it, even while it is stopped. */
interface Writer extends AsyncDisposable {
  child: ChildProcess;
  /** The writes that the ledger acknowledged, one per line. */
  lines: string[];
  ended: Promise<unknown>;
}

function write(database: TestDatabase, mode: 'busy' | 'hold'): Writer {
  const child = spawn(
    process.execPath,
    [join(import.meta.dirname, 'writer-child.ts'), mode, String(LEASE_MS)],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
      env: { ...process.env, ...database.env },
    },
  );
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => lines.push(line));
  const ended = once(child, 'close');
  const end = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  return { child, lines, ended, [Symbol.asyncDispose]: end };
}

/** Stops the writer while it holds no SQLite lock, because a lock would block the ledger that takes over. */
async function stop({ child }: Writer, { home, url }: TestDatabase): Promise<void> {
  using locked = url === null ? new DatabaseSync(join(home, 'sluice.db'), { timeout: 60_000 }) : undefined;
  locked?.exec('begin immediate');
  child.kill('SIGSTOP');
  // The signal takes effect with a delay. The state of a stopped process begins with T.
  await until(() => stateOf(child.pid).startsWith('T'));
}

/** Returns the state of a process, as in `ps`, which small systems lack. */
function stateOf(pid: number | undefined): string {
  return process.platform === 'linux'
    ? // After the name in parentheses.
      (readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ').at(-1) ?? '')
    : execFileSync('ps', ['-o', 'stat=', '-p', String(pid)], { encoding: 'utf8' });
}

/** Returns the IDs on the lines that begin with a word. */
function idsOf(lines: readonly string[], word: string): string[] {
  return lines.filter((line) => line.startsWith(`${word} `)).map((line) => line.split(' ')[1] ?? '');
}

for (const databases of testDatabases()) {
  describe(`crashes on ${databases.name}`, () => {
    test(`every acknowledged write is stored once after ${KILLS} kills, and no row stays open`, async () => {
      await using database = await databases.open({ threads: true });
      const opened: string[] = [];
      const settled = new Map<string, number>();
      for (let kill = 0; kill < KILLS; kill++) {
        await using writer = write(database, 'busy');
        await until(() => idsOf(writer.lines, 'settled').length > 10 * (kill + 1));
        await writer[Symbol.asyncDispose]();
        assert.deepEqual(idsOf(writer.lines, 'lost'), []);
        opened.push(...idsOf(writer.lines, 'opened'));
        for (const line of writer.lines) {
          const [word, id = '', tokens] = line.split(' ');
          if (word === 'settled') settled.set(id, Number(tokens));
        }
      }
      let reaped = 0;
      await using ledger = await open(database, { leaseMs: LEASE_MS }, { onReaped: () => (reaped += 1) });
      await until(async () => (await countByState(database)).open === undefined);
      assert.ok(ledger.health.writable);
      const rows = await database.kysely
        .selectFrom('ledger')
        .select(['id', 'state', 'completion_tokens'])
        .execute();
      const byId = new Map(rows.map((one) => [one.id, one]));
      assert.deepEqual(
        opened.filter((id) => !byId.has(id)),
        [],
      );
      for (const [id, tokens] of settled) {
        assert.equal(byId.get(id)?.state, 'settled');
        assert.equal(byId.get(id)?.completion_tokens, tokens);
      }
      const days = await readUsageDays(database);
      const total = (pick: (day: (typeof days)[number]) => number) =>
        days.reduce((sum, day) => sum + pick(day), 0);
      assert.equal(
        total(({ requests }) => requests),
        rows.length,
      );
      assert.equal(
        total(({ interrupted }) => interrupted),
        rows.filter(({ state }) => state === 'interrupted').length,
      );
      assert.equal(
        total(({ completion_tokens }) => completion_tokens),
        rows.reduce((sum, one) => sum + one.completion_tokens, 0),
      );
    });

    test('an instance paused past its lease cannot settle its old rows, and continues with a new epoch', async () => {
      await using database = await databases.open({ threads: true });
      await using writer = write(database, 'hold');
      await until(() => writer.lines.includes('holding'));
      await stop(writer, database);
      await endLeases(database);
      let reapings = 0;
      // With a long lease, so that it settles rows of others only once, even if the writer is slow afterwards.
      await using ledger = await open(database, {}, { onReaped: () => (reapings += 1) });
      await until(() => reapings > 0);
      assert.deepEqual(await countByState(database), { interrupted: 20 });
      writer.child.kill('SIGCONT');
      await writer.ended;
      assert.equal(idsOf(writer.lines, 'lost').length, 20);
      assert.equal(writer.lines.at(-1), 'done');
      assert.deepEqual(await countByState(database), { interrupted: 20, settled: 1 });
      const days = await readUsageDays(database);
      assert.equal(
        days.reduce((sum, { requests }) => sum + requests, 0),
        21,
      );
      assert.equal(reapings, 1);
      assert.ok(ledger.health.writable);
    });

    test('an instance that was declared dead calls `onFenced` once, and settling its old rows returns `lost`', async () => {
      await using database = await databases.open({ threads: true });
      let fences = 0;
      await using paused = await open(database, { leaseMs: 3_600_000 }, { onFenced: () => (fences += 1) });
      const before = newRow();
      await paused.open(before, counts(7, 3));
      await endLeases(database);
      await using other = await open(database, { leaseMs: 3_600_000 });
      assert.equal((await readRow(database, before.id))?.state, 'interrupted');
      // The write that detects the takeover is refused, like the others in its batch.
      const refused = await Promise.allSettled([
        paused.open(newRow(), counts()),
        paused.open(newRow(), counts()),
      ]);
      for (const one of refused)
        assert.equal(one.status === 'rejected' && one.reason.code, 'storage_unavailable');
      assert.equal(fences, 1);
      assert.equal(await paused.settle(before.id, settlement()), 'lost');
      await until(() => paused.health.writable);
      const after = newRow();
      await paused.open(after, counts());
      assert.equal(await paused.settle(after.id, settlement()), 'settled');
      assert.ok(other.health.writable);
      assert.deepEqual(await countByState(database), { interrupted: 1, settled: 1 });
    });

    test('the rows of a live instance are left alone', async () => {
      await using database = await databases.open({ threads: true });
      await using first = await open(database);
      const running = newRow();
      await first.open(running, counts());
      let reapings = 0;
      await using second = await open(database, {}, { onReaped: () => (reapings += 1) });
      assert.ok(second.health.writable);
      assert.equal(reapings, 0);
      assert.equal(await first.settle(running.id, settlement()), 'settled');
    });

    test('an interrupted row has the counts of its last checkpoint and costs nothing', async () => {
      await using database = await databases.open({ threads: true });
      const running = newRow();
      await using first = await open(database, { leaseMs: 3_600_000, checkpointMs: 86_400_000 });
      const moving = counts(7, 3);
      await first.open(running, moving);
      first.checkpoint(running.id);
      await until(async () => (await readRow(database, running.id))?.completion_tokens === 3);
      moving.usage.completionTokens = 200;
      await endLeases(database);
      await using second = await open(database);
      const after = await readRow(database, running.id);
      assert.equal(after?.state, 'interrupted');
      assert.equal(after?.completion_tokens, 3);
      assert.equal(after?.reasoning_tokens, 1);
      assert.equal(after?.billed, 0);
      assert.equal(after?.cost, '0');
      assert.equal(after?.ended_at, null);
      assert.ok(second.health.writable);
    });
  });
}

test('on SQLite, a service settles the open rows of a killed one before it is ready, whatever its lease and process ID', async () => {
  await using database = await SQLITE.open();
  await using killed = await open(database, { leaseMs: 3_600_000 });
  const running = newRow();
  await killed.open(running, counts(7, 3));
  await using service = await openService(undefined, { SLUICE_HOME: database.home });
  assert.equal((await readRow(database, running.id))?.state, 'interrupted');
  assert.match(service.log(), /marked requests of a lost instance as interrupted/);
});
