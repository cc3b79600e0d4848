import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { openStore } from '../../../src/accounts/ledger/open-ledger.ts';
import { openedValues } from '../../../src/accounts/ledger/write.ts';
import type { Database } from '../../../src/database/database.ts';
import { ensurePartitions } from '../../../src/database/partitions.ts';
import { Secret } from '../../../src/support/secret.ts';
import { until } from '../../harness.ts';
import { POSTGRES, withoutPostgres } from '../../support/servers.ts';
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

/** A proxy to the server that can be interrupted. */
interface Proxy extends AsyncDisposable {
  database: Database;
  /** Drops everything that the server sends. */
  mute(): void;
  /** Closes all connections, and new ones until `restore`. */
  cut(): void;
  restore(): void;
}

async function startProxy(database: Database): Promise<Proxy> {
  assert.ok(database.location.kind === 'postgres');
  const url = new URL(database.location.url.reveal());
  const target = { host: url.hostname, port: Number(url.port || 5432) };
  let [muted, away] = [false, false];
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target);
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => (near.destroy(), far.destroy(), sockets.delete(socket)));
    }
    if (away) near.destroy();
    near.on('data', (data) => far.write(data));
    far.on('data', (data) => muted || near.write(data));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  url.hostname = '127.0.0.1';
  // A server that listens on a port has an address.
  url.port = String((server.address() as AddressInfo).port);
  const cut = () => {
    away = true;
    for (const socket of sockets) socket.destroy();
  };
  return {
    database: { ...database, location: { kind: 'postgres', url: new Secret(url.href) } },
    mute: () => (muted = true),
    cut,
    restore: () => ([muted, away] = [false, false]),
    async [Symbol.asyncDispose]() {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}

describe('the ledger when PostgreSQL is unreachable', { skip: withoutPostgres }, () => {
  test('an instance that stops waits for its last batch, whose rows are settled too', async () => {
    await using database = await POSTGRES.open();
    await ensurePartitions(database, Date.now());
    await using store = await openStore(database);
    const row = newRow();
    const batch = { opens: [], ended: [], checkpoints: [], settles: [], undelivered: [] };
    const earlier = await store.register(60_000);
    await store.write(earlier, { ...batch, opens: [openedValues(row)] });
    const epoch = await store.register(60_000);
    const { promise: committing, resolve: commit } = Promise.withResolvers<void>();
    const { promise: locked, resolve: onLocked } = Promise.withResolvers<void>();
    // Like a batch: locks the row of its instance, and then adds an open row.
    const written = database.kysely.transaction().execute(async (transaction) => {
      await sql`select 1 from instances where epoch = ${epoch} for key share`.execute(transaction);
      await sql`update ledger set epoch = ${epoch} where id = ${row.id}`.execute(transaction);
      onLocked();
      await committing;
    });
    await locked;
    let retired = false;
    const retiring = store.retire(epoch).finally(() => (retired = true));
    await until(async () => {
      const { rows } = await sql`
        select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`.execute(database.reports);
      return retired || rows.length > 0;
    });
    commit();
    await written;
    await retiring;
    assert.equal((await readRow(database, row.id))?.state, 'interrupted');
  });

  test('refuses new requests at once, keeps settlements, and recovers', async () => {
    await using database = await POSTGRES.open();
    await using proxy = await startProxy(database);
    await using ledger = await open(proxy.database, { settleWaitMs: 100 });
    const running = newRow();
    await ledger.open(running, counts());
    proxy.cut();
    await assert.rejects(ledger.open(newRow(), counts()), { code: 'storage_unavailable' });
    await assert.rejects(ledger.settle(running.id, settlement()), { code: 'storage_unavailable' });
    assert.equal(ledger.health.writable, false);
    await assert.rejects(ledger.open(newRow(), counts()), { code: 'storage_unavailable' });
    proxy.restore();
    await until(() => ledger.health.writable);
    await until(async () => (await readRow(database, running.id))?.state === 'settled');
    const after = newRow();
    await ledger.open(after, counts());
    assert.equal(await ledger.settle(after.id, settlement()), 'settled');
    assert.deepEqual(await countByState(database), { settled: 2 });
    assert.equal((await readUsageDays(database))[0]?.requests, 2);
  });

  test('a settlement whose response is lost resolves as settled and is counted once', async () => {
    await using database = await POSTGRES.open();
    await using proxy = await startProxy(database);
    await using ledger = await open(proxy.database);
    const running = newRow();
    await ledger.open(running, counts());
    proxy.mute();
    const settled = ledger.settle(running.id, settlement());
    await until(async () => (await readRow(database, running.id))?.state === 'settled');
    proxy.cut();
    await until(() => !ledger.health.writable);
    proxy.restore();
    assert.equal(await settled, 'settled');
    assert.equal((await readUsageDays(database))[0]?.requests, 1);
  });

  test('a settlement whose response is lost for too long is rejected and costs nothing', async () => {
    await using database = await POSTGRES.open();
    await using proxy = await startProxy(database);
    await using ledger = await open(proxy.database, { settleWaitMs: 100 });
    const running = newRow();
    await ledger.open(running, counts());
    proxy.mute();
    const { startedAt } = running;
    const ended = settlement({ firstTokenAt: startedAt + 10, endedAt: startedAt + 500 });
    const settled = assert.rejects(ledger.settle(running.id, ended), { code: 'storage_unavailable' });
    await until(async () => (await readRow(database, running.id))?.billed === 1);
    proxy.cut();
    await settled;
    proxy.restore();
    await until(async () => (await readRow(database, running.id))?.billed === 0);
    const after = await readRow(database, running.id);
    assert.deepEqual([after?.state, after?.cost, after?.error_code], ['settled', '0', 'storage_unavailable']);
    const [day] = await readUsageDays(database);
    assert.deepEqual([day?.requests, day?.errors, day?.billed_tokens, day?.cost], [1, 1, 0, '0']);
    const latencies = await database.kysely.selectFrom('latency_days').select('count').execute();
    assert.deepEqual(
      latencies.map(({ count }) => count),
      [0, 0],
    );
  });

  test('a row whose opening was rejected because the response was lost ends without cost', async () => {
    await using database = await POSTGRES.open();
    await using proxy = await startProxy(database);
    await using ledger = await open(proxy.database);
    // Opens the connection that is muted below.
    await ledger.open(newRow(), counts());
    proxy.mute();
    const doubtful = newRow();
    const opening = ledger.open(doubtful, counts());
    opening.catch(() => {});
    await until(async () => (await readRow(database, doubtful.id))?.state === 'open');
    proxy.cut();
    await assert.rejects(opening, { code: 'storage_unavailable' });
    proxy.restore();
    await until(async () => (await readRow(database, doubtful.id))?.state === 'interrupted');
    const after = await readRow(database, doubtful.id);
    assert.equal(after?.cost, '0');
    assert.equal(after?.error_code, 'storage_unavailable');
    assert.equal((await readUsageDays(database))[0]?.interrupted, 1);
  });

  test('an instance that sent no heartbeats gets a new epoch if its lease expired', async () => {
    await using database = await POSTGRES.open();
    await using proxy = await startProxy(database);
    let fences = 0;
    await using cut = await open(proxy.database, { leaseMs: 500 }, { onFenced: () => (fences += 1) });
    const running = newRow();
    await cut.open(running, counts());
    proxy.cut();
    await endLeases(database);
    // With a long lease, so that it settles rows of others only once, even if both stand still for a while afterwards.
    await using other = await open(database);
    await until(async () => (await readRow(database, running.id))?.state === 'interrupted');
    proxy.restore();
    await until(() => fences === 1 && cut.health.writable);
    assert.equal(await cut.settle(running.id, settlement()), 'lost');
    assert.ok(other.health.writable);
    assert.equal((await readUsageDays(database))[0]?.requests, 1);
  });

  test('if the partition of the month is missing, the first row is refused and the next one is written', async () => {
    await using database = await POSTGRES.open();
    await using ledger = await open(database);
    const month = new Date().toISOString().slice(0, 7).replace('-', '_');
    await sql`drop table ${sql.table(`ledger_${month}`)}`.execute(database.kysely);
    await assert.rejects(ledger.open(newRow(), counts()), { code: 'storage_unavailable' });
    const after = newRow();
    await ledger.open(after, counts());
    assert.equal(await ledger.settle(after.id, settlement()), 'settled');
  });
});
