import assert from 'node:assert/strict';
import { tmpdir } from 'node:os';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase, type Database } from '../../src/database/database.ts';
import { asPostgresError, DatabaseError } from '../../src/database/errors.ts';
import { nameOf } from '../../src/database/postgres.ts';
import { Secret } from '../../src/support/secret.ts';
import { until } from '../harness.ts';
import { startPostgres, type TestServer } from '../support/server-process.ts';
import { testDatabases, withoutPostgres } from '../support/servers.ts';
import { fault } from './faults.ts';

const at = (url: string) => ({ home: tmpdir(), url: new Secret(url) });

test('a database is named by host and name, without user and password', () => {
  for (const [url, name] of [
    ['postgres://me:hush@db.example.org/sluice', 'sluice on db.example.org:5432'],
    ['postgresql://me:hush@db:6000/a%20b?sslmode=require', 'a b on db:6000'],
    ['postgres://me:hush@[::1]:5433', 'on [::1]:5433'],
    ['postgres:///sluice?host=/run/postgresql&user=me&password=hush', 'sluice on /run/postgresql:5432'],
  ] as const) {
    assert.equal(nameOf(new Secret(url)), name);
  }
});

test('server errors are mapped to faults, which decide whether to wait or to stop', () => {
  const reported = (code: string) =>
    asPostgresError(Object.assign(new Error('odd'), { severity: 'ERROR', code }), 'a on b');
  for (const [code, expected] of [
    ['08006', 'unavailable'],
    ['28P01', 'unwritable'],
    ['40P01', 'busy'],
    ['53100', 'full'],
    ['53200', 'failed'],
    ['53300', 'unavailable'],
    ['55P03', 'busy'],
    ['57014', 'busy'],
    ['57P01', 'unavailable'],
    ['57P03', 'unavailable'],
    ['25006', 'unwritable'],
    ['3D000', 'unwritable'],
    ['XX000', 'failed'],
  ] as const) {
    const error = reported(code);
    assert.ok(error instanceof DatabaseError);
    assert.equal(error.fault, expected, code);
    assert.match(error.message, /^The database a on b /);
  }
  const ours = new TypeError('x');
  assert.equal(asPostgresError(ours, 'a on b'), ours);
});

test('an unreachable server is reported as unavailable, with its host and database', async () => {
  const refused = openDatabase(at('postgres://me:hush@127.0.0.1:1/sluice'));
  await assert.rejects(
    refused,
    fault('unavailable', /^The database sluice on 127\.0\.0\.1:1 cannot be reached/),
  );
  const unknown = openDatabase(at('postgres://me:hush@nowhere.invalid/sluice'));
  await assert.rejects(unknown, fault('unavailable', /nowhere\.invalid/));
});

for (const databases of testDatabases().filter(({ name }) => name === 'PostgreSQL')) {
  test('a missing database is distinguished from an unreachable server', async () => {
    await using location = await databases.location();
    const url = new URL(location.url?.reveal() ?? '');
    url.pathname = '/nothing_of_that_name';
    await assert.rejects(
      openDatabase(at(url.href)),
      fault('unwritable', /nothing_of_that_name .* does not exist/),
    );
  });

  test('a connection that the server closes within a transaction is replaced', async () => {
    await using database = await databases.open();
    await using other = await database.again();
    const broken = database.kysely.transaction().execute(async (transaction) => {
      const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(transaction);
      await sql`select pg_terminate_backend(${rows[0]?.pid}::int)`.execute(other.kysely);
      await transaction.updateTable('accounts').set({ name: 'A' }).execute();
    });
    await assert.rejects(broken, fault('unavailable'));
    const { name } = await database.kysely.selectFrom('accounts').select('name').executeTakeFirstOrThrow();
    assert.equal(name, 'Default');
  });

  test('a statement that waits too long for a lock fails with busy', async () => {
    await using database = await databases.open();
    await using other = await database.again();
    await database.kysely.transaction().execute(async (transaction) => {
      await transaction.updateTable('accounts').set({ name: 'A' }).execute();
      const waiting = other.kysely.transaction().execute(async (second) => {
        await sql`set local lock_timeout = 50`.execute(second);
        await second.updateTable('accounts').set({ name: 'B' }).execute();
      });
      await assert.rejects(waiting, fault('busy', /locked by other connections/));
    });
  });
}

describe('a server that becomes unreachable', { skip: withoutPostgres }, () => {
  let server: TestServer;
  let database: Database;
  let revision: number;

  before(async () => {
    server = await startPostgres();
    database = await openDatabase(at(server.url));
    revision = await database.accessRevision();
  });
  after(async () => {
    await database[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
  });

  const name = async () =>
    (await database.kysely.selectFrom('accounts').select('name').executeTakeFirstOrThrow()).name;

  test('is unavailable until it responds again, and the same `Database` then works', async () => {
    await Promise.all(Array.from({ length: 5 }, name));
    process.kill(server.pid, 'SIGKILL');
    // Each connection of the pool detects it separately.
    await until(async () => {
      const error: unknown = await name().catch((reason: unknown) => reason);
      return (
        error instanceof DatabaseError && error.fault === 'unavailable' && /ECONNREFUSED/.test(error.message)
      );
    });
    await assert.rejects(async () => await database.accessRevision(), fault('unavailable'));
    await server.start();
    assert.equal(await name(), 'Default');
    assert.equal(await database.accessRevision(), revision);
  });

  test('is unavailable while it is paused, and the connection is replaced; polling is not affected', async () => {
    const backend = () => sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(database.background);
    const [first] = (await backend()).rows;
    assert.ok(first);
    process.kill(first.pid, 'SIGSTOP');
    try {
      const waiting = backend();
      assert.equal(await database.accessRevision(), revision);
      await assert.rejects(waiting, fault('unavailable', /does not respond/));
      assert.notEqual((await backend()).rows[0]?.pid, first.pid);
    } finally {
      process.kill(first.pid, 'SIGCONT');
    }
  });

  test('does not delay the end of a transaction once more after a statement that got no response', async () => {
    let pid = 0;
    let failedAt = Infinity;
    const before = performance.now();
    const transaction = database.background.transaction().execute(async (query) => {
      pid = (await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(query)).rows[0]?.pid ?? 0;
      process.kill(pid, 'SIGSTOP');
      await sql`select 1`.execute(query).finally(() => (failedAt = performance.now()));
    });
    try {
      await assert.rejects(transaction, fault('unavailable', /does not respond/));
      const [statementMs, rollbackMs] = [failedAt - before, performance.now() - failedAt];
      assert.ok(rollbackMs < statementMs / 2, `the rollback took ${rollbackMs} ms`);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
  });
});
