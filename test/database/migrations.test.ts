import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import { randomUUIDv7 } from 'node:crypto';
import { sql } from 'kysely';
import { Client } from 'pg';
import { readUsagePage } from '../../src/accounts/ledger/usage.ts';
import { openDatabase } from '../../src/database/database.ts';
import { ensurePartitions } from '../../src/database/partitions.ts';
import { until } from '../harness.ts';
import {
  POSTGRES,
  POSTGRES_LOCKS,
  testDatabases,
  withoutPostgres,
  type TestDatabases,
  type TestLocation,
} from '../support/servers.ts';
import { fault, plain } from './faults.ts';

/** The tables of version 0.1.0 on SQLite, and the same on PostgreSQL. */
const OLDEST = (integer: string, strict: string) => `
  create table accounts (id text not null primary key, name text not null,
    status text not null check (status in ('active', 'suspended', 'closed')), created_at ${integer} not null) ${strict};
  create table keys (id text not null primary key, account_id text not null references accounts (id),
    kind text not null check (kind in ('caller', 'admin')), name text not null,
    hash text not null unique check (length(hash) = 64), prefix text not null, last_four text not null,
    created_at ${integer} not null, expires_at ${integer}, revoked_at ${integer}, last_used_at ${integer}) ${strict};
  create table settings (name text not null primary key, value text not null) ${strict};
  create table migrations (name varchar(255) not null primary key, timestamp varchar(255) not null);
  create table migrations_lock (id varchar(255) not null primary key, is_locked integer default 0 not null);
  insert into migrations values ('0001_keys', '2026-11-22T00:05:20.148Z');
  insert into migrations_lock values ('migration_lock', 0);
  insert into settings values ('cache_scope_secret', '${'5'.repeat(64)}');
  insert into accounts values ('default', 'Default', 'active', 1795305920147), ('acme', 'Acme', 'suspended', 3);
  insert into keys values
    ('key_1', 'default', 'caller', 'laptop', '${'1'.repeat(64)}', 'sk-sluice-oynz', 'nkwI', 1, null, 1795305922231, null),
    ('key_2', 'acme', 'admin', 'ops', '${'2'.repeat(64)}', 'sk-sluice-BCqO', 'IcLs', 2, 1797897920670, null, 4);`;

/** Creates a database of the oldest version, with rows. */
async function createOldest(location: TestLocation): Promise<void> {
  await change(location, location.url === null ? OLDEST('integer', 'strict') : OLDEST('bigint', ''));
}

/** Runs statements directly. */
async function change({ home, url }: TestLocation, statements: string): Promise<void> {
  if (url === null) {
    const connection = new DatabaseSync(join(home, 'sluice.db'));
    connection.exec(statements);
    connection.close();
  } else {
    const client = new Client(url.reveal());
    await client.connect();
    await client.query(statements);
    await client.end();
  }
}

/** A database of the oldest version that was migrated to the newest, with a partition for new requests. */
async function migratedLocation(databases: TestDatabases): Promise<TestLocation> {
  const location = await databases.emptyLocation();
  await createOldest(location);
  await using database = await openDatabase(location);
  await ensurePartitions(database, Date.now());
  return location;
}

/** Inserts a settled request, as the first version with a ledger did. */
function insertRequest(columns: Record<string, string> = {}): string {
  const more = { id: randomUUIDv7(), endpoint: 'chat', ...columns };
  const values = Object.values(more).map((value) => `'${value}'`);
  return `insert into ledger (account_id, key_id, model, streamed, epoch, state, started_at, plan, limits, reserved_tokens,
    reserved_pico, price_prompt, price_completion, attempts, prompt_tokens, cached_tokens, completion_tokens, billed,
    cost_pico, ${Object.keys(more).join(', ')})
    values ('acme', 'key_2', 'a/b', 0, 1, 'settled', 1, 'free', '{}', 1, 1, 1, 3, 1, 7, 6, 5, 1, 22, ${values.join(', ')});`;
}

