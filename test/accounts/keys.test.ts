import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test, type TestContext } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import * as fc from '../support/fast-check.ts';
import type {
  KyselyPlugin,
  PluginTransformQueryArgs,
  PluginTransformResultArgs,
  QueryResult,
  RootOperationNode,
  UnknownRow,
} from 'kysely';
import { changeAccount, createAccount } from '../../src/accounts/accounts.ts';
import { SERVICE } from '../../src/accounts/audit.ts';
import { createKeyText, hashKey } from '../../src/accounts/key-format.ts';
import { keyStatus, createKey, getKey, listKeyPage, revokeKey } from '../../src/accounts/key-table.ts';
import type * as clocks from '../../src/accounts/clock.ts';
import { KeyStore, type AuthenticatedKey } from '../../src/accounts/keys.ts';
import { openDatabase, type Database } from '../../src/database/database.ts';
import { DatabaseError } from '../../src/database/errors.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { SILENT, type Log } from '../../src/support/log.ts';

/** Clocks that only the test moves. */
class Clock implements clocks.Clock {
  unix = Date.now();
  up = 0;
  now = () => this.unix;
  elapsed = () => this.up;
}

/** Delays the result of one query until it is released. */
class DelayedResults implements KyselyPlugin {
  /** Resolves when the delayed result has been read from the database. */
  delayed: Promise<void> = Promise.resolve();
  #hold: (() => Promise<void>) | null = null;

  /** Returns a function that releases the result. */
  holdNext(): () => void {
    const read = Promise.withResolvers<void>();
    const released = Promise.withResolvers<void>();
    this.delayed = read.promise;
    this.#hold = () => {
      this.#hold = null;
      read.resolve();
      return released.promise;
    };
    return released.resolve;
  }

  transformQuery({ node }: PluginTransformQueryArgs): RootOperationNode {
    return node;
  }

  async transformResult({ result }: PluginTransformResultArgs): Promise<QueryResult<UnknownRow>> {
    await this.#hold?.();
    return result;
  }
}

function folder(context: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'sluice-keys-'));
  context.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

const refused =
  (param: string, code = 'invalid_value') =>
  (error: unknown) => {
    assert.ok(error instanceof ServiceError, String(error));
    assert.deepEqual([error.code, error.param], [code, param]);
    return true;
  };

async function listKeys(database: Database) {
  return (await listKeyPage(database, {})).items;
}

test('a created key is accepted only if it is complete and sent with the Bearer scheme', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  const { key, record } = await keys.create({ name: ' laptop ' });
  const text = key.reveal();
  assert.equal(record.name, 'laptop');
  for (const header of [`Bearer ${text}`, `bearer ${text}`, `BEARER  ${text} `]) {
    const who = await keys.authenticate(header);
    assert.deepEqual([who?.id, who?.accountId, who?.kind], [record.id, 'default', 'caller']);
  }
  const never = createKeyText().reveal();
  const wrong = [
    undefined,
    '',
    text,
    `Basic ${text}`,
    `Bearer${text}`,
    'Bearer ',
    'Bearer x',
    `Bearer ${text}x`,
  ];
  for (const header of [
    ...wrong,
    `Bearer ${text} ${text}`,
    `Bearer ${never}`,
    `Bearer ${text.slice(0, -1)}`,
  ]) {
    assert.equal(await keys.authenticate(header), null, String(header));
  }
});

test('an account that another process closes is reported once, after its keys are invalid, with their scope', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  const closed: string[] = [];
  let caller: AuthenticatedKey | null = null;
  let isLive: boolean | null = null;
  await using keys = await KeyStore.open(database, SILENT, {
    maxStaleMs: 5000,
    afterRefresh: (known) => (isLive = caller && known.current(caller) !== null),
    onClosed: (cacheScope) => closed.push(`${cacheScope} ${isLive}`),
  });
  const { id: accountId } = await createAccount(database, { name: 'one' }, SERVICE);
  await createAccount(database, { name: 'other' }, SERVICE);
  const { key } = await keys.create({ name: 'a', accountId });
  caller = await keys.authenticate(`Bearer ${key.reveal()}`);
  await keys.refresh();
  assert.deepEqual(closed, []);
  await changeAccount(database, accountId, { status: 'closed' }, SERVICE);
  await keys.refresh();
  await keys.refresh();
  assert.deepEqual(closed, [`${caller?.cacheScope} false`]);
});

