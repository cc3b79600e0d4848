import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { copyFile, rename as move } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { promisify } from 'node:util';
import { openStore } from '../../../src/accounts/ledger/open-ledger.ts';
import { temporaryFolder, until } from '../../harness.ts';
import { SQLITE } from '../../support/servers.ts';
import { openedValues, priceOf, settledValues } from '../../../src/accounts/ledger/write.ts';
import { counts, open, newRow, settlement, readRow, countByState, readUsageDays } from './fixture.ts';

/** Runs a command with its own mounts. */
const [PRIVATELY, ...OWN_MOUNTS] = ['unshare', '--map-root-user', '--mount'] as const;

test(
  'a full disk refuses new requests, keeps settlements, and recovers',
  { skip: noSmallDisk() },
  async () => {
    await using folder = await temporaryFolder();
    const child = join(import.meta.dirname, 'full-disk-child.ts');
    const mounted = `mount -t tmpfs -o size=4m,mode=700 tmpfs "$1" && exec "$2" "$3" "$1"`;
    const command = ['sh', '-c', mounted, 'sh', folder.path, process.execPath, child];
    const { stdout } = await promisify(execFile)(PRIVATELY, [...OWN_MOUNTS, ...command]);
    const results = JSON.parse(stdout);
    assert.equal(results.refused, 'storage_unavailable');
    assert.equal(results.atOnce, 'storage_unavailable');
    assert.equal(results.late, 'storage_unavailable');
    assert.equal(results.health.writable, false);
    assert.match(results.health.reason, /the disk is full/);
    assert.ok(results.health.waiting > 0);
    assert.equal(results.afterwards, 'none');
    // The settlement was still written once, although its request had stopped waiting for it.
    assert.equal(results.state, 'settled');
    assert.equal(results.settled, 1);
    assert.deepEqual(results.countByState, { open: results.opened + 1, settled: 1 });
  },
);