/** Inserts the usage of such a request on a day. */
function insertUsage(day: number): string {
  return `insert into usage_days (account_id, day, model, key_id, requests, errors, aborted, interrupted,
    prompt_tokens, cached_tokens, completion_tokens, billed_tokens, cost_pico)
    values ('acme', ${day}, 'a/b', 'key_2', 1, 0, 0, 0, 7, 6, 5, 12, 22);`;
}

/** Reverts 0006_reasoning_tokens. */
const BEFORE_REASONING = `
  alter table ledger drop column reasoning_tokens;
  alter table usage_days drop column reasoning_tokens;
  delete from migrations where name = '0006_reasoning_tokens';`;

/** Reverts 0022_cache_misses. */
const BEFORE_CACHE_MISSES = `
  ${['cache_miss', 'cache_miss_tokens', 'cache_miss_after_ms'].map((column) => `alter table ledger drop column ${column};`).join('')}
  alter table usage_days drop column cache_miss_tokens;
  delete from migrations where name = '0022_cache_misses';`;

/** Reverts 0026_clients. */
const BEFORE_CLIENTS = `
  drop table client_days;
  alter table ledger drop column client;
  alter table keys drop column last_used_client;
  delete from migrations where name = '0026_clients';`;

/** Migrations that add columns, with what requests and usage from before have in them, and a value that is refused. */
const ADDED_COLUMNS = [
  {
    name: '0006_reasoning_tokens',
    revert: BEFORE_REASONING,
    request: { reasoning_tokens: 0 },
    usage: { reasoning_tokens: 0 },
    refused: 'reasoning_tokens = -1',
  },
  {
    name: '0018_cache_read_price',
    revert: `
      alter table ledger drop column price_input_cache_read;
      delete from migrations where name = '0018_cache_read_price';`,
    request: { price_input_cache_read: null },
    usage: {},
    refused: 'price_input_cache_read = -1',
  },
  {
    name: '0022_cache_misses',
    revert: BEFORE_CACHE_MISSES,
    request: { cache_miss: null, cache_miss_tokens: 0, cache_miss_after_ms: null },
    usage: { cache_miss_tokens: 0 },
  },
  { name: '0026_clients', revert: BEFORE_CLIENTS, request: { client: null }, usage: {} },
];

