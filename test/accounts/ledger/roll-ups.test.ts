import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { sql } from 'kysely';
import { openStore } from '../../../src/accounts/ledger/open-ledger.ts';
import { RefusedWriteError } from '../../../src/accounts/ledger/store.ts';
import { endedValues, openedValues, priceOf, settledValues } from '../../../src/accounts/ledger/write.ts';
import type { Database } from '../../../src/database/database.ts';
import { ensurePartitions } from '../../../src/database/partitions.ts';
import { bucketOf } from '../../support/latency-buckets.ts';
import { testDatabases } from '../../support/servers.ts';
import { counts, endLeases, open, newRow, settlement, readClientDays, readUsageDays } from './fixture.ts';

const MONDAY = Date.UTC(2026, 2, 2, 23, 59, 59, 990);

const request = fc.record({
  accountId: fc.constantFrom('acct_1', 'acct_2'),
  keyId: fc.constantFrom('key_1', 'key_2'),
  model: fc.constantFrom('a/a', 'b/b'),
  client: fc.constantFrom('curl', 'OpenAI Python', null),
  /** Around midnight. */
  startedAt: fc.integer({ min: MONDAY, max: MONDAY + 20 }),
  prompt: fc.nat({ max: 5000 }),
  completion: fc.nat({ max: 5000 }),
  tookMs: fc.nat({ max: 60_000 }),
  checkpoint: fc.boolean(),
  end: fc.constantFrom('stop', 'fault', 'client_disconnected', 'crash', 'late'),
});

for (const databases of testDatabases()) {
  describe(`roll-ups on ${databases.name}`, () => {
    test('a waived request is counted as one error, even if it was an error before', async () => {
      await using database = await databases.open({ threads: true });
      await ensurePartitions(database, Date.now());
      await using store = await openStore(database);
      const epoch = await store.register(10_000);
      const codes = ['invalid_api_key', 'client_disconnected', null];
      const batch = { opens: [], ended: [], checkpoints: [], settles: [], undelivered: [] };
      const ids: string[] = [];
      for (const errorCode of codes) {
        const row = newRow({ client: 'curl' });
        ids.push(row.id);
        const settled = settledValues(row.id, priceOf(row), settlement({ errorCode }));
        await store.write(epoch, { ...batch, ended: [endedValues(openedValues(row), settled)] });
      }
      await store.waive(ids);
      const [day] = await readUsageDays(database);
      assert.deepEqual([day?.requests, day?.errors, day?.aborted, day?.cost], [3, 3, 0, '0']);
      assert.deepEqual(await readClientDays(database), [{ ...day, client: 'curl' }]);
    });

    test('costs that exceed 64 bits together are refused, in one batch and in two', async () => {
      await using database = await databases.open({ threads: true });
      await ensurePartitions(database, Date.now());
      await using store = await openStore(database);
      const epoch = await store.register(10_000);
      const price = { prompt: 5_000_000_000, completion: 0, inputCacheRead: null };
      const [first, second] = [newRow(), newRow()].map((row) =>
        endedValues(openedValues(row), settledValues(row.id, price, settlement(counts(10 ** 9, 0)))),
      );
      assert.ok(first && second);
      const batch = { opens: [], ended: [], checkpoints: [], settles: [], undelivered: [] };
      await assert.rejects(store.write(epoch, { ...batch, ended: [first, second] }), RefusedWriteError);
      assert.deepEqual(await store.write(epoch, { ...batch, ended: [first] }), { lost: [] });
      await assert.rejects(store.write(epoch, { ...batch, ended: [second] }), RefusedWriteError);
      const days = await readUsageDays(database);
      assert.deepEqual(
        days.map(({ requests, cost }) => [requests, cost]),
        [[1, '5000000000000000000']],
      );
    });

    test('equal the sums of the rows, regardless of outcome', async () => {
      await using database = await databases.open({ threads: true });
      await fc.assert(
        fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 40 }), async (requests) => {
          await using first = await open(database, { checkpointMs: 86_400_000, leaseMs: 3_600_000 });
          const running = requests.map((one) => {
            const moving = counts();
            return { one, moving, row: newRow(one) };
          });
          await Promise.all(running.map(({ row, moving }) => first.open(row, moving)));
          for (const { one, moving, row } of running) {
            moving.usage.promptTokens = one.prompt;
            moving.usage.completionTokens = one.completion;
            moving.usage.cachedTokens = Math.floor(one.prompt / 2);
            moving.usage.reasoningTokens = Math.floor(one.completion / 3);
            if (one.checkpoint) first.checkpoint(row.id);
          }
          const settle = (end: string) =>
            running
              .filter(({ one }) => one.end === end)
              .map(({ one, row }) =>
                first.settle(
                  row.id,
                  settlement({
                    ...counts(one.prompt, one.completion),
                    firstTokenAt: one.completion > 0 ? row.startedAt + 7 : null,
                    endedAt: row.startedAt + 7 + one.tookMs,
                    errorCode: end === 'stop' ? null : end === 'fault' ? 'engine_unavailable' : end,
                    billed: end !== 'fault',
                  }),
                ),
              );
          const inTime = await Promise.all(['stop', 'fault', 'client_disconnected'].flatMap(settle));
          assert.ok(inTime.every((one) => one === 'settled'));
          await endLeases(database);
          await using second = await open(database, { leaseMs: 3_600_000 });
          assert.ok(second.health.writable);
          const late = await Promise.all(settle('late'));
          assert.ok(late.every((one) => one === 'lost'));
          assert.deepEqual(await readUsageDays(database), await expectedUsage(database));
          assert.deepEqual(await readClientDays(database), await expectedUsage(database, true));
          assert.deepEqual(await latencies(database), await expectedLatencies(database));
        }),
        { numRuns: 12 },
      );
    });
  });
}

