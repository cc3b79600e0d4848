import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, connect, type AddressInfo, type Socket } from 'node:net';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import type { Database } from '../../../src/database/database.ts';
import { Secret } from '../../../src/secret.ts';
import { until } from '../../harness.ts';
import { testDatabases, withoutPostgres } from '../../servers.ts';
import { counts, open, row, settlement, standing, states, sums } from './books.ts';

/** A way to the server that can be cut. */
interface Way extends AsyncDisposable {
  database: Database;
  /** Lets nothing of what the server says through any more. */
  mute(): void;
  /** Ends every connection, and each that is made until `restore`. */
  cut(): void;
  restore(): void;
}

async function way(database: Database): Promise<Way> {
  assert.ok(database.place.kind === 'postgres');
  const url = new URL(database.place.url.reveal());
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
    database: { ...database, place: { kind: 'postgres', url: new Secret(url.href) } },
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

describe('the ledger on a PostgreSQL that goes away', { skip: withoutPostgres }, () => {
  const databases = testDatabases().find(({ name }) => name === 'PostgreSQL');
  assert.ok(databases);

  test('refuses new requests at once, keeps what has ended, and heals by itself', async () => {
    await using database = await databases.open();
    await using path = await way(database);
    await using ledger = await open(path.database, { settleWaitMs: 100 });
    const running = row();
    await ledger.open(running, counts());
    path.cut();
    await assert.rejects(ledger.open(row(), counts()), { code: 'storage_unavailable' });
    await assert.rejects(ledger.settle(running.id, settlement()), { code: 'storage_unavailable' });
    assert.equal(ledger.health.writable, false);
    await assert.rejects(ledger.open(row(), counts()), { code: 'storage_unavailable' });
    path.restore();
    await until(() => ledger.health.writable);
    await until(async () => (await standing(database, running.id))?.state === 'settled');
    const after = row();
    await ledger.open(after, counts());
    assert.equal(await ledger.settle(after.id, settlement()), 'settled');
    assert.deepEqual(await states(database), { settled: 2 });
    assert.equal((await sums(database))[0]?.requests, 2);
  });

  test('a settlement whose answer is lost is told as settled, and counted once', async () => {
    await using database = await databases.open();
    await using path = await way(database);
    await using ledger = await open(path.database);
    const running = row();
    await ledger.open(running, counts());
    path.mute();
    const settled = ledger.settle(running.id, settlement());
    await until(async () => (await standing(database, running.id))?.state === 'settled');
    path.cut();
    await until(() => !ledger.health.writable);
    path.restore();
    assert.equal(await settled, 'settled');
    assert.equal((await sums(database))[0]?.requests, 1);
  });

  test('a settlement whose answer is lost for too long is told as not counted, and costs nothing', async () => {
    await using database = await databases.open();
    await using path = await way(database);
    await using ledger = await open(path.database, { settleWaitMs: 100 });
    const running = row();
    await ledger.open(running, counts());
    path.mute();
    const { startedAt } = running;
    const ended = settlement({ firstTokenAt: startedAt + 10, endedAt: startedAt + 500 });
    const settled = assert.rejects(ledger.settle(running.id, ended), { code: 'storage_unavailable' });
    await until(async () => (await standing(database, running.id))?.billed === 1);
    path.cut();
    await settled;
    path.restore();
    await until(async () => (await standing(database, running.id))?.billed === 0);
    const after = await standing(database, running.id);
    assert.deepEqual([after?.state, after?.cost, after?.error_code], ['settled', '0', 'storage_unavailable']);
    const [day] = await sums(database);
    assert.deepEqual([day?.requests, day?.errors, day?.billed_tokens, day?.cost], [1, 1, 0, '0']);
    const latencies = await database.kysely.selectFrom('latency_days').select('count').execute();
    assert.deepEqual(
      latencies.map(({ count }) => count),
      [0, 0],
    );
  });

  test('a row whose opening was refused because its answer was lost ends without cost', async () => {
    await using database = await databases.open();
    await using path = await way(database);
    await using ledger = await open(path.database);
    // Over the connection that is muted then.
    await ledger.open(row(), counts());
    path.mute();
    const doubtful = row();
    const opening = ledger.open(doubtful, counts());
    opening.catch(() => {});
    await until(async () => (await standing(database, doubtful.id))?.state === 'open');
    path.cut();
    await assert.rejects(opening, { code: 'storage_unavailable' });
    path.restore();
    await until(async () => (await standing(database, doubtful.id))?.state === 'interrupted');
    const after = await standing(database, doubtful.id);
    assert.equal(after?.cost, '0');
    assert.equal(after?.error_code, 'storage_unavailable');
    assert.equal((await sums(database))[0]?.interrupted, 1);
  });

  test('a copy that could not say that it lives is another afterwards, where its lease had ended', async () => {
    await using database = await databases.open();
    await using path = await way(database);
    let fences = 0;
    await using cut = await open(path.database, { leaseMs: 500 }, { onFenced: () => (fences += 1) });
    const running = row();
    await cut.open(running, counts());
    path.cut();
    await using other = await open(database, { leaseMs: 500 });
    await until(async () => (await standing(database, running.id))?.state === 'interrupted');
    path.restore();
    await until(() => fences === 1 && cut.health.writable);
    assert.equal(await cut.settle(running.id, settlement()), 'lost');
    assert.ok(other.health.writable);
    assert.equal((await sums(database))[0]?.requests, 1);
  });

  test('a row of a month that has no partition yet is refused once, and written after', async () => {
    await using database = await databases.open();
    await using ledger = await open(database);
    const month = new Date().toISOString().slice(0, 7).replace('-', '_');
    await sql`drop table ${sql.table(`ledger_${month}`)}`.execute(database.kysely);
    await assert.rejects(ledger.open(row(), counts()), { code: 'storage_unavailable' });
    const after = row();
    await ledger.open(after, counts());
    assert.equal(await ledger.settle(after.id, settlement()), 'settled');
  });
});