for (const databases of testDatabases()) {
  describe(databases.name, () => {
    test('the oldest database is migrated to the newest tables with all rows unchanged', async () => {
      await using location = await databases.emptyLocation();
      await createOldest(location);
      await using database = await openDatabase(location);
      const keys = await database.kysely.selectFrom('keys').selectAll().orderBy('id').execute();
      const added = {
        allowed_models: null,
        limits: null,
        purpose: 'api',
        last_used_ip: null,
        last_used_client: null,
        created_by: null,
        access_revision: 0,
        strict: 0,
        previous_hash: null,
        previous_last_four: null,
        previous_expires_at: null,
        previous_used_at: null,
        session_id: null,
        tags: null,
      };
      assert.deepEqual(plain(keys), [
        {
          id: 'key_1',
          account_id: 'default',
          kind: 'caller',
          name: 'laptop',
          hash: '1'.repeat(64),
          prefix: 'sk-sluice-oynz',
          last_four: 'nkwI',
          created_at: 1,
          expires_at: null,
          revoked_at: 1795305922231,
          last_used_at: null,
          ...added,
        },
        {
          id: 'key_2',
          account_id: 'acme',
          kind: 'admin',
          name: 'ops',
          hash: '2'.repeat(64),
          prefix: 'sk-sluice-BCqO',
          last_four: 'IcLs',
          created_at: 2,
          expires_at: 1797897920670,
          revoked_at: null,
          last_used_at: 4,
          ...added,
        },
      ]);
      const accounts = await database.kysely.selectFrom('accounts').selectAll().orderBy('id').execute();
      assert.deepEqual(plain(accounts), [
        {
          id: 'acme',
          name: 'Acme',
          status: 'suspended',
          created_at: 3,
          plan: null,
          limits: null,
          access_revision: 0,
        },
        {
          id: 'default',
          name: 'Default',
          status: 'active',
          created_at: 1795305920147,
          plan: null,
          limits: null,
          access_revision: 0,
        },
      ]);
      const settings = await database.kysely.selectFrom('settings').selectAll().orderBy('name').execute();
      const secret = settings.find(({ name }) => name === 'auth_secret')?.value;
      assert.match(secret ?? '', /^[0-9a-f]{64}$/);
      const revision = settings.find(({ name }) => name === 'access_revision')?.value;
      assert.match(revision ?? '', /^[1-9]$/);
      assert.deepEqual(plain(settings), [
        { name: 'access_reload', value: '0' },
        { name: 'access_revision', value: revision },
        { name: 'auth_secret', value: secret },
        { name: 'cache_scope_secret', value: '5'.repeat(64) },
        { name: 'models_revision', value: '0' },
      ]);
    });

    test('a migrated database has the same tables, indexes and triggers as a new one', async () => {
      await using location = await databases.emptyLocation();
      await createOldest(location);
      await using old = await openDatabase(location);
      await using fresh = await databases.open();
      const kind = location.url === null ? 'sqlite' : 'postgres';
      const names = async ({ kysely }: typeof old) =>
        (await sql<{ name: string }>`${sql.raw(OBJECTS[kind])}`.execute(kysely)).rows.map(({ name }) => name);
      const found = await names(fresh);
      assert.ok(found.some((name) => name.includes('ledger')));
      assert.deepEqual(await names(old), found);
    });

    test('the migration to clamped usage keeps the rows of the ledger', async () => {
      await using location = await migratedLocation(databases);
      const sources = ['clamped', 'engine'];
      const rows = sources.map((source) => insertRequest({ usage_source: source })).join('');
      await change(location, `${rows} delete from migrations where name = '0005_clamped_usage'`);
      await using database = await openDatabase(location);
      const kept = await database.kysely
        .selectFrom('ledger')
        .select(['usage_source', 'model'])
        .orderBy('usage_source')
        .execute();
      assert.deepEqual(
        plain(kept),
        sources.map((source) => ({ usage_source: source, model: 'a/b' })),
      );
      await assert.rejects(sql`update ledger set usage_source = 'guessed'`.execute(database.kysely));
    });

    test('the ledger accepts any protocol, and keeps its rows', async () => {
      await using location = await migratedLocation(databases);
      await change(location, `${insertRequest()} delete from migrations where name = '0017_protocols'`);
      await using database = await openDatabase(location);
      await change(location, insertRequest({ endpoint: 'another' }));
      const rows = await database.kysely
        .selectFrom('ledger')
        .select('endpoint')
        .orderBy('endpoint')
        .execute();
      assert.deepEqual(plain(rows), [{ endpoint: 'another' }, { endpoint: 'chat' }]);
    });

    test('the code of requests whose client disconnected is renamed, and other codes are kept', async () => {
      await using location = await migratedLocation(databases);
      const rows = ['hung_up', 'internal_error'].map((code) => insertRequest({ error_code: code })).join('');
      await change(location, `${rows} delete from migrations where name = '0011_client_disconnected'`);
      await using database = await openDatabase(location);
      const found = await database.kysely
        .selectFrom('ledger')
        .select('error_code')
        .orderBy('error_code')
        .execute();
      assert.deepEqual(
        found.map((row) => row.error_code),
        ['client_disconnected', 'internal_error'],
      );
    });

    for (const { name, revert, request, usage, refused } of ADDED_COLUMNS) {
      test(`requests from before ${name} keep their columns, and instances of that version can still write`, async () => {
        await using location = await migratedLocation(databases);
        await change(location, revert + insertRequest() + insertUsage(20_000));
        await using database = await openDatabase(location);
        await change(location, insertRequest() + insertUsage(20_001));
        const { kysely } = database;
        const tokens = { prompt_tokens: 7, cached_tokens: 6, completion_tokens: 5 };
        for (const [table, added] of [
          ['ledger', request],
          ['usage_days', usage],
        ] as const) {
          const rows = await kysely.selectFrom(table).selectAll().execute();
          assert.equal(rows.length, 2);
          for (const row of rows) assert.partialDeepStrictEqual({ ...row }, { ...tokens, ...added });
        }
        if (refused) await assert.rejects(sql.raw(`update ledger set ${refused}`).execute(kysely));
      });
    }

    test('keys and usage from before 0026_clients have no client', async () => {
      await using location = await migratedLocation(databases);
      const use = `update keys set last_used_at = 5, last_used_ip = '192.0.2.7' where id = 'key_2';`;
      await change(location, BEFORE_CLIENTS + insertRequest() + insertUsage(20_000) + use);
      await using database = await openDatabase(location);
      await change(location, insertRequest() + insertUsage(20_001) + use);
      const [key] = await database.kysely.selectFrom('keys').selectAll().where('id', '=', 'key_2').execute();
      assert.deepEqual([key?.last_used_ip, key?.last_used_client], ['192.0.2.7', null]);
      const query = { fromDay: 20_000, toDay: 20_002, by: ['client'] as const };
      const [usage, ...more] = (await readUsagePage(database, query)).rows;
      assert.deepEqual([usage?.client, usage?.requests, more], [null, 2, []]);
    });

    test('playground keys that were made permanent expire an hour after they were created', async () => {
      await using location = await databases.emptyLocation();
      await createOldest(location);
      await using _old = await openDatabase(location);
      const rows = [
        ['short', 'playground', '5'],
        ['permanent', 'playground', 'null'],
        ['long', 'playground', '3600008'],
        ['api', 'api', 'null'],
      ].map(
        ([id, purpose, expiry], index) =>
          `('${id}', 'acme', 'caller', 'a', '${String(index + 3).repeat(64)}', 'sk-sluice-abcd', 'wxyz', 7, ${expiry}, '${purpose}')`,
      );
      await change(
        location,
        `${BEFORE_KEY_AUTHORS}
         insert into keys (id, account_id, kind, name, hash, prefix, last_four, created_at, expires_at, purpose)
         values ${rows.join(', ')}`,
      );
      await using database = await openDatabase(location);
      const keys = await database.kysely
        .selectFrom('keys')
        .select(['id', 'expires_at'])
        .where('created_at', '=', 7)
        .execute();
      assert.deepEqual(Object.fromEntries(keys.map(({ id, expires_at }) => [id, expires_at])), {
        short: 5,
        permanent: 3_600_007,
        long: 3_600_007,
        api: null,
      });
    });

    test('users and members from before migration 0004_identity are kept', async () => {
      await using location = await databases.emptyLocation();
      await createOldest(location);
      await using old = await openDatabase(location);
      // Back to the state before 0004_identity.
      await change(location, BEFORE_IDENTITY);
      await change(
        location,
        `insert into people (id, name, email, created_at) values ('person_1', 'Zoe', 'zoe@example.com', 7);
         insert into memberships (account_id, person_id, role, created_at) values ('acme', 'person_1', 'owner', 8)`,
      );
      await using database = await openDatabase(location);
      assert.deepEqual(plain(await database.kysely.selectFrom('users').selectAll().execute()), [
        {
          id: 'person_1',
          name: 'Zoe',
          email: 'zoe@example.com',
          created_at: 7,
          email_verified: 0,
          operator: 0,
          two_factor: 0,
          updated_at: 7,
        },
      ]);
      assert.equal((await old.kysely.selectFrom('memberships').selectAll().execute()).length, 1);
      await database.kysely.deleteFrom('users').execute();
      assert.deepEqual(await database.kysely.selectFrom('memberships').selectAll().execute(), []);
    });

    test('users are renamed in the audit log and in invitations, and the audit log stays append-only', async () => {
      await using location = await databases.emptyLocation();
      await createOldest(location);
      await using _old = await openDatabase(location);
      await change(
        location,
        `${BEFORE_USERS}
         insert into people (id, name, email, created_at) values ('person_1', 'Zoe', 'zoe@example.com', 7);
         insert into credentials (id, person_id, provider, subject, created_at, updated_at)
           values ('credential_1', 'person_1', 'credential', 'person_1', 8, 8);
         insert into invitations (id, token_hash, account_id, email, role, invited_by, created_at, expires_at) values
           ('invitation_1', '${'1'.repeat(64)}', 'acme', 'a@example.com', 'owner', 'person:person_1', 8, 9),
           ('invitation_2', '${'2'.repeat(64)}', 'acme', 'b@example.com', 'owner', 'key:key_2', 8, 9);
         insert into audit (id, at, actor, action, subject, detail) values
           ('1', 1, 'person:person_1', 'person.sign_in', 'person:person_1', '{"with":"password"}'),
           ('2', 2, 'key:key_2', 'person.create', 'person:person_2', '{}'),
           ('3', 3, 'person:person_1', 'invitation.accept', 'invitation:1', '{"person":"person_1","role":"owner"}'),
           ('4', 4, 'cli:person', 'account.rename', 'account:acme', '{"from":"\\"person\\":","to":"Acme"}');`,
      );
      await using database = await openDatabase(location);
      const { kysely } = database;
      const entries = await kysely
        .selectFrom('audit')
        .select(['actor', 'action', 'subject', 'detail'])
        .orderBy('id')
        .execute();
      assert.deepEqual(
        entries.map((entry) => Object.values(entry)),
        [
          ['user:person_1', 'user.sign_in', 'user:person_1', '{"with":"password"}'],
          ['key:key_2', 'user.create', 'user:person_2', '{}'],
          ['user:person_1', 'invitation.accept', 'invitation:1', '{"user":"person_1","role":"owner"}'],
          ['cli:person', 'account.rename', 'account:acme', String.raw`{"from":"\"person\":","to":"Acme"}`],
        ],
      );
      const invitations = await kysely.selectFrom('invitations').select('invited_by').orderBy('id').execute();
      assert.deepEqual(plain(invitations), [{ invited_by: 'user:person_1' }, { invited_by: 'key:key_2' }]);
      await assert.rejects(sql`update audit set actor = 'x'`.execute(kysely), /append-only/);
      await kysely.deleteFrom('users').execute();
      assert.deepEqual(await kysely.selectFrom('credentials').selectAll().execute(), []);
    });

    test('a migration that fails leaves the database as it was', async () => {
      await using location = await databases.emptyLocation();
      await createOldest(location);
      // Makes 0004_identity fail, after the migrations before it.
      await change(location, 'create table invitations (x integer)');
      await assert.rejects(openDatabase(location), fault('failed', /invitations/));
      await change(location, 'drop table invitations');
      await using database = await openDatabase(location);
      const keys = await database.kysely.selectFrom('keys').select('id').execute();
      assert.equal(keys.length, 2);
    });

    test('a database of a newer version is refused, naming the unknown migrations', async () => {
      await using database = await databases.open();
      await sql`insert into migrations (name, timestamp) values ('9999_wings', '')`.execute(database.kysely);
      await assert.rejects(database.again(), fault('newer_schema', /newer version of Sluice \(9999_wings\)/));
    });
  });
}