test('a random header is refused without throwing', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  await keys.create({ name: 'a' });
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        fc.string(),
        fc.tuple(fc.constantFrom('Bearer ', 'Bearer sk-sluice-'), fc.string()).map((parts) => parts.join('')),
      ),
      async (header) => {
        assert.equal(await keys.authenticate(header), null);
      },
    ),
  );
});

test('the database contains only the hash and the visible parts of a key', async (t) => {
  const home = folder(t);
  {
    await using database = await openDatabase({ home, url: null });
    await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
    const { key } = await keys.create({ name: 'a', kind: 'admin', expiresAt: Date.now() + 1e6 });
    const [record] = await listKeys(database);
    assert.equal(record?.kind, 'admin');
    assert.equal(record?.prefix, key.reveal().slice(0, 14));
    assert.deepEqual([record?.revoked_at, record?.last_used_at], [null, null]);
    const hidden = key.reveal().slice(14, -4);
    for (const file of ['sluice.db', 'sluice.db-wal']) {
      assert.ok(!readFileSync(join(home, file)).includes(hidden), file);
    }
  }
});

test('a key that is revoked during a refresh is refused after the next one', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using elsewhere = await openDatabase({ home, url: null });
  const results = new DelayedResults();
  const kysely = database.kysely.withPlugin(results);
  await using keys = await KeyStore.open({ ...database, kysely }, SILENT, { maxStaleMs: 5000 });
  const { key, record } = await createKey(elsewhere, { name: 'a' });
  const release = results.holdNext();
  const earlier = keys.refresh();
  await results.delayed;
  await revokeKey(elsewhere, record.id);
  const later = keys.refresh();
  release();
  await earlier;
  await later;
  assert.equal(await keys.authenticate(`Bearer ${key.reveal()}`), null);
});

test('a key that is created and used during a slow refresh stays live when the refresh ends', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using elsewhere = await openDatabase({ home, url: null });
  const results = new DelayedResults();
  const kysely = database.kysely.withPlugin(results);
  let used: AuthenticatedKey | null = null;
  const ended: string[] = [];
  await using keys = await KeyStore.open({ ...database, kysely }, SILENT, {
    maxStaleMs: 5000,
    afterRefresh: (store) => {
      if (used !== null && store.current(used) === null) ended.push(used.id);
    },
  });
  await createKey(elsewhere, { name: 'a' });
  const release = results.holdNext();
  const slow = keys.refresh();
  await results.delayed;
  const { key, record } = await createKey(elsewhere, { name: 'b' });
  const authenticated = Promise.resolve(keys.authenticate(`Bearer ${key.reveal()}`)).then(
    (found) => (used = found),
  );
  await setImmediate();
  release();
  await slow;
  assert.equal((await authenticated)?.id, record.id);
  assert.deepEqual(ended, []);
});

test('a change reads only the keys that it affects, and expired keys are not read', async (t) => {
  const clock = new Clock();
  await using database = await openDatabase({ home: folder(t), url: null });
  let rows = 0;
  let longest = 0;
  const kysely = database.kysely.withPlugin({
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      // Only keys have a hash.
      const { length } = result.rows.filter((row) => 'hash' in row);
      rows += length;
      longest = Math.max(longest, length);
      return result;
    },
  });
  const open = () => KeyStore.open({ ...database, kysely }, SILENT, { maxStaleMs: 5000, clock });
  const all = Array.from({ length: 1200 }, (_, index) => ({
    id: `key_${index}`,
    account_id: index < 3 ? 'small' : 'default',
    kind: 'caller' as const,
    name: 'a',
    hash: hashKey(String(index)),
    prefix: 'sk-sluice-abcd',
    last_four: 'wxyz',
    created_at: clock.unix,
    expires_at: index < 1100 ? null : clock.unix - 7_200_000,
  }));
  await database.kysely
    .insertInto('accounts')
    .values({ id: 'small', name: 'small', status: 'active', created_at: 0 })
    .execute();
  for (let at = 0; at < all.length; at += 100) {
    await database.kysely
      .insertInto('keys')
      .values(all.slice(at, at + 100))
      .execute();
  }
  await using keys = await open();
  assert.equal(rows, 1100);
  const cost = async (change: () => Promise<unknown>) => {
    rows = 0;
    await change();
    await keys.refresh();
    return rows;
  };
  const rename = (id: string) => database.kysely.updateTable('keys').set({ name: 'b' }).where('id', '=', id);
  assert.equal(await cost(() => rename('key_7').execute()), 1);
  assert.equal(await cost(() => createKey(database, { name: 'new' })), 1);
  assert.equal(await cost(() => revokeKey(database, 'key_8')), 1);
  const suspend = changeAccount(database, 'small', { status: 'suspended' }, SERVICE);
  assert.equal(await cost(() => suspend), 3);
  assert.equal(await cost(async () => {}), 0);
  const deleted = database.kysely.deleteFrom('keys').where('id', '=', 'key_1199');
  assert.equal(await cost(() => deleted.execute()), 0, 'an expired key is deleted');
  assert.equal(await cost(() => changeAccount(database, 'default', { name: 'b' }, SERVICE)), 1097);
  assert.equal(longest, 500);
});

