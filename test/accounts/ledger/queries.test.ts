import assert from 'node:assert/strict';
import { randomUUIDv7 } from 'node:crypto';
import { describe, test } from 'node:test';
import { sql } from 'kysely';
import { DAY_MS, dayOf } from '../../../src/accounts/ledger/days.ts';
import { openLimitHistory } from '../../../src/accounts/ledger/history.ts';
import { readHistory } from '../../../src/accounts/limits/history.ts';
import { usdText } from '../../../src/accounts/ledger/cost.ts';
import { withNames, withUsageNames } from '../../../src/accounts/names.ts';
import {
  exportRequests,
  readRequest,
  readRequests,
  readRequestsOf,
} from '../../../src/accounts/ledger/requests.ts';
import { createKey } from '../../../src/accounts/key-table.ts';
import { createUser } from '../../../src/accounts/users.ts';
import { receiptJson } from '../../../src/http/api/receipt-json.ts';
import type { HistoryEntry } from '../../../src/accounts/limits/limiter.ts';
import { firstIdAt } from '../../../src/database/partitions.ts';
import { readUsagePage, type UsageJson, type UsageQuery } from '../../../src/accounts/ledger/usage.ts';
import type { Ledger, OpenedRow, Settlement } from '../../../src/accounts/ledger/ledger.ts';
import { testDatabases, type TestDatabase } from '../../support/servers.ts';
import { counts, open, newRow, settlement } from './fixture.ts';

async function settled(ledger: Ledger, opened: Partial<OpenedRow> = {}, ended: Partial<Settlement> = {}) {
  const one = newRow(opened);
  await ledger.open(one, counts());
  assert.equal(await ledger.settle(one.id, settlement(ended)), 'settled');
  return one;
}

async function readUsage(...[database, query]: Parameters<typeof readUsagePage>) {
  return (await readUsagePage(database, query)).rows;
}

/** Reads all pages of a usage query. */
async function readPages(
  database: TestDatabase,
  query: UsageQuery,
  maxRows?: number,
): Promise<UsageJson[][]> {
  const pages: UsageJson[][] = [];
  let cursor: string | null = null;
  do {
    const page: Awaited<ReturnType<typeof readUsagePage>> = await readUsagePage(
      database,
      { ...query, cursor },
      { maxRows },
    );
    pages.push(page.rows);
    cursor = page.nextCursor;
  } while (cursor !== null);
  return pages;
}

/** The dimensions of a row as text. */
const nameOf = ({ hour, day, model, key_id, account_id, client, member_id, tag }: UsageJson) =>
  [hour, day, model, key_id, account_id, client, member_id, tag].join(' ');

/** Adds a request of each of many keys of `acct_1` to the roll-ups of a day. */
async function addUsage(
  { kysely }: TestDatabase,
  { day, keys, name = 'key_many', tokens = 1 }: { day: number; keys: number; name?: string; tokens?: number },
): Promise<void> {
  await sql`
    insert into usage_days (account_id, day, model, key_id, requests, errors, aborted, interrupted, prompt_tokens,
      cached_tokens, completion_tokens, reasoning_tokens, billed_tokens, cost_pico)
    with recursive numbers (number) as (
      select 0 union all select number + 1 from numbers where number < ${sql.lit(keys - 1)}
    )
    select 'acct_1', ${sql.lit(day)}, 'm/0', ${sql.lit(`${name}_`)} || number, 1, 0, 0, 0, ${sql.lit(tokens)}, 0, 0, 0, 2, 3
    from numbers`.execute(kysely);
}

/** Converts USD to pico-dollars. */
function picoOf(usd: string): bigint {
  const [whole = '', fraction = ''] = usd.split('.');
  return BigInt(whole + fraction.padEnd(12, '0'));
}

/** Sums the usage that counts in a window. */
function usageIn(
  entries: readonly HistoryEntry[],
  window: 'minute' | 'day' | 'month',
  state: HistoryEntry['state'] = 'settled',
) {
  const sum = { requests: 0, tokens: 0, pico: 0n };
  for (const entry of entries) {
    if (entry.state !== state || !entry.windows.includes(window)) continue;
    sum.requests += entry.requests;
    sum.tokens += entry.tokens;
    sum.pico += entry.pico;
  }
  return sum;
}