describe('a migration on PostgreSQL that waits for a reader', { skip: withoutPostgres }, () => {
  test('does not make running instances wait behind it, and names the reader', async () => {
    await using owned = new AsyncDisposableStack();
    const { location, reader, readerPid, writer } = await lockedMigration(owned);
    const migrations: string[] = [];
    const waits: string[] = [];
    const opening = openDatabase({
      ...location,
      onMigration: (name) => void migrations.push(name),
      onMigrationWait: (client) => void waits.push(client),
    });
    await until(async () => {
      const { rows } = await writer.query(
        `select 1 from ${POSTGRES_LOCKS} where relation = 'ledger'::regclass and mode = 'AccessExclusiveLock' and not granted`,
      );
      return rows.length > 0;
    });
    await writer.query(
      `begin; set local lock_timeout = '10s'; lock table ledger in row exclusive mode; commit`,
    );
    await until(() => waits.length > 0);
    await reader.query('commit');
    await using _database = await opening;
    assert.deepEqual(migrations, ['0017_protocols']);
    assert.deepEqual(waits, [`pg_dump (PostgreSQL process ${readerPid})`]);
  });

  test('does not lock keys and accounts while it builds the indexes of the audit log', async () => {
    await using owned = new AsyncDisposableStack();
    const { location, reader, writer } = await lockedMigration(owned);
    await reader.query('commit');
    await change(location, BEFORE_ACCESS_REVISIONS);
    await reader.query('begin; lock table audit in row exclusive mode');
    const opening = openDatabase(location);
    let held: unknown[] = [];
    await until(async () => {
      const { rows } = await writer.query<{ held: unknown[] }>(
        `select array (
           select relation::regclass::text from ${POSTGRES_LOCKS}
           where pid = waiting.pid and relation in ('keys'::regclass, 'accounts'::regclass)) as held
         from (select * from ${POSTGRES_LOCKS}) as waiting
         where relation = 'audit'::regclass and mode = 'ShareLock' and not granted`,
      );
      held = rows[0]?.held ?? [];
      return rows.length > 0;
    });
    await reader.query('commit');
    await using _database = await opening;
    assert.deepEqual(held, []);
  });

  test('does not lock the ledger while it checks the rows for a constraint', async () => {
    await using owned = new AsyncDisposableStack();
    const { location, reader, writer } = await lockedMigration(owned);
    await reader.query('commit');
    await change(
      location,
      `alter table ledger drop column price_input_cache_read;
       delete from migrations where name in ('0018_cache_read_price', '0019_cache_read_price_check')`,
    );
    let locks: Promise<{ rows: unknown[] }> | undefined;
    const onMigration = (name: string) => {
      if (name !== '0019_cache_read_price_check') return;
      locks = writer.query(
        `select 1 from ${POSTGRES_LOCKS} where relation = 'ledger'::regclass and mode = 'AccessExclusiveLock'`,
      );
    };
    await using database = await openDatabase({ ...location, onMigration });
    assert.deepEqual((await locks)?.rows, []);
    const { rows } = await sql`
      select 1 from pg_constraint where conname = 'ledger_price_input_cache_read_check' and not convalidated`.execute(
      database.kysely,
    );
    assert.deepEqual(rows, []);
  });

  test('ends when it is aborted', async () => {
    await using owned = new AsyncDisposableStack();
    const { location } = await lockedMigration(owned);
    const stop = new AbortController();
    const onMigrationWait = () => stop.abort();
    const opening = openDatabase({ ...location, onMigrationWait, signal: stop.signal });
    await assert.rejects(opening, { name: 'AbortError' });
  });

  test('fails if the statement timeout of its user is over, instead of trying forever', async () => {
    await using owned = new AsyncDisposableStack();
    const { location } = await lockedMigration(owned);
    const { pathname } = new URL(location.env.SLUICE_DATABASE_URL ?? '');
    await change(location, `alter database ${pathname.slice(1)} set statement_timeout = '100ms'`);
    await assert.rejects(openDatabase(location), fault('busy', /timeout/));
  });
});