/** Returns why no small disk can be created here; false if it can. */
function noSmallDisk(): string | false {
  const tried = spawnSync(PRIVATELY, [...OWN_MOUNTS, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']);
  return tried.status === 0 ? false : 'no tmpfs can be mounted here';
}

test('a lock that another process holds too long does not block the event loop', async () => {
  await using database = await SQLITE.open({ threads: true });
  await using ledger = await open(database, { settleWaitMs: 50 });
  const running = newRow();
  await ledger.open(running, counts());
  const other = new DatabaseSync(join(database.home, 'sluice.db'), { timeout: 10_000 });
  other.exec('begin immediate');
  await assert.rejects(ledger.settle(running.id, settlement()), { code: 'storage_unavailable' });
  await until(() => !ledger.health.writable);
  assert.match(ledger.health.writable ? '' : ledger.health.reason, /is locked by another connection/);
  await assert.rejects(ledger.open(newRow(), counts()), { code: 'storage_unavailable' });
  other.exec('rollback');
  other.close();
  await until(() => ledger.health.writable);
  // The request had already failed, so it is not billed.
  const after = await readRow(database, running.id);
  assert.deepEqual([after?.state, after?.error_code, after?.billed], ['settled', 'storage_unavailable', 0]);
  assert.deepEqual(await countByState(database), { settled: 1 });
});

/** Renames the files of a SQLite database. */
async function rename(from: string, to: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm']) await move(`${from}${suffix}`, `${to}${suffix}`);
}

test('no row is opened while the files of the database are moved away, and none is lost', async () => {
  await using database = await SQLITE.open({ threads: true });
  await using ledger = await open(database, { leaseMs: 150 });
  const path = join(database.home, 'sluice.db');
  const running = newRow();
  await ledger.open(running, counts());
  await rename(path, `${path}.moved`);
  await until(() => !ledger.health.writable);
  assert.match(
    ledger.health.writable ? '' : ledger.health.reason,
    /was deleted or moved while it was in use/,
  );
  await assert.rejects(ledger.open(newRow(), counts()), { code: 'storage_unavailable' });
  await rename(`${path}.moved`, path);
  assert.equal(await ledger.settle(running.id, settlement()), 'settled');
  await until(() => ledger.health.writable);
  assert.deepEqual(await countByState(database), { settled: 1 });
});

for (const suffix of ['', '-wal']) {
  test(`no row is opened after sluice.db${suffix} was replaced, until a restart`, async () => {
    await using database = await SQLITE.open({ threads: true });
    await using ledger = await open(database, { leaseMs: 150, settleWaitMs: 50 });
    const path = join(database.home, `sluice.db${suffix}`);
    await copyFile(path, `${path}.copy`);
    await move(`${path}.copy`, path);
    await until(() => !ledger.health.writable);
    assert.match(ledger.health.writable ? '' : ledger.health.reason, /was replaced .* Restart the service/);
    await assert.rejects(ledger.open(newRow(), counts()), { code: 'storage_unavailable' });
  });
}

/** Returns the writes of a request: its opening, and its settlement. */
function writesOf(opened = newRow()) {
  const ended = settlement({ firstTokenAt: opened.startedAt + 10, endedAt: opened.startedAt + 500 });
  const values = settledValues(opened.id, priceOf(opened), ended);
  return {
    id: opened.id,
    open: { ...NOTHING, opens: [openedValues(opened)] },
    settle: { ...NOTHING, settles: [values] },
  };
}

const NOTHING = { opens: [], ended: [], checkpoints: [], settles: [], undelivered: [] };

test('a settlement whose request was rejected is waived once', async () => {
  await using database = await SQLITE.open({ threads: true });
  await using store = await openStore(database);
  const epoch = await store.register(10_000);
  const { id, open, settle } = writesOf();
  await store.write(epoch, open);
  await store.waive([id]);
  assert.equal((await readRow(database, id))?.state, 'open');
  await store.write(epoch, settle);
  await store.waive([id]);
  await store.waive([id]);
  const after = await readRow(database, id);
  assert.deepEqual([after?.billed, after?.cost, after?.error_code], [0, '0', 'storage_unavailable']);
  const [day] = await readUsageDays(database);
  assert.deepEqual([day?.requests, day?.errors, day?.billed_tokens, day?.cost], [1, 1, 0, '0']);
  const latencies = await database.kysely.selectFrom('latency_days').select('count').execute();
  assert.deepEqual(
    latencies.map(({ count }) => count),
    [0, 0],
  );
});

test('only settlements of open rows are written and counted, and those of unknown rows are lost', async () => {
  await using database = await SQLITE.open({ threads: true });
  await using store = await openStore(database);
  const epoch = await store.register(10_000);
  const [running, other, unknown, settled] = [writesOf(), writesOf(), writesOf(), writesOf()];
  const opened = { ...NOTHING, opens: [running, other, settled].flatMap(({ open }) => open.opens) };
  assert.deepEqual(await store.write(epoch, opened), { lost: [] });
  assert.deepEqual(await store.write(epoch, settled.settle), { lost: [] });
  const all = [unknown, running, settled, other].map(({ settle }) => settle);
  const batch = {
    ...NOTHING,
    settles: all.flatMap(({ settles }) => settles),
    undelivered: [running.id],
  };
  assert.deepEqual(await store.write(epoch, batch), { lost: [unknown.id] });
  assert.deepEqual(await countByState(database), { settled: 3 });
  assert.equal((await readRow(database, running.id))?.delivered, 0);
  const [day] = await readUsageDays(database);
  assert.equal(day?.requests, 3);
  // The rows of another instance are not settled, and a dead instance writes nothing.
  const mine = writesOf();
  await store.write(epoch, mine.open);
  const another = await store.register(10_000);
  assert.deepEqual(await store.write(another, mine.settle), { lost: [mine.id] });
  await store.retire(epoch);
  assert.equal(await store.write(epoch, writesOf().open), null);
  assert.deepEqual(await countByState(database), { settled: 3, interrupted: 1 });
});

test('rows older than the retention period are deleted, but their sums are kept', async (t) => {
  await using database = await SQLITE.open({ threads: true });
  const old = newRow({ id: '0194f000-0000-7000-8000-000000000001', startedAt: Date.UTC(2025, 1, 10) });
  const recent = newRow();
  {
    await using ledger = await open(database);
    for (const one of [old, recent]) {
      await ledger.open(one, counts());
      await ledger.settle(one.id, settlement());
    }
  }
  t.mock.timers.enable({ apis: ['setInterval'] });
  await using ledger = await open(database, { keepDays: 30 });
  t.mock.timers.tick(3_600_000);
  await until(async () => (await readRow(database, old.id)) === undefined);
  assert.ok(ledger.health.writable);
  assert.equal((await readRow(database, recent.id))?.state, 'settled');
  const { requests } = await database.kysely
    .selectFrom('usage_days')
    .select(({ fn }) => fn.sum<number>('requests').as('requests'))
    .executeTakeFirstOrThrow();
  assert.equal(requests, 2);
});