/** The start of the 15th of next month. Always has a partition, also for the day before, unlike the past. */
function midNextMonth(): number {
  const now = new Date();
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 15);
}

for (const databases of testDatabases()) {
  describe(`ledger queries on ${databases.name}`, () => {
    test('usage by any dimension is read in pages, whose rows add up to the total', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const noon = midNextMonth() + DAY_MS / 2;
      const day = dayOf(noon);
      for (let index = 0; index < 12; index++) {
        const startedAt = noon + Math.floor(index / 3) * DAY_MS;
        const ended = { firstTokenAt: startedAt + 10, endedAt: startedAt + 500 };
        const id = firstIdAt(startedAt + index);
        const client = [null, 'curl', 'Unrecognized'][index % 3] ?? null;
        await settled(
          ledger,
          { id, startedAt, model: `m/${index % 3}`, keyId: `key_${index}`, client },
          ended,
        );
      }
      // Many roll-ups in a day, so that a day has several pages, and several days are one query.
      await addUsage(database, { day, keys: 300 });
      await addUsage(database, { day: day + 1, keys: 300 });
      const query = { fromDay: day, toDay: day + 4, accountId: 'acct_1' };
      const [total] = await readUsage(database, { ...query, by: [] });
      const groups: UsageQuery['by'][] = [
        ['key'],
        ['key', 'model'],
        ['model'],
        ['account', 'key'],
        ['client'],
        ['client', 'key'],
        ['day', 'client'],
        ['client', 'hour'],
        ['member'],
        ['tag', 'key'],
        ['day', 'tag', 'client'],
        ['hour', 'member'],
        ['day'],
        ['key', 'day'],
        ['day', 'model', 'key'],
        ['key', 'hour'],
        ['hour', 'day', 'model'],
      ];
      for (const by of groups) {
        // Usage by hour is read from requests, which the added roll-ups do not have.
        const [expected, size] = by.includes('hour') ? [12, 2] : [total?.requests, 50];
        const pages = await readPages(database, { ...query, by }, size);
        const rows = pages.flat();
        assert.ok(
          pages.every(({ length }) => length <= size),
          String(by),
        );
        assert.equal(new Set(rows.map((row) => nameOf(row))).size, rows.length, String(by));
        assert.equal(
          rows.reduce((sum, { requests }) => sum + requests, 0),
          expected,
          String(by),
        );
        const whole = await readUsagePage(database, { ...query, by }, { maxRows: 10_000 });
        assert.equal(whole.nextCursor, null);
        const ordered = (all: UsageJson[]) => all.toSorted((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
        assert.deepEqual(ordered(rows), ordered(whole.rows));
      }
    });

    test('a page of usage has at most 5,000 of 12,000 keys', async () => {
      await using database = await databases.open();
      await addUsage(database, { day: 20_000, keys: 12_000 });
      await addUsage(database, { day: 20_001, keys: 12_000 });
      const query = { fromDay: 20_000, toDay: 20_002 };
      const byKey = await readPages(database, { ...query, by: ['key'] });
      assert.deepEqual(
        byKey.map(({ length }) => length),
        [5000, 5000, 2000],
      );
      assert.ok(byKey.flat().every(({ requests }) => requests === 2));
      const byDay = await readPages(database, { ...query, by: ['day', 'key'] });
      assert.deepEqual(
        byDay.map(({ length }) => length),
        [5000, 5000, 5000, 5000, 4000],
      );
    });

    test('the groups with the most tokens come first if only the largest are requested', async () => {
      await using database = await databases.open();
      await addUsage(database, { day: 20_000, keys: 3000 });
      for (const [day, key, tokens] of [
        [20_000, 'key_large', 30],
        [20_001, 'key_large', 30],
        [20_000, 'key_larger', 50],
        [20_001, 'key_larger', 50],
        [20_001, 'key_medium', 40],
      ] as const) {
        await addUsage(database, { day, keys: 1, name: key, tokens });
      }
      const query = { fromDay: 20_000, toDay: 20_002, by: ['key'] as const };
      const { rows, nextCursor } = await readUsagePage(database, { ...query, top: 3 });
      assert.deepEqual(
        rows.map(({ key_id, requests, prompt_tokens }) => [key_id, requests, prompt_tokens]),
        [
          ['key_larger_0', 2, 100],
          ['key_large_0', 2, 60],
          ['key_medium_0', 1, 40],
        ],
      );
      assert.equal(nextCursor, null);
      const pairs = await readUsagePage(database, { ...query, by: ['model', 'key'], top: 1 });
      assert.deepEqual(
        pairs.rows.map(({ key_id, model }) => [key_id, model]),
        [['key_larger_0', 'm/0']],
      );
      assert.deepEqual((await readUsagePage(database, { ...query, accountId: 'acct_2', top: 3 })).rows, []);
    });

    test('reports of usage take turns, so that another query waits for one of them', async () => {
      await using database = await databases.open();
      let [running, most] = [0, 0];
      const reports = database.reports.withPlugin({
        transformQuery: ({ node }) => {
          most = Math.max(most, ++running);
          return node;
        },
        transformResult: async ({ result }) => {
          running--;
          return result;
        },
      });
      const query = { by: ['hour'] as const, fromDay: 20_000, toDay: 20_001 };
      await Promise.all(Array.from({ length: 4 }, () => readUsagePage({ ...database, reports }, query)));
      assert.equal(most, 1);
    });

    test('a report stops when its caller disconnects', async () => {
      await using database = await databases.open();
      const signal = AbortSignal.abort(new Error('disconnected'));
      const query = { by: ['hour'] as const, fromDay: 20_000, toDay: 20_007 };
      await assert.rejects(readUsagePage(database, query, { signal }), /disconnected/);
    });

    test('usage older than an hour is not read request by request', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const now = midNextMonth();
      for (const startedAt of [now - 7_200_000, now])
        await settled(ledger, { id: firstIdAt(startedAt), startedAt });
      const entries = await readHistory(
        openLimitHistory(database),
        'acct_1',
        [null],
        now,
        69 * 86_400_000,
        [],
      );
      assert.equal(usageIn(entries, 'minute').requests, 1);
    });

    test('usage is grouped by the requested dimensions, for one account or all, by whole days', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const noon = Date.UTC(2026, 4, 31, 12);
      const day = dayOf(noon);
      await settled(ledger, { startedAt: noon, model: 'a/a' });
      await settled(ledger, { startedAt: noon, model: 'b/b', keyId: 'key_2' });
      await settled(ledger, { startedAt: noon + 86_400_000, model: 'a/a' });
      await settled(ledger, { startedAt: noon, model: 'a/a', accountId: 'acct_2' });
      const cost = 10n * 150_000n + 5n * 600_000n;
      const usd = usdText(cost);
      const query = { fromDay: day, toDay: day + 1, accountId: 'acct_1' };
      const byModel = await readUsage(database, { ...query, by: ['model'] });
      assert.deepEqual(
        byModel.map(({ model, requests, cost_usd, day: none }) => [model, requests, cost_usd, none]),
        [
          ['a/a', 1, usd, null],
          ['b/b', 1, usd, null],
        ],
      );
      const byDay = await readUsage(database, { ...query, toDay: day + 2, by: ['day', 'key'] });
      assert.deepEqual(
        byDay.map(({ day: one, key_id, billed_tokens }) => [one, key_id, billed_tokens]),
        [
          ['2026-05-31', 'key_1', 15],
          ['2026-05-31', 'key_2', 15],
          ['2026-06-01', 'key_1', 15],
        ],
      );
      const [all] = await readUsage(database, { by: [], fromDay: day, toDay: day + 2 });
      assert.equal(all?.requests, 4);
      assert.equal(all?.cost_usd, usdText(4n * cost));
      const byAccount = await readUsage(database, { by: ['account'], fromDay: day, toDay: day + 2 });
      assert.deepEqual(
        byAccount.map(({ account_id, requests }) => [account_id, requests]),
        [
          ['acct_1', 3],
          ['acct_2', 1],
        ],
      );
    });

    test('usage by member and by tag has the users who created the keys, and each tag of a key', async () => {
      await using database = await databases.open();
      const actor = (id: string) => ({ id, ip: null });
      const idOf = async (by: string, tags: string[]) => {
        const { record } = await createKey(database, { name: 'app', tags }, actor(by));
        return record.id;
      };
      const zoe = { name: 'Zoë', email: 'zoe@acme.example' };
      const { id: user } = await createUser(database, zoe, actor('service'));
      const keys = [
        await idOf(`user:${user}`, ['production', 'team:"a"\\b']),
        await idOf(`user:${user}`, ['production']),
        await idOf('service', []),
        'key_deleted',
      ];
      await using ledger = await open(database);
      const startedAt = midNextMonth() + DAY_MS / 2;
      for (const [index, keyId] of keys.entries())
        await settled(ledger, { id: firstIdAt(startedAt + index), startedAt, keyId, client: 'curl' });
      const day = dayOf(startedAt);
      const read = async (asked: Partial<UsageQuery>) =>
        (
          await withUsageNames(
            database,
            await readUsage(database, { by: [], fromDay: day, toDay: day + 1, ...asked }),
          )
        ).map(({ member_id: member, member_name: name, tag, requests }) => [member ?? tag, name, requests]);
      const byMember = [
        [null, null, 2],
        [user, 'Zoë', 2],
      ];
      assert.deepEqual(await read({ by: ['member'] }), byMember);
      assert.deepEqual(await read({ by: ['hour', 'member'] }), byMember);
      assert.deepEqual(await read({ by: ['member', 'client'] }), byMember);
      assert.deepEqual(await read({ by: ['member'], keyId: keys[1] ?? '' }), [[user, 'Zoë', 1]]);
      const byTag = [
        [null, null, 2],
        ['production', null, 2],
        ['team:"a"\\b', null, 1],
      ];
      assert.deepEqual(await read({ by: ['tag'] }), byTag);
      assert.deepEqual(await read({ by: ['day', 'tag'] }), byTag);
      assert.deepEqual(await read({ by: ['tag'], top: 1 }), [byTag[0]]);
      assert.deepEqual(await read({ by: ['tag', 'member'], accountId: 'acct_2' }), []);
    });

    test('usage by client has what earlier versions recorded without one, and adds up to the total', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const startedAt = Date.UTC(2026, 4, 31, 12);
      const day = dayOf(startedAt);
      const ended = { firstTokenAt: startedAt + 10, endedAt: startedAt + 500 };
      for (const client of ['curl', 'Unrecognized', 'curl', null]) {
        await settled(ledger, { startedAt, client, keyId: `key_${client}` }, ended);
      }
      await addUsage(database, { day, keys: 2, name: 'key_null', tokens: 40 });
      const query = { fromDay: day, toDay: day + 1 };
      const read = async (asked: Partial<UsageQuery>) =>
        (await readUsage(database, { ...query, by: ['client'], ...asked })).map(
          ({ client, requests, prompt_tokens: prompt, ttft_ms: ttft }) => [client, requests, prompt, ttft],
        );
      const all = [
        [null, 3, 90, null],
        ['Unrecognized', 1, 10, null],
        ['curl', 2, 20, null],
      ];
      assert.deepEqual(await read({}), all);
      assert.deepEqual(await read({ top: 2 }), [all[0], all[2]]);
      assert.deepEqual(await read({ client: 'curl' }), [all[2]]);
      assert.deepEqual(await read({ client: '' }), [all[0]]);
      assert.deepEqual(await read({ keyId: 'key_curl' }), [all[2]]);
      assert.deepEqual(await read({ accountId: 'acct_2' }), []);
      assert.deepEqual(await read({ by: ['day'], client: 'curl' }), [[null, 2, 20, null]]);
      assert.deepEqual(await read({ by: [], client: 'none' }), [[null, 0, 0, null]]);
      const [first, ...others] = await readPages(database, { ...query, by: ['client', 'key'] }, 2);
      assert.deepEqual(
        first?.map(({ client, key_id }) => [client, key_id]),
        [
          [null, 'key_null'],
          [null, 'key_null_0'],
        ],
      );
      assert.equal(others.flat().length, 3);
    });

    test('percentiles of time to first token and of speed are at most 2% off', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const startedAt = Date.UTC(2026, 4, 31, 12);
      await Promise.all(
        Array.from({ length: 100 }, (_, index) =>
          settled(
            ledger,
            { startedAt },
            {
              usage: { promptTokens: 1, completionTokens: 101, cachedTokens: 0, reasoningTokens: 0 },
              firstTokenAt: startedAt + 10 * (index + 1),
              // 100 tokens in 1 to 100 seconds.
              endedAt: startedAt + 10 * (index + 1) + 1000 * (index + 1),
            },
          ),
        ),
      );
      const day = dayOf(startedAt);
      const [row] = await readUsage(database, { by: ['model'], fromDay: day, toDay: day + 1 });
      const near = (estimate: number | undefined, exact: number) =>
        assert.ok(Math.abs((estimate ?? NaN) - exact) <= 0.02 * exact, `${estimate} for ${exact}`);
      near(row?.ttft_ms?.p50, 500);
      near(row?.ttft_ms?.p95, 950);
      near(row?.tokens_per_second?.p50, 100 / 51);
      near(row?.tokens_per_second?.p5, 100 / 96);
    });

    test('hourly usage adds up to daily usage, also by outcome', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const midnight = midNextMonth();
      const day = dayOf(midnight);
      const ends = [
        {},
        { errorCode: 'internal_error', billed: false, httpStatus: 500 },
        { errorCode: 'client_disconnected', delivered: false },
      ];
      await Promise.all(
        Array.from({ length: 60 }, (_, index) => {
          // The first request arrived a second before midnight and started after it.
          const startedAt = midnight + index * 30 * 60_000;
          const id = firstIdAt(startedAt - (index === 0 ? 1000 : 0)).replace(/\d{3}$/, String(100 + index));
          const firstTokenAt = startedAt + 100 * (index + 1);
          const ended = { ...ends[index % 3], firstTokenAt, endedAt: firstTokenAt + 1000 * (index + 1) };
          return settled(ledger, { id, startedAt, model: `a/${index % 2}` }, ended);
        }),
      );
      const query = { fromDay: day, toDay: day + 1, accountId: 'acct_1' };
      const hours = await readUsage(database, { ...query, by: ['hour', 'model'] });
      assert.deepEqual(
        hours.map(({ hour, model, requests }) => [hour, model, requests]),
        Array.from({ length: 48 }, (_, index) => {
          const hour = new Date(midnight + Math.floor(index / 2) * 3_600_000).toISOString();
          return [hour, `a/${index % 2}`, 1];
        }),
      );
      const ofDay = await readUsage(database, { ...query, by: ['day'] });
      const total = (field: 'requests' | 'errors' | 'aborted' | 'billed_tokens' | 'prompt_tokens') =>
        hours.reduce((sum, row) => sum + row[field], 0);
      const [whole] = ofDay;
      for (const field of ['requests', 'errors', 'aborted', 'billed_tokens', 'prompt_tokens'] as const)
        assert.equal(total(field), whole?.[field], field);
      assert.equal(usdText(hours.reduce((sum, row) => sum + picoOf(row.cost_usd), 0n)), whole?.cost_usd);
      const dayByHours = await readUsage(database, { ...query, by: ['hour', 'day'] });
      assert.equal(dayByHours.length, 24);
      for (const [index, row] of dayByHours.entries()) {
        const starts = [2 * index, 2 * index + 1].filter((one) => one % 3 !== 1);
        const exact = 100 * ((starts[0] ?? 0) + 1);
        assert.ok(
          Math.abs((row.ttft_ms?.p50 ?? NaN) - exact) <= 0.02 * exact,
          `${row.ttft_ms?.p50} for ${exact}`,
        );
      }
      assert.deepEqual(await readUsage(database, { ...query, accountId: 'acct_2', by: ['hour'] }), []);
    });

    test('percentiles over accounts, days, models and keys cover all their requests', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const noon = Date.UTC(2026, 4, 31, 12);
      const day = dayOf(noon);
      // 1 to 40 seconds to the first token and 0.5 to 20 tokens per second, spread evenly over all dimensions.
      await Promise.all(
        Array.from({ length: 40 }, (_, index) => {
          const startedAt = noon + (index % 2) * 86_400_000;
          const firstTokenAt = startedAt + 1000 * (index + 1);
          const opened = {
            startedAt,
            accountId: `acct_${index % 3}`,
            model: `a/${index % 5}`,
            keyId: `key_${index % 4}`,
          };
          const usage = { promptTokens: 1, completionTokens: 101, cachedTokens: 0, reasoningTokens: 0 };
          const endedAt = firstTokenAt + Math.round(200_000 / (index + 1));
          return settled(ledger, opened, { usage, firstTokenAt, endedAt });
        }),
      );
      const near = (estimate: number | undefined, exact: number) =>
        assert.ok(Math.abs((estimate ?? NaN) - exact) <= 0.02 * exact, `${estimate} for ${exact}`);
      const [all] = await readUsage(database, { by: [], fromDay: day, toDay: day + 2 });
      near(all?.ttft_ms?.p50, 20_000);
      near(all?.ttft_ms?.p95, 38_000);
      near(all?.tokens_per_second?.p50, 10);
      near(all?.tokens_per_second?.p5, 1);
      const byDay = await readUsage(database, { by: ['day'], fromDay: day, toDay: day + 2 });
      byDay.forEach((row, index) => near(row.ttft_ms?.p50, 19_000 + 1000 * index));
      assert.equal(byDay.length, 2);
      const byKey = await readUsage(database, { by: ['key'], fromDay: day, toDay: day + 2 });
      byKey.forEach((row, index) => near(row.ttft_ms?.p95, 37_000 + 1000 * index));
      assert.equal(byKey.length, 4);
      const byModel = await readUsage(database, { by: ['model', 'day'], fromDay: day, toDay: day + 2 });
      near(byModel[0]?.tokens_per_second?.p50, 5.5);
      assert.equal(byModel.length, 10);
      const narrow = { accountId: 'acct_0', model: 'a/0', fromDay: day, toDay: day + 2 };
      const [one] = await readUsage(database, { ...narrow, by: ['account'] });
      near(one?.ttft_ms?.p95, 31_000);
    });

    test('sums of money over 64 bits are exact', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const dear = { pricePrompt: 500_000_000_000_000, priceCompletion: 0 };
      const usage = { promptTokens: 18_000, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 };
      for (const keyId of ['key_1', 'key_2', 'key_3']) await settled(ledger, { ...dear, keyId }, { usage });
      const [row] = await readUsage(database, { by: [], fromDay: 0, toDay: 100_000 });
      const cost = 3n * 18_000n * 500_000_000_000_000n;
      assert.equal(row?.cost_usd, usdText(cost));
      assert.ok(cost > 2n ** 63n);
    });

    test('usage without requests is one row of zeros, and no row by day', async () => {
      await using database = await databases.open();
      const [row] = await readUsage(database, { by: [], fromDay: 0, toDay: 1 });
      assert.equal(row?.requests, 0);
      assert.equal(row?.cost_usd, '0');
      assert.equal(row?.ttft_ms, null);
      assert.deepEqual(await readUsage(database, { by: ['day'], fromDay: 0, toDay: 1 }), []);
    });

    test('the request log is paged newest first, without gaps or duplicates, while requests arrive', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const made: string[] = [];
      for (let index = 0; index < 25; index++) made.push((await settled(ledger)).id);
      await settled(ledger, { accountId: 'acct_2' });
      const seen: string[] = [];
      let before: string | null = null;
      do {
        const page = await readRequests(database, { accountId: 'acct_1' }, { limit: 10, before });
        seen.push(...page.requests.map(({ id }) => id));
        before = page.next;
        await settled(ledger);
      } while (before !== null);
      // IDs of the same millisecond are in random order.
      assert.deepEqual(seen, made.toSorted().toReversed());
    });

    test('the request log is filtered by key, model, outcome, state, time and ID', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const plain = await settled(ledger);
      const other = await settled(ledger, { keyId: 'key_2', model: 'b/b' });
      const failed = await settled(ledger, {}, { errorCode: 'queue_full', httpStatus: 503, billed: false });
      const left = await settled(ledger, {}, { errorCode: 'client_disconnected' });
      const running = newRow();
      await ledger.open(running, counts());
      const ids = async (filter: Parameters<typeof readRequests>[1]) =>
        (await readRequests(database, filter, { limit: 200 })).requests.map(({ id }) => id);
      assert.deepEqual(await ids({ keyId: 'key_2' }), [other.id]);
      assert.deepEqual(await ids({ model: 'b/b' }), [other.id]);
      assert.deepEqual(await ids({ statusClass: 5 }), [failed.id]);
      assert.deepEqual(await ids({ errorCode: 'queue_full' }), [failed.id]);
      assert.deepEqual(await ids({ state: 'open' }), [running.id]);
      assert.deepEqual((await ids({ outcome: 'completed' })).sort(), [plain.id, other.id].sort());
      assert.deepEqual(await ids({ outcome: 'error' }), [failed.id]);
      assert.deepEqual(await ids({ outcome: 'client_disconnected' }), [left.id]);
      assert.deepEqual(await ids({ outcome: 'interrupted' }), []);
      assert.deepEqual(await ids({ requestId: plain.id }), [plain.id]);
      assert.deepEqual(await ids({ fromMs: Date.now() + 60_000 }), []);
      assert.deepEqual((await ids({ toMs: Date.now() + 60_000 })).length, 5);
      assert.deepEqual(await ids({ keyId: null, model: null, state: null }), await ids({}));
    });

    test('an export has all rows, oldest first', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const rows = Array.from({ length: 1201 }, () => newRow());
      await Promise.all(rows.map((one) => ledger.open(one, counts())));
      const exported: string[] = [];
      for await (const one of exportRequests(database, { accountId: 'acct_1' })) exported.push(one.id);
      assert.deepEqual(exported, rows.map(({ id }) => id).sort());
    });

    test('a receipt has the cost breakdown, the limits applied and the duration of each stage', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const startedAt = Date.now();
      const one = await settled(
        ledger,
        { startedAt, limits: '[["account",null,"tokensPerDay",5,2]]', clientRequestId: 'mine' },
        { slotAt: startedAt + 5, firstTokenAt: startedAt + 25, endedAt: startedAt + 125, attempts: 3 },
      );
      const found = await readRequest(database, one.id);
      const [row] = await withNames(database, found === null ? [] : [found]);
      assert.ok(row);
      const receipt = receiptJson(row);
      assert.deepEqual(receipt.stages, { queue_ms: 5, prefill_ms: 20, decode_ms: 100 });
      assert.deepEqual(receipt.limits, [
        { scope: 'account', model: null, limit: 'tokens_per_day', bound: 5, left: 2 },
      ]);
      assert.equal(receipt.retries, 2);
      assert.equal(receipt.interrupted, false);
      assert.equal(
        usdText(receipt.cost.reduce((sum, { usd }) => sum + picoOf(usd), 0n)),
        receipt.request.cost_usd,
      );
      assert.equal(await readRequest(database, randomUUIDv7()), null);
    });

    test('receipts by client request ID include only requests of the account', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const first = await settled(ledger, { clientRequestId: 'mine' });
      const second = await settled(
        ledger,
        { clientRequestId: 'mine' },
        { errorCode: 'queue_full', billed: false },
      );
      await settled(ledger, { clientRequestId: 'mine', accountId: 'acct_2' });
      const rows = await withNames(database, await readRequestsOf(database, 'acct_1', 'mine'));
      const receipts = rows.map((row) => receiptJson(row));
      assert.deepEqual(
        receipts.map(({ request }) => request.id),
        [second.id, first.id],
      );
      assert.equal(receipts[0]?.request.cost_usd, '0');
      assert.deepEqual(
        receipts[0]?.cost.map(({ what }) => what),
        ['prompt', 'completion', 'waived'],
      );
    });

    test('limits read what an account has used and reserved today, this month and recently', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const history = openLimitHistory(database);
      // The IDs contain the present time, but the start time decides to which day and month the usage belongs.
      const now = Date.now();
      const month = Date.UTC(new Date(now).getUTCFullYear(), new Date(now).getUTCMonth());
      await settled(ledger, { startedAt: now });
      await settled(
        ledger,
        { startedAt: now },
        { errorCode: 'engine_unavailable', billed: false, httpStatus: 503 },
      );
      // Refused by an engine: a request without tokens.
      await settled(
        ledger,
        { startedAt: now },
        { errorCode: 'invalid_value', billed: false, httpStatus: 400 },
      );
      await settled(ledger, { startedAt: month });
      await settled(ledger, { startedAt: month - 1 });
      await ledger.open(newRow({ startedAt: now, reservedTokens: 70, reservedPico: 9n }), counts());
      await ledger.open(newRow({ startedAt: month - 1 }), counts());
      await ledger.open(newRow({ startedAt: now, accountId: 'acct_2' }), counts());
      const entries = await history.read(
        { accountId: 'acct_1', keyIds: ['key_1'], otherKeys: true },
        now,
        60_000,
        [],
      );
      assert.deepEqual(
        new Set(entries.map(({ keyId, model }) => `${keyId} ${model}`)),
        new Set(['key_1 test/scripted']),
      );
      const cost = 10n * 150_000n + 5n * 600_000n;
      // The first day of the month may be today.
      const today = dayOf(month) === dayOf(now) ? 2 : 1;
      const day = { requests: 0, tokens: today * 15, pico: BigInt(today) * cost };
      assert.deepEqual(usageIn(entries, 'day'), day);
      assert.deepEqual(usageIn(entries, 'day', 'reserved'), { requests: 0, tokens: 70, pico: 9n });
      assert.deepEqual(usageIn(entries, 'month'), { requests: 0, tokens: 30, pico: 2n * cost });
      assert.deepEqual(usageIn(entries, 'month', 'reserved'), { requests: 0, tokens: 70, pico: 9n });
      assert.deepEqual(usageIn(entries, 'minute'), {
        requests: 6,
        tokens: 15 + 15 + 15 + 70 + 100,
        pico: 0n,
      });
      assert.deepEqual(
        await history.read({ accountId: 'acct_3', keyIds: ['key_1'], otherKeys: true }, now, 60_000, []),
        [],
      );
    });

    test('limits read the usage of keys with limits, and that of all others together', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const history = openLimitHistory(database);
      const now = Date.now();
      for (const keyId of ['key_1', 'key_2', 'key_3', 'key_4']) {
        await settled(ledger, { startedAt: now, keyId });
        await ledger.open(newRow({ startedAt: now, keyId, reservedTokens: 70 }), counts());
      }
      const read = async (keyIds: string[], otherKeys: boolean) => {
        const entries = await history.read({ accountId: 'acct_1', keyIds, otherKeys }, now, 60_000, []);
        const tokens = [
          usageIn(entries, 'day'),
          usageIn(entries, 'day', 'reserved'),
          usageIn(entries, 'minute'),
        ];
        return {
          keys: [...new Set(entries.map(({ keyId }) => keyId))].toSorted(),
          rows: entries.length,
          tokens: tokens.map((usage) => usage.tokens),
        };
      };
      // For each key: settled, reserved and recent usage.
      assert.deepEqual(await read([], true), { keys: [''], rows: 3, tokens: [60, 280, 340] });
      assert.deepEqual(await read(['key_2'], false), { keys: ['key_2'], rows: 3, tokens: [15, 70, 85] });
      assert.deepEqual(await read(['key_2', 'key_3'], true), {
        keys: ['', 'key_2', 'key_3'],
        rows: 9,
        tokens: [60, 280, 340],
      });
    });

    test('limits read what is settled and reserved, except for the requests that they already count', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const history = openLimitHistory(database);
      const now = Date.now();
      const running = newRow({ startedAt: now });
      await ledger.open(running, counts());
      const elsewhere = newRow({ startedAt: now });
      await ledger.open(elsewhere, counts());
      const ended = await settled(ledger, { startedAt: now });
      await settled(ledger, { startedAt: now });
      const exceptIds = [ended.id, running.id, ...Array.from({ length: 70_000 }, () => randomUUIDv7())];
      const entries = await history.read(
        { accountId: 'acct_1', keyIds: ['key_1'], otherKeys: true },
        now,
        60_000,
        exceptIds,
      );
      const cost = 10n * 150_000n + 5n * 600_000n;
      assert.deepEqual(usageIn(entries, 'day'), { requests: 0, tokens: 15, pico: cost });
      assert.deepEqual(usageIn(entries, 'month'), { requests: 0, tokens: 15, pico: cost });
      assert.equal(usageIn(entries, 'day', 'reserved').tokens, elsewhere.reservedTokens);
      assert.equal(usageIn(entries, 'minute').requests, 4);
    });
  });
}