/** Creates a database with a migration to apply that needs a lock of a reader, which is like a backup. */
async function lockedMigration(owned: AsyncDisposableStack) {
  const location = owned.use(await POSTGRES.location());
  await change(location, `delete from migrations where name = '0017_protocols'`);
  const connect = async (name: string) => {
    const client = new Client({ connectionString: location.url?.reveal(), application_name: name });
    await client.connect();
    owned.defer(() => client.end());
    return client;
  };
  const [reader, writer] = [await connect('pg_dump'), await connect('sluice')];
  const { rows } = await reader.query<{ pid: number }>('select pg_backend_pid() as pid');
  await reader.query('begin; select count(*) from ledger');
  return { location, reader, readerPid: rows[0]?.pid, writer };
}

/** Reverts the renaming of users. */
const BEFORE_USERS = `
  alter table users rename to people;
  ${['memberships', 'credentials', 'sessions', 'second_factors', 'recovery_codes'].map((table) => `alter table ${table} rename column user_id to person_id;`).join('')}
  drop index memberships_user;
  drop index credentials_user;
  drop index sessions_user;
  create index memberships_person on memberships (person_id);
  create index credentials_person on credentials (person_id);
  create index sessions_person on sessions (person_id, created_at, id);
  delete from migrations where name = '0012_users';`;

