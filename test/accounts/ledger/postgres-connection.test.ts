import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { describe, test } from 'node:test';
import { PostgresConnection } from '../../../src/accounts/ledger/postgres-connection.ts';
import { DatabaseError } from '../../../src/database/errors.ts';
import { fault } from '../../database/faults.ts';
import { Secret } from '../../../src/support/secret.ts';
import { testDatabases, withoutPostgres } from '../../support/servers.ts';

test('the time to connect to a server that does not respond counts towards the timeout of the work', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = new PostgresConnection(new Secret(`postgres://a:b@127.0.0.1:${port}/sluice`), 100);
  // Less than the timeout of connecting alone.
  let isLate = false;
  const limit = setTimeout(() => (isLate = true), 4000);
  try {
    await assert.rejects(
      connection.use((query) => query('select 1')),
      fault('unavailable', /does not respond/),
    );
    assert.equal(isLate, false);
  } finally {
    clearTimeout(limit);
    server.close();
  }
});

describe('one connection to PostgreSQL', { skip: withoutPostgres }, () => {
  const postgres = testDatabases().find(({ name }) => name === 'PostgreSQL');

  test('a statement sent during a transaction is not part of it, and survives its failure', async () => {
    await using location = await postgres?.location();
    assert.ok(location?.url);
    await using connection = new PostgresConnection(location.url, 5000);
    await connection.use((query) => query('create table notes (note text)'));
    const begun = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const failing = connection.transaction(async (query) => {
      await query('insert into notes values ($1)', ['rolled back']);
      begun.resolve();
      await released.promise;
      await query('select 1 / 0');
    });
    await begun.promise;
    const concurrent = connection.use((query) => query('insert into notes values ($1)', ['kept']));
    released.resolve();
    await assert.rejects(failing, DatabaseError);
    await concurrent;
    const { rows } = await connection.use((query) => query<{ note: string }>('select note from notes'));
    assert.deepEqual(
      rows.map(({ note }) => note),
      ['kept'],
    );
  });

  test('a process paused in a transaction releases its locks after the statement timeout', async () => {
    await using location = await postgres?.location();
    assert.ok(location?.url);
    await using first = new PostgresConnection(location.url, 100);
    await using second = new PostgresConnection(location.url, 5000);
    await second.use((query) => query('create table notes (note text)'));
    const locked = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    const paused = first.transaction(async (query) => {
      await query('lock table notes');
      locked.resolve();
      await released.promise;
    });
    await locked.promise;
    await second.use((query) => query('insert into notes values ($1)', ['written']));
    released.resolve();
    await assert.rejects(paused, DatabaseError);
  });
});