test('an expired key works again when the clock is set back, even if it was not in memory', async (t) => {
  const clock = new Clock();
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  const expiresAt = clock.unix + 60_000;
  const { key } = await createKey(database, { name: 'a', expiresAt });
  const header = `Bearer ${key.reveal()}`;
  clock.unix += 86_400_000;
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000, clock });
  assert.equal(await keys.authenticate(header), null);
  clock.unix -= 86_400_000;
  assert.notEqual(await keys.authenticate(header), null);
  clock.unix += 86_400_000;
  await keys.deleteExpired();
  assert.equal(await keys.authenticate(header), null);
  clock.unix -= 86_400_000;
  assert.notEqual(await keys.authenticate(header), null);
});

test('a key created by another process works immediately; once it is revoked there, the next poll removes it', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using elsewhere = await openDatabase({ home, url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  const { key, record } = await createKey(elsewhere, { name: 'a' });
  const header = `Bearer ${key.reveal()}`;
  assert.equal((await keys.authenticate(header))?.id, record.id);
  await revokeKey(elsewhere, record.id);
  await keys.refresh();
  assert.equal(await keys.authenticate(header), null);
});

test('unknown keys do not cause table reads until something is committed', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using elsewhere = await openDatabase({ home, url: null });
  let reads = 0;
  const counted: Database = {
    ...database,
    kysely: database.kysely.withPlugin({
      transformQuery({ node }) {
        reads += 1;
        return node;
      },
      transformResult: async ({ result }) => result,
    }),
    accessRevision: () => database.accessRevision(),
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  await using keys = await KeyStore.open(counted, SILENT, { maxStaleMs: 5000 });
  reads = 0;
  for (let index = 0; index < 100; index += 1) {
    assert.equal(await keys.authenticate(`Bearer ${createKeyText().reveal()}`), null);
    assert.equal(await keys.authenticate(`Bearer sk-sluice-${'x'.repeat(49)}`), null);
  }
  assert.equal(reads, 0);
  await createKey(elsewhere, { name: 'a' });
  assert.equal(await keys.authenticate(`Bearer ${createKeyText().reveal()}`), null);
  assert.ok(reads > 0);
  reads = 0;
  assert.equal(await keys.authenticate(`Bearer ${createKeyText().reveal()}`), null);
  assert.equal(reads, 0);
  // Text without a valid checksum is not looked up.
  await createKey(elsewhere, { name: 'b' });
  assert.equal(await keys.authenticate(`Bearer sk-sluice-${'x'.repeat(49)}`), null);
  assert.equal(reads, 0);
});

test('keys that are looked up at the same time share the queries of the database', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using elsewhere = await openDatabase({ home, url: null });
  let reads = 0;
  const counted: Database = {
    ...database,
    accessRevision: async () => {
      reads += 1;
      await setImmediate();
      return await database.accessRevision();
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  await using keys = await KeyStore.open(counted, SILENT, { maxStaleMs: 5000 });
  const { key, record } = await createKey(elsewhere, { name: 'a' });
  reads = 0;
  const unknown = Array.from({ length: 100 }, async () =>
    keys.authenticate(`Bearer ${createKeyText().reveal()}`),
  );
  const found = await Promise.all([...unknown, keys.authenticate(`Bearer ${key.reveal()}`)]);
  assert.deepEqual([found.slice(0, -1).filter((one) => one !== null), found.at(-1)?.id], [[], record.id]);
  assert.ok(reads <= 2, `${reads} reads`);
});

test('polls run automatically', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using elsewhere = await openDatabase({ home, url: null });
  const reloaded = Promise.withResolvers<void>();
  let asks = -Infinity;
  const watched: Database = {
    ...database,
    accessRevision: () => {
      asks += 1;
      // Polls do not overlap, so the first poll after the change has ended when the second starts.
      if (asks === 2) reloaded.resolve();
      return database.accessRevision();
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  await using keys = await KeyStore.open(watched, SILENT, { maxStaleMs: 5000 });
  const { key } = await createKey(elsewhere, { name: 'a' });
  asks = 0;
  // The store's timers do not keep a process alive, so the test must.
  const alive = setInterval(() => {}, 1000);
  await reloaded.promise.finally(() => clearInterval(alive));
  assert.notEqual(await keys.authenticate(`Bearer ${key.reveal()}`), null);
});

test('a key is refused from the millisecond it expires, without a poll', async (t) => {
  const clock = new Clock();
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000, clock });
  const expiresAt = clock.unix + 60_000;
  const { key, record } = await keys.create({ name: 'a', expiresAt });
  clock.unix = expiresAt - 1;
  assert.notEqual(await keys.authenticate(`Bearer ${key.reveal()}`), null);
  clock.unix = expiresAt;
  assert.equal(await keys.authenticate(`Bearer ${key.reveal()}`), null);
  assert.deepEqual([keyStatus(record, expiresAt - 1), keyStatus(record, expiresAt)], ['live', 'expired']);
});

test('the keys of a suspended account are refused', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  const { key } = await keys.create({ name: 'a' });
  await database.kysely.updateTable('accounts').set({ status: 'suspended' }).execute();
  await keys.refresh();
  assert.equal(await keys.authenticate(`Bearer ${key.reveal()}`), null);
});

