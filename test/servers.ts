/**
 * Databases and stores for tests. `test/run.ts` starts one PostgreSQL and one Valkey for all files and passes their
 * addresses on; a file that is run by itself starts its own, when it first asks. What cannot be had is skipped, with
 * a test that says so; `test/run.ts` fails on it where nothing may be.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createClient } from '@redis/client';
import { Client } from 'pg';
import { openDatabase, type Database } from '../src/database/database.ts';
import { Secret } from '../src/secret.ts';
import { hasPostgres, hasValkey, startPostgres, startValkey, type TestServer } from './server-process.ts';

/** A database of its own, which goes away when it is closed. */
export interface TestDatabase extends Database, TestPlace {
  /** Opens the same database once more, as another process would. */
  again(): Promise<Database>;
}

export interface TestDatabases {
  name: 'SQLite' | 'PostgreSQL';
  /** Makes a new one with the newest tables. */
  open(): Promise<TestDatabase>;
  /** The place for a new one, where nothing is yet. */
  place(): Promise<TestPlace>;
}

/** Where a database is, or can be made. */
export interface TestPlace extends AsyncDisposable {
  readonly home: string;
  readonly url: Secret | null;
  /** With these a process of ours finds it. */
  readonly env: { SLUICE_HOME: string; SLUICE_DATABASE_URL?: string };
}

/** Every kind of database: `for (const database of testDatabases()) describe(database.name, …)`. */
export function testDatabases(): TestDatabases[] {
  const sqlite: TestDatabases = {
    name: 'SQLite',
    open: () => open(sqlite.place()),
    place: sqlitePlace,
  };
  if (withoutPostgres) {
    test('PostgreSQL', { skip: withoutPostgres });
    return [sqlite];
  }
  const postgres: TestDatabases = {
    name: 'PostgreSQL',
    open: () => open(postgres.place()),
    place: postgresPlace,
  };
  return [sqlite, postgres];
}

async function open(making: Promise<TestPlace>): Promise<TestDatabase> {
  await using owned = new AsyncDisposableStack();
  const { home, url, env } = owned.use(await making);
  const again = () => openDatabase({ home, url });
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

async function sqlitePlace(): Promise<TestPlace> {
  const home = await mkdtemp(join(tmpdir(), 'sluice-test-'));
  return {
    home,
    url: null,
    env: { SLUICE_HOME: home },
    [Symbol.asyncDispose]: () => rm(home, { recursive: true, force: true }),
  };
}

/** An empty database on the server of the tests, and a home that holds none. */
async function postgresPlace(): Promise<TestPlace> {
  await using owned = new AsyncDisposableStack();
  const { home } = owned.use(await sqlitePlace());
  const url = new URL(await postgresUrl());
  const server = url.href;
  const name = `sluice_test_${randomBytes(8).toString('hex')}`;
  await command(server, `create database ${name}`);
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
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    await client.query(sql);
  } finally {
    await client.end();
  }
}

/** Why there is no PostgreSQL for tests; false: there is one. */
export const withoutPostgres: string | false =
  (process.env.TEST_POSTGRES_URL ?? hasPostgres()) ? false : 'There is no PostgreSQL.';

/** Why there is no Valkey for tests; false: there is one. */
export const withoutValkey: string | false =
  (process.env.TEST_VALKEY_URL ?? hasValkey()) ? false : 'There is no Valkey or Redis.';

/** Address of an empty Valkey or Redis that no other test file uses; databases of one server are told by number. */
export async function valkeyUrl(): Promise<string> {
  const url = new URL(await once('TEST_VALKEY_URL', startValkey));
  const client = createClient({ url: url.href });
  await client.connect();
  try {
    const { databases } = await client.configGet('databases');
    const taken = await client.incr('sluice-test:databases');
    const number = 1 + (taken % (Number(databases) - 1));
    await client.select(number);
    await client.flushDb();
    url.pathname = `/${number}`;
    return url.href;
  } finally {
    client.destroy();
  }
}

/** Address of the PostgreSQL of the tests, as a user who may make databases. */
function postgresUrl(): Promise<string> {
  return once('TEST_POSTGRES_URL', startPostgres);
}

const started = new Map<string, Promise<string>>();

/** The address that the environment gives, or else that of a server which is started once and ends with us. */
async function once(variable: string, start: () => Promise<TestServer>): Promise<string> {
  const given = process.env[variable];
  if (given) return given;
  const starting = started.get(variable) ?? start().then((server) => (server.unref(), server.url));
  started.set(variable, starting);
  return await starting;
}
