import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { countRefusals, readRefusals, RefusalCounts } from '../../src/accounts/refusals.ts';
import { openDatabase, sqlitePath } from '../../src/database/database.ts';
import { DatabaseError } from '../../src/database/errors.ts';
import { ServiceError, type ErrorCode } from '../../src/core/errors.ts';
import { openLog, SILENT } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import { testDatabases, type TestDatabase } from '../support/servers.ts';

const MINUTE = 60_000;
const SINCE_EVER = { accountId: null, keyId: undefined, fromMs: 0, toMs: null };
const ALL = { ...SINCE_EVER, byHour: false, limit: 10_000 };
const zoe = { id: 'key_z', accountId: 'acct_z' };

function error(code: ErrorCode, param: string | null = null, message = 'No.'): ServiceError {
  return new ServiceError(code, message, { param });
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('refusals are counted by account, key, code, parameter and minute, with the last message', async () => {
      await using database = await kind.open();
      await using here = counts(database);
      await using other = counts(database);
      const { refusals } = here;
      refusals.record(zoe, error('invalid_value', 'messages[3].content', 'First.'));
      refusals.record(zoe, error('invalid_value', 'messages[12].content', 'Second.'));
      await refusals.flush();
      here.clock.now += MINUTE;
      other.clock.now = here.clock.now + 1;
      refusals.record(null, error('invalid_api_key'));
      other.refusals.record(zoe, error('invalid_value', 'messages[0].content', 'Third.'));
      await refusals.flush();
      await other.refusals.flush();
      const expected = {
        accountId: 'acct_z',
        keyId: 'key_z',
        code: 'invalid_value',
        param: 'messages[].content',
        count: 3,
        lastAt: other.clock.now,
        message: 'Third.',
      };
      const [own, anonymous] = await readRefusals(database, ALL);
      assert.deepEqual(own, expected);
      assert.deepEqual(anonymous?.accountId, null);
      assert.deepEqual(await readRefusals(database, { ...ALL, accountId: 'acct_z', keyId: 'key_z' }), [
        expected,
      ]);
      assert.deepEqual(await readRefusals(database, { ...ALL, accountId: 'acct_y' }), []);
      // All in the first two minutes of an hour, or around its end.
      const hours = await countRefusals(database, SINCE_EVER);
      assert.equal(
        hours.reduce((sum, { count }) => sum + count, 0),
        4,
      );
      assert.equal(hours[0]?.hourMs, Math.floor((here.clock.now - MINUTE) / (60 * MINUTE)) * 60 * MINUTE);
      const later = await readRefusals(database, { ...ALL, accountId: 'acct_z', fromMs: here.clock.now });
      assert.equal(later[0]?.count, 1);
    });

    test('refusals are counted in a period, and by hour', async () => {
      await using database = await kind.open();
      await using here = counts(database);
      const { refusals, clock } = here;
      const hour = Math.ceil(clock.now / (60 * MINUTE)) * 60 * MINUTE;
      for (const minute of [0, 59, 60, 125]) {
        clock.now = hour + minute * MINUTE + 1;
        refusals.record(zoe, error('queue_full', null, `At ${minute}.`));
        await refusals.flush();
      }
      const read = async (period: { fromMs?: number; toMs?: number | null }, byHour: boolean) =>
        (await readRefusals(database, { ...ALL, ...period, byHour })).map((row) => [row.count, row.message]);
      assert.deepEqual(await read({}, false), [[4, 'At 125.']]);
      assert.deepEqual(await read({}, true), [
        [1, 'At 125.'],
        [1, 'At 60.'],
        [2, 'At 59.'],
      ]);
      assert.deepEqual(await read({ fromMs: hour + 59 * MINUTE, toMs: hour + 61 * MINUTE }, true), [
        [1, 'At 60.'],
        [1, 'At 59.'],
      ]);
      // The end is rounded up to a minute, and not included.
      assert.deepEqual(await read({ toMs: hour + 60 * MINUTE }, false), [[2, 'At 59.']]);
      assert.deepEqual(await read({ toMs: hour + 60 * MINUTE + 1 }, false), [[3, 'At 60.']]);
      assert.deepEqual(await countRefusals(database, { ...SINCE_EVER, toMs: hour + 60 * MINUTE }), [
        { hourMs: hour, count: 2 },
      ]);
    });

    test('any number of refusals needs at most 101 rows per minute, and all refusals are counted', async () => {
      await using database = await kind.open();
      await fc.assert(
        fc.asyncProperty(
          fc.array(
            fc.tuple(
              fc.integer({ min: -1, max: 30 }),
              fc.string({ unit: 'binary' }),
              fc.string({ unit: 'binary' }),
            ),
            { minLength: 1, maxLength: 400 },
          ),
          async (requests) => {
            await using here = counts(database);
            await database.kysely.deleteFrom('refusals').execute();
            for (const [account, param, message] of requests) {
              const caller = account < 0 ? null : { id: `key_${account}`, accountId: `acct_${account}` };
              here.refusals.record(caller, error('unsupported_parameter', param, message));
            }
            await here.refusals.flush();
            const rows = await readRefusals(database, ALL);
            assert.ok(rows.length <= 101, String(rows.length));
            assert.equal(
              rows.reduce((sum, { count }) => sum + count, 0),
              requests.length,
            );
          },
        ),
        { numRuns: 30 },
      );
    });

    test('a report has the sums, the last time and the last message of each kind', async () => {
      await using database = await kind.open();
      const refused = fc.record({
        minutes: fc.integer({ min: 0, max: 2 }),
        account: fc.constantFrom('', 'acct_a', 'acct_b'),
        key: fc.constantFrom('key_1', 'key_2'),
        param: fc.constantFrom(null, 'model', 'messages'),
      });
      const bounds = fc.record({
        sinceMinutes: fc.integer({ min: 0, max: 10 }),
        limit: fc.integer({ min: 1, max: 4 }),
      });
      await fc.assert(
        fc.asyncProperty(
          fc.array(refused, { maxLength: 30 }),
          bounds,
          async (requests, { sinceMinutes, limit }) => {
            await database.kysely.deleteFrom('refusals').execute();
            await using here = counts(database);
            const fromMs = here.clock.now + sinceMinutes * MINUTE;
            const kinds = new Map<string, { count: number; lastAt: number; message: string }>();
            for (const [index, { minutes, account, key, param }] of requests.entries()) {
              here.clock.now += minutes * MINUTE + 1;
              const message = `Message ${index}.`;
              here.refusals.record(
                account === '' ? null : { id: key, accountId: account },
                error('invalid_value', param, message),
              );
              if (Math.floor(here.clock.now / MINUTE) < Math.floor(fromMs / MINUTE)) continue;
              const kindOf = [account === '' ? null : account, account === '' ? null : key, param];
              const name = JSON.stringify(kindOf);
              kinds.set(name, { count: (kinds.get(name)?.count ?? 0) + 1, lastAt: here.clock.now, message });
            }
            await here.refusals.flush();
            const listed = [...kinds].toSorted(([, a], [, b]) => b.lastAt - a.lastAt);
            for (const accountId of [null, 'acct_a']) {
              const rows = await readRefusals(database, { ...ALL, accountId, fromMs, limit });
              const expected = listed.filter(
                ([name]) => accountId === null || name.startsWith(`["${accountId}"`),
              );
              assert.deepEqual(
                rows.map((row) => [
                  JSON.stringify([row.accountId, row.keyId, row.param]),
                  { count: row.count, lastAt: row.lastAt, message: row.message },
                ]),
                expected.slice(0, limit),
              );
            }
          },
        ),
        { numRuns: 30 },
      );
    });

    test('one account with many kinds of refusals does not hide the refusals of others', async () => {
      await using database = await kind.open();
      await using here = counts(database);
      for (let i = 0; i < 500; i++) here.refusals.record(zoe, error('unsupported_parameter', `field_${i}`));
      here.refusals.record({ id: 'key_y', accountId: 'acct_y' }, error('model_not_found', 'model'));
      await here.refusals.flush();
      const rows = await readRefusals(database, ALL);
      assert.equal(rows.filter(({ accountId }) => accountId === 'acct_z').length, 21);
      assert.equal(rows.find(({ code }) => code === 'other')?.count, 480);
      assert.equal(rows.find(({ accountId }) => accountId === 'acct_y')?.code, 'model_not_found');
    });

    test('API keys in messages are removed', async () => {
      await using database = await kind.open();
      await using here = counts(database);
      here.refusals.record(
        null,
        error('unknown_url', null, `Unknown endpoint: GET /sk-sluice-${'x'.repeat(40)}.`),
      );
      await here.refusals.flush();
      assert.equal((await readRefusals(database, ALL))[0]?.message, 'Unknown endpoint: GET /sk-….');
    });

    test('counts are deleted after 7 days', async () => {
      await using database = await kind.open();
      await using here = counts(database);
      here.refusals.record(zoe, error('invalid_json'));
      await here.refusals.flush();
      here.clock.now += 7 * 24 * 60 * MINUTE;
      await here.refusals.oldCounts.run();
      assert.equal((await readRefusals(database, ALL)).length, 1);
      here.clock.now += MINUTE;
      await here.refusals.oldCounts.run();
      assert.deepEqual(await readRefusals(database, ALL), []);
    });

    test('while the database is unavailable, counts wait in bounded memory, and one warning is logged', async () => {
      await using database = await kind.open();
      const lines: string[] = [];
      const log = openLog('info', { write: (line) => void lines.push(line) });
      const away = { available: false };
      const background = new Proxy(database.background, {
        get(target, name) {
          if (name === 'insertInto' && !away.available) throw new DatabaseError('full', 'The disk is full.');
          const value: unknown = Reflect.get(target, name);
          return typeof value === 'function' ? value.bind(target) : value;
        },
      });
      const clock = { now: Date.UTC(2026, 10, 23) };
      await using refusals = new RefusalCounts({ background }, log, () => clock.now);
      for (let minute = 0; minute < 60; minute++) {
        clock.now += MINUTE;
        for (let i = 0; i < 200; i++)
          refusals.record({ id: `key_${i}`, accountId: `acct_${i}` }, error('invalid_json'));
        await refusals.flush();
      }
      assert.equal(lines.length, 1, lines.join(''));
      away.available = true;
      await refusals.flush();
      const rows = await database.kysely.selectFrom('refusals').select('count').execute();
      assert.equal(rows.length, 2000);
    });
  });
}