function cannotBeChecked(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'storage_unavailable' && error.retryAfterMs === 1000;
}

test('keys are refused with a 503 once the database has been unreadable for 5 s, until it is readable', async (t) => {
  const clock = new Clock();
  const lines: string[] = [];
  const log: Log = { ...SILENT, error: (line) => void lines.push(line) };
  await using database = await openDatabase({ home: folder(t), url: null });
  let broken = false;
  const breakable: Database = {
    ...database,
    accessRevision: () => {
      if (broken) throw new DatabaseError('unwritable', 'gone');
      return database.accessRevision();
    },
    [Symbol.asyncDispose]: () => Promise.resolve(),
  };
  await using keys = await KeyStore.open(breakable, log, { maxStaleMs: 5000, clock });
  const { key } = await keys.create({ name: 'a' });
  const header = `Bearer ${key.reveal()}`;
  broken = true;
  await assert.rejects(keys.refresh(), DatabaseError);
  assert.equal(await keys.authenticate('Bearer x'), null);
  await assert.rejects(async () => keys.authenticate(`Bearer ${createKeyText().reveal()}`), cannotBeChecked);
  clock.up = 5000;
  assert.notEqual(await keys.authenticate(header), null);
  clock.up = 5001;
  assert.equal(keys.fresh, false);
  for (const any of [header, undefined]) {
    await assert.rejects(async () => keys.authenticate(any), cannotBeChecked);
  }
  broken = false;
  await keys.refresh();
  assert.notEqual(await keys.authenticate(header), null);
});

test('the last use is written before keys are read, but at most once per second', async (t) => {
  const clock = new Clock();
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000, clock });
  const { key } = await keys.create({ name: 'a' });
  const lastUse = async () => {
    await keys.refreshLastUsed();
    return (await listKeys(database))[0]?.last_used_at;
  };
  await keys.authenticate(`Bearer ${key.reveal()}`);
  const first = clock.unix;
  assert.equal(await lastUse(), first);
  clock.unix += 999;
  clock.up += 999;
  await keys.authenticate(`Bearer ${key.reveal()}`);
  assert.equal(await lastUse(), first);
  clock.up += 1;
  assert.equal(await lastUse(), clock.unix);
});

test('the last use is written in batches and when the store is closed; a locked database only delays it', async (t) => {
  const home = folder(t);
  const clock = new Clock();
  await using database = await openDatabase({ home, url: null });
  {
    await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000, clock });
    const { key, record } = await keys.create({ name: 'a' });
    const lastUse = async () => {
      const {
        last_used_at: at,
        last_used_ip: ip,
        last_used_client: client,
      } = await getKey(database, record.id);
      return [at, ip, client];
    };
    await keys.create({ name: 'unused' });
    await keys.authenticate(`Bearer ${key.reveal()}`, { ip: '192.0.2.7', client: 'curl' });
    const other = new DatabaseSync(join(home, 'sluice.db'), { timeout: 10_000 });
    other.exec('begin immediate');
    await keys.writeLastUsed();
    assert.deepEqual(await lastUse(), [null, null, null]);
    other.exec('rollback');
    other.close();
    await keys.writeLastUsed();
    assert.deepEqual(await lastUse(), [clock.unix, '192.0.2.7', 'curl']);
    clock.unix += 1000;
    await keys.authenticate(`Bearer ${key.reveal()}`, { ip: null, client: 'HTTPX' });
  }
  const rows = await database.kysely
    .selectFrom('keys')
    .select(['last_used_at', 'last_used_ip', 'last_used_client'])
    .orderBy('name')
    .execute();
  assert.deepEqual(
    rows.map((row) => [row.last_used_at, row.last_used_ip, row.last_used_client]),
    [
      [clock.unix, '192.0.2.7', 'HTTPX'],
      [null, null, null],
    ],
    'a use from an unknown address keeps the last address',
  );
});

