/**
 * Databases and limits stores for tests. `test/run.ts` starts one PostgreSQL and one Valkey for all test files; a file
 * that runs alone starts its own on first use. If a server is not available, its tests are skipped.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Database } from '../../src/database/database.ts';
import { Secret } from '../../src/support/secret.ts';
import { memoryFolder } from './memory-folder.ts';
import { hasPostgres, hasValkey, startPostgres, startValkey, type TestServer } from './server-process.ts';
import { createSqlite } from './sqlite-template.ts';

/** A new database, which is deleted when disposed. */
export interface TestDatabase extends Database, TestLocation {
  /** Opens the same database again, like another process. */
  again(): Promise<Database>;
}

export interface TestDatabases {
  name: 'SQLite' | 'PostgreSQL';
  /** Creates a migrated database. `threads`: see `DatabaseOptions`. */
  open(options?: { threads?: boolean }): Promise<TestDatabase>;
  /** Creates the location of a new database that has the tables already. */
  location(): Promise<TestLocation>;
  /** Creates the location of a database without tables. */
  emptyLocation(): Promise<TestLocation>;
}

/** The location of a database. */
export interface TestLocation extends AsyncDisposable {
  readonly home: string;
  readonly url: Secret | null;
  /** The environment variables for this location. */
  readonly env: { SLUICE_HOME: string; SLUICE_DATABASE_URL?: string };
}

export const SQLITE: TestDatabases = {
  name: 'SQLite',
  open: (options) => open(SQLITE.location(), options),
  location: sqliteLocation,
  emptyLocation: emptySqliteLocation,
};

/** For tests with `{ skip: withoutPostgres }`. */
export const POSTGRES: TestDatabases = {
  name: 'PostgreSQL',
  open: (options) => open(POSTGRES.location(), options),
  location: () => postgresLocation('template1'),
  emptyLocation: () => postgresLocation('template0'),
};

/** Returns the available kinds of databases: `for (const database of testDatabases()) describe(database.name, …)`. */
export function testDatabases(): TestDatabases[] {
  if (!withoutPostgres) return [SQLITE, POSTGRES];
  test('PostgreSQL', { skip: withoutPostgres });
  return [SQLITE];
}

async function open(location: Promise<TestLocation>, { threads = false } = {}): Promise<TestDatabase> {
  await using owned = new AsyncDisposableStack();
  const { home, url, env } = owned.use(await location);
  // Clients are loaded on first use, because few test files need all of them.
  const { openDatabase } = await import('../../src/database/database.ts');
  const again = () => openDatabase({ home, url, threads });
  const database = owned.use(await again());
  const kept = owned.move();
  return {
    ...database,
    home,
    url,
    env,
    again,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function sqliteLocation(): Promise<TestLocation> {
  const location = await emptySqliteLocation();
  await createSqlite(location.home);
  return location;
}

async function emptySqliteLocation(): Promise<TestLocation> {
  const home = await mkdtemp(join(memoryFolder(), 'sluice-test-'));
  return {
    home,
    url: null,
    env: { SLUICE_HOME: home },
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  };
}

/** Creates a database on the test server, and a data directory. */
async function postgresLocation(template: 'template0' | 'template1'): Promise<TestLocation> {
  await using owned = new AsyncDisposableStack();
  const { home } = owned.use(await emptySqliteLocation());
  const url = new URL(await postgresUrl());
  const server = url.href;
  const name = `sluice_test_${randomBytes(8).toString('hex')}`;
  // Copying the files takes half the CPU time of the default, which writes each page to the write-ahead log.
  await command(server, `create database ${name} template ${template} strategy file_copy`);
  owned.defer(() => command(server, `drop database if exists ${name} with (force)`));
  url.pathname = `/${name}`;
  const kept = owned.move();
  return {
    home,
    url: new Secret(url.href),
    env: { SLUICE_HOME: home, SLUICE_DATABASE_URL: url.href },
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

async function command(url: string, sql: string): Promise<void> {
  const { Client } = await import('pg');
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** The reason to skip tests with PostgreSQL, or false. */
export const withoutPostgres = hasPostgres() ? false : 'PostgreSQL is not available.';

/** The reason to skip tests with Valkey or Redis, or false. */
export const withoutValkey = hasValkey() ? false : 'Neither Valkey nor Redis is available.';

/** Resolves with the URL of an empty numbered database of Valkey or Redis that no other test file uses. */
export async function valkeyUrl(): Promise<string> {
  const url = new URL(await startOnce('TEST_VALKEY_URL', startValkey));
  const { RedisClient } = await import('@redis/client');
  // As the service does, so that the class of the client is built once.
  const client = RedisClient.factory()({ url: url.href });
  await client.connect();
  try {
    const { databases } = await client.configGet('databases');
    const count = await client.incr('sluice-test:databases');
    const number = 1 + (count % (Number(databases) - 1));
    await client.select(number);
    await client.flushDb();
    url.pathname = `/${number}`;
    return url.href;
  } finally {
    client.destroy();
  }
}

/** Resolves with the URL of PostgreSQL, with a user that can create databases. */
function postgresUrl(): Promise<string> {
  return startOnce('TEST_POSTGRES_URL', startPostgres);
}

const started = new Map<string, Promise<string>>();

/** Resolves with the URL in the environment variable, or of a server that is started on first use. */
async function startOnce(variable: string, start: () => Promise<TestServer>): Promise<string> {
  const configured = process.env[variable];
  if (configured) return configured;
  const starting = started.get(variable) ?? start().then((server) => (server.unref(), server.url));
  started.set(variable, starting);
  return await starting;
}

/** The locks of the current database, in SQL. In other databases of the server, relations can have the same IDs. */
export const POSTGRES_LOCKS =
  '(select * from pg_locks where database = (select oid from pg_database where datname = current_database())) as locks';
