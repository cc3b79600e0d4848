import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { copyFile, rename as move } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { SqliteStore } from '../../../src/accounts/ledger/sqlite-store.ts';
import { temporaryFolder, until } from '../../harness.ts';
import { testDatabases } from '../../servers.ts';
import { openedValues, ownerOf, settledValues } from '../../../src/accounts/ledger/write.ts';
import { counts, open, row, settlement, standing, states, sums } from './books.ts';

const [databases] = testDatabases();
assert.equal(databases?.name, 'SQLite');

/** Runs a command that may mount what nobody else sees. */
const [PRIVATELY, ...OWN_MOUNTS] = ['unshare', '--map-root-user', '--mount'] as const;

test(
  'a full disk refuses new requests, keeps what has ended, and heals by itself',
  { skip: noSmallDisk() },
  async () => {
    await using folder = await temporaryFolder();
    const child = join(import.meta.dirname, 'full-disk-child.ts');
    const mounted = `mount -t tmpfs -o size=4m,mode=700 tmpfs "$1" && exec "$2" "$3" "$1"`;
    const command = ['sh', '-c', mounted, 'sh', folder.path, process.execPath, child];
    const { stdout } = await promisify(execFile)(PRIVATELY, [...OWN_MOUNTS, ...command]);
    const told = JSON.parse(stdout);
    assert.equal(told.refused, 'storage_unavailable');
    assert.equal(told.atOnce, 'storage_unavailable');
    assert.equal(told.late, 'storage_unavailable');
    assert.equal(told.health.writable, false);
    assert.match(told.health.reason, /the disk is full/);
    assert.ok(told.health.waiting > 0);
    assert.equal(told.healed, 'none');
    // What was settled too late for its request was written all the same, once.
    assert.equal(told.state, 'settled');
    assert.equal(told.settled, 1);
    assert.deepEqual(told.states, { open: told.opened + 1, settled: 1 });
  },
);

/** Why no disk of a few megabytes can be made here; false where it can. */
function noSmallDisk(): string | false {
  const tried = spawnSync(PRIVATELY, [...OWN_MOUNTS, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']);
  return tried.status === 0 ? false : 'no tmpfs can be mounted here';
}

test('a lock that another process holds too long is waited out without a turn of the event loop', async () => {
  await using database = await databases.open();
  await using ledger = await open(database, { settleWaitMs: 50 });
  const running = row();
  await ledger.open(running, counts());
  const other = new DatabaseSync(join(database.home, 'sluice.db'));
  other.exec('begin immediate');
  await assert.rejects(ledger.settle(running.id, settlement()), { code: 'storage_unavailable' });
  await until(() => !ledger.health.writable);
  assert.match(ledger.health.writable ? '' : ledger.health.reason, /is locked by another process/);
  await assert.rejects(ledger.open(row(), counts()), { code: 'storage_unavailable' });
  other.exec('rollback');
  other.close();
  await until(() => ledger.health.writable);
  // Its request was told that it could not be counted.
  const after = await standing(database, running.id);
  assert.deepEqual([after?.state, after?.error_code, after?.billed], ['settled', 'storage_unavailable', 0]);
  assert.deepEqual(await states(database), { settled: 1 });
});

/** Renames the files of a SQLite database. */
async function rename(from: string, to: string): Promise<void> {
  for (const suffix of ['', '-wal', '-shm']) await move(`${from}${suffix}`, `${to}${suffix}`);
}

test('a database whose files are moved away opens nothing until they are back, and loses nothing', async () => {
  await using database = await databases.open();
  await using ledger = await open(database, { leaseMs: 150 });
  const path = join(database.home, 'sluice.db');
  const running = row();
  await ledger.open(running, counts());
  await rename(path, `${path}.moved`);
  await until(() => !ledger.health.writable);
  assert.match(
    ledger.health.writable ? '' : ledger.health.reason,
    /was deleted or moved while it was in use/,
  );
  await assert.rejects(ledger.open(row(), counts()), { code: 'storage_unavailable' });
  await rename(`${path}.moved`, path);
  assert.equal(await ledger.settle(running.id, settlement()), 'settled');
  await until(() => ledger.health.writable);
  assert.deepEqual(await states(database), { settled: 1 });
});

for (const suffix of ['', '-wal']) {
  test(`a replaced sluice.db${suffix} opens nothing and asks for a restart`, async () => {
    await using database = await databases.open();
    await using ledger = await open(database, { leaseMs: 150, settleWaitMs: 50 });
    const path = join(database.home, `sluice.db${suffix}`);
    await copyFile(path, `${path}.copy`);
    await move(`${path}.copy`, path);
    await until(() => !ledger.health.writable);
    assert.match(ledger.health.writable ? '' : ledger.health.reason, /was replaced .* Restart the service/);
    await assert.rejects(ledger.open(row(), counts()), { code: 'storage_unavailable' });
  });
}

test('what was settled although its request was told otherwise is taken back once', async () => {
  await using database = await databases.open();
  await using store = new SqliteStore(join(database.home, 'sluice.db'));
  const epoch = await store.register(10_000);
  const opened = row();
  const price = { prompt: opened.pricePrompt, completion: opened.priceCompletion };
  const ended = settlement({ firstTokenAt: opened.startedAt + 10, endedAt: opened.startedAt + 500 });
  const values = settledValues(opened.id, { startedAt: opened.startedAt, price }, ended);
  const nothing = { opens: [], checkpoints: [], settles: [], owners: [], undelivered: [] };
  await store.write(epoch, { ...nothing, opens: [openedValues(opened)] });
  await store.waive([values]);
  assert.equal((await standing(database, opened.id))?.state, 'open');
  await store.write(epoch, { ...nothing, settles: [values], owners: [ownerOf(opened)] });
  await store.waive([values]);
  await store.waive([values]);
  const after = await standing(database, opened.id);
  assert.deepEqual([after?.billed, after?.cost, after?.error_code], [0, '0', 'storage_unavailable']);
  const [day] = await sums(database);
  assert.deepEqual([day?.requests, day?.errors, day?.billed_tokens, day?.cost], [1, 1, 0, '0']);
  const latencies = await database.kysely.selectFrom('latency_days').select('count').execute();
  assert.deepEqual(
    latencies.map(({ count }) => count),
    [0, 0],
  );
});

test('a writing thread that dies is started again', async () => {
  await using database = await databases.open();
  const thread = pathToFileURL(join(import.meta.dirname, 'dying-thread.ts'));
  await using store = new SqliteStore(join(database.home, 'sluice.db'), thread);
  const epoch = await store.register(1000);
  await assert.rejects(store.beat(epoch, 1000), /has died/);
  assert.equal(await store.register(1000), epoch + 1);
});

test('rows that are kept no longer are deleted, their sums stay', async () => {
  await using database = await databases.open();
  const old = row({ id: '0194f000-0000-7000-8000-000000000001', startedAt: Date.UTC(2025, 1, 10) });
  const recent = row();
  {
    await using ledger = await open(database);
    for (const one of [old, recent]) {
      await ledger.open(one, counts());
      await ledger.settle(one.id, settlement());
    }
  }
  await using ledger = await open(database, { keepDays: 30 });
  await until(async () => (await standing(database, old.id)) === undefined);
  assert.ok(ledger.health.writable);
  assert.equal((await standing(database, recent.id))?.state, 'settled');
  const { requests } = await database.kysely
    .selectFrom('usage_days')
    .select(({ fn }) => fn.sum<number>('requests').as('requests'))
    .executeTakeFirstOrThrow();
  assert.equal(requests, 2);
});