test('a key can be revoked repeatedly, by ID, prefix or text; for an unknown key, null is returned', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  for (const name of ['id', 'prefix', 'key'] as const) {
    const { key, record } = await keys.create({ name });
    const named = { id: record.id, prefix: record.prefix, key: key.reveal() }[name];
    const revoked = await keys.revoke(named);
    assert.equal(revoked?.id, record.id);
    assert.equal(await keys.authenticate(`Bearer ${key.reveal()}`), null);
    assert.deepEqual({ ...(await keys.revoke(named)) }, { ...revoked });
  }
  for (const named of ['', 'key_', 'sk-sluice-', createKeyText().reveal()]) {
    assert.equal(await keys.revoke(named), null);
  }
  assert.equal((await listKeys(database)).length, 3);
});

test('a prefix that several keys share revokes none of them', async (t) => {
  const home = folder(t);
  await using database = await openDatabase({ home, url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  const { record } = await keys.create({ name: 'a' });
  const { record: other } = await keys.create({ name: 'b' });
  const raw = new DatabaseSync(join(home, 'sluice.db'));
  raw.prepare('update keys set prefix = ? where id = ?').run(record.prefix, other.id);
  raw.close();
  await assert.rejects(keys.revoke(record.prefix), refused('id'));
  assert.deepEqual(
    (await listKeys(database)).map((key) => key.revoked_at),
    [null, null],
  );
});

test('no key is created with an invalid name or expiry, or for an unknown account', async (t) => {
  await using database = await openDatabase({ home: folder(t), url: null });
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  for (const name of ['', '  ', 'x'.repeat(101), 'a\nb', 'a\u001b[2J', 'a\u202eb', 'a\u2028b', '\ud800']) {
    await assert.rejects(keys.create({ name }), refused('name'));
  }
  await assert.rejects(keys.create({ name: 'a', expiresAt: Number.NaN }), TypeError);
  const unknownAccount = keys.create({ name: 'a', accountId: 'nobody' });
  await assert.rejects(unknownAccount, refused('account_id', 'not_found'));
  assert.equal((await listKeys(database)).length, 0);
  assert.equal((await keys.create({ name: 'Zoë’s laptop 💻' })).record.name, 'Zoë’s laptop 💻');
});

test('cache scopes differ by account and data directory, and survive restarts', async (t) => {
  const home = folder(t);
  const scopes: string[] = [];
  for (const directory of [home, home, folder(t)]) {
    await using database = await openDatabase({ home: directory, url: null });
    await database.kysely
      .insertInto('accounts')
      .values({ id: 'other', name: 'other', status: 'active', created_at: 0 })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
    for (const accountId of ['default', 'default', 'other']) {
      const { key } = await keys.create({ name: 'a', accountId });
      scopes.push((await keys.authenticate(`Bearer ${key.reveal()}`))?.cacheScope ?? '');
    }
  }
  const [first = '', same, other, ...later] = scopes;
  assert.match(first, /^[\w-]{43}$/);
  assert.equal(same, first);
  assert.notEqual(other, first);
  assert.deepEqual(later.slice(0, 3), [first, first, other]);
  assert.notEqual(later[3], first);
});

test('a damaged row is one key that does not work, and the others do', async (context) => {
  await using database = await openDatabase({ home: folder(context), url: null });
  const damage = ({ record: { id } }: typeof good) =>
    database.kysely.updateTable('keys').set({ limits: 'not json' }).where('id', '=', id).execute();
  const good = await createKey(database, { name: 'good' });
  const damaged = await createKey(database, { name: 'damaged' });
  await damage(damaged);
  await using keys = await KeyStore.open(database, SILENT, { maxStaleMs: 5000 });
  const works = async ({ key }: typeof good) => (await keys.authenticate(`Bearer ${key.reveal()}`)) !== null;
  assert.deepEqual([await works(good), await works(damaged)], [true, false]);
  const later = await createKey(database, { name: 'later' });
  await damage(later);
  assert.deepEqual([await works(good), await works(later)], [true, false]);
});