const BEFORE_KEY_AUTHORS = `
  drop index keys_author;
  alter table keys drop column created_by;
  delete from migrations where name = '0013_key_authors';`;

/** Reverts 0013_key_authors, 0012_users and 0004_identity. */
const BEFORE_IDENTITY = `
  ${BEFORE_KEY_AUTHORS}
  ${BEFORE_USERS}
  ${[
    'invitations',
    'attempts',
    'recovery_codes',
    'second_factors',
    'verifications',
    'sessions',
    'credentials',
  ]
    .map((table) => `drop table ${table};`)
    .join('')}
  ${['email_verified', 'operator', 'two_factor', 'updated_at'].map((column) => `alter table people drop column ${column};`).join('')}
  ${['purpose', 'last_used_ip'].map((column) => `alter table keys drop column ${column};`).join('')}
  delete from settings where name = 'auth_secret';
  delete from migrations where name = '0004_identity'`;

/** Reverts 0014_access_revisions, 0015_audit_indexes, 0021_strict_keys, 0024_previous_secrets and 0025_key_tags on PostgreSQL. */
const BEFORE_ACCESS_REVISIONS = `
  drop trigger keys_access_strict on keys;
  drop trigger keys_access_previous on keys;
  drop trigger accounts_access_limits on accounts;
  alter table accounts drop column limits;
  alter table keys drop column strict, drop column previous_hash, drop column previous_last_four,
    drop column previous_expires_at, drop column previous_used_at, drop column tags, drop column session_id;
  ${['accounts', 'keys']
    .map(
      (table) => `
        alter table ${table} drop column access_revision;
        drop trigger ${table}_access on ${table};
        drop trigger ${table}_access_delete on ${table};
        drop trigger ${table}_access_truncate on ${table};`,
    )
    .join('')}
  create trigger accounts_access after insert on accounts execute function raise_access_revision();
  create trigger keys_access after insert on keys execute function raise_access_revision();
  drop index keys_usable;
  delete from settings where name = 'access_reload';
  ${['actor', 'action', 'subject'].map((column) => `drop index audit_${column};`).join('')}
  delete from migrations where name in
    ('0014_access_revisions', '0015_audit_indexes', '0021_strict_keys', '0024_previous_secrets', '0025_key_tags',
     '0028_playground_sessions', '0029_account_limits');`;

const OBJECTS = {
  sqlite: "select type || ' ' || name as name from sqlite_master order by 1",
  postgres: `
    select 'table or index ' || relname as name from pg_class where relnamespace = 'public'::regnamespace
    union all select 'trigger ' || tgname from pg_trigger where not tgisinternal
    union all select 'function ' || proname from pg_proc where pronamespace = 'public'::regnamespace
    union all select 'constraint ' || conname || ' ' || pg_get_constraintdef(oid) from pg_constraint
      where connamespace = 'public'::regnamespace
    order by 1`,
};