test('counts are saved between the writes of other connections on SQLite, without a warning', async () => {
  await using folder = await temporaryFolder();
  await using database = await openDatabase({ home: folder.path, url: null });
  const lines: string[] = [];
  await using refusals = new RefusalCounts(
    database,
    openLog('info', { write: (line) => void lines.push(line) }),
  );
  using other = new DatabaseSync(sqlitePath(folder.path), { timeout: 10_000 });
  other.exec('begin immediate');
  refusals.record(zoe, error('invalid_json'));
  const saved = refusals.flush();
  // The first attempt fails.
  await new Promise(setImmediate);
  other.exec('rollback');
  await saved;
  assert.deepEqual(lines, []);
  assert.equal((await readRefusals(database, ALL)).length, 1);
});

test('a lock that stays is one warning with the message only', async () => {
  await using folder = await temporaryFolder();
  await using database = await openDatabase({ home: folder.path, url: null });
  const lines: string[] = [];
  await using refusals = new RefusalCounts(
    database,
    openLog('info', { write: (line) => void lines.push(line) }),
  );
  using other = new DatabaseSync(sqlitePath(folder.path), { timeout: 10_000 });
  other.exec('begin immediate');
  refusals.record(zoe, error('invalid_json'));
  await refusals.flush();
  const [first, ...more] = lines.map((line) => JSON.parse(line) as { error: string });
  assert.deepEqual(more, []);
  assert.match(first?.error ?? '', /^The database .*sluice\.db is locked by another connection\.$/);
  other.exec('rollback');
});

function counts(database: TestDatabase) {
  const clock = { now: Date.UTC(2026, 10, 23) };
  const refusals = new RefusalCounts(database, SILENT, () => clock.now);
  return { clock, refusals, [Symbol.asyncDispose]: () => refusals[Symbol.asyncDispose]() };
}