async function rows(database: Database) {
  return await database.kysely
    .selectFrom('ledger')
    .selectAll()
    .select(sql<string>`cast(cost_pico as text)`.as('cost'))
    .execute();
}

type Day = Awaited<ReturnType<typeof readUsageDays>>[number];

/** Computes `usage_days`, or `client_days`, from the rows. */
async function expectedUsage(database: Database, byClient = false): Promise<Day[]> {
  const days = new Map<string, Day>();
  for (const one of await rows(database)) {
    assert.notEqual(one.state, 'open');
    if (byClient && one.client === null) continue;
    const day = Math.floor(one.started_at / 86_400_000);
    const client = byClient ? { client: one.client } : {};
    const name = [one.account_id, day, one.model, one.key_id, ...Object.values(client)].join(' ');
    const sum: Day = days.get(name) ?? {
      account_id: one.account_id,
      day,
      model: one.model,
      key_id: one.key_id,
      ...client,
      requests: 0,
      errors: 0,
      aborted: 0,
      interrupted: 0,
      prompt_tokens: 0,
      cached_tokens: 0,
      cache_miss_tokens: 0,
      completion_tokens: 0,
      reasoning_tokens: 0,
      billed_tokens: 0,
      cost: '0',
    };
    days.set(name, sum);
    sum.requests += 1;
    sum.interrupted += Number(one.state === 'interrupted');
    sum.aborted += Number(one.error_code === 'client_disconnected');
    sum.errors += Number(one.error_code !== null && one.error_code !== 'client_disconnected');
    sum.prompt_tokens += one.prompt_tokens;
    sum.cached_tokens += one.cached_tokens;
    sum.cache_miss_tokens += one.cache_miss_tokens;
    sum.completion_tokens += one.completion_tokens;
    sum.reasoning_tokens += one.reasoning_tokens;
    sum.billed_tokens += one.billed * (one.prompt_tokens + one.completion_tokens);
    sum.cost = String(BigInt(sum.cost) + BigInt(one.cost));
  }
  return [...days].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, day]) => day);
}

async function latencies(database: Database) {
  const found = await database.kysely.selectFrom('latency_days').selectAll().execute();
  return Object.fromEntries(
    found.map(({ account_id, day, model, key_id, measure, bucket, count }) => [
      [account_id, day, model, key_id, measure, bucket].join(' '),
      count,
    ]),
  );
}

async function expectedLatencies(database: Database) {
  const found = new Map<string, number>();
  for (const one of await rows(database)) {
    if (one.state !== 'settled' || one.first_token_at === null || one.ended_at === null) continue;
    if (one.error_code !== null && one.error_code !== 'client_disconnected') continue;
    const day = Math.floor(one.started_at / 86_400_000);
    const add = (measure: string, value: number) => {
      const name = [one.account_id, day, one.model, one.key_id, measure, bucketOf(value)].join(' ');
      found.set(name, (found.get(name) ?? 0) + 1);
    };
    add('ttft', one.first_token_at - one.started_at);
    const tookMs = one.ended_at - one.first_token_at;
    if (one.completion_tokens > 1 && tookMs > 0) add('speed', ((one.completion_tokens - 1) * 1000) / tookMs);
  }
  return Object.fromEntries(found);
}
