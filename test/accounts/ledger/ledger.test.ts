import assert from 'node:assert/strict';
import { randomUUIDv7 } from 'node:crypto';
import { describe, test } from 'node:test';
import { until } from '../../harness.ts';
import { testDatabases } from '../../support/servers.ts';
import { counts, open, newRow, settlement, readRow, countByState, readUsageDays } from './fixture.ts';

for (const databases of testDatabases()) {
  describe(`the ledger on ${databases.name}`, () => {
    test('a request is opened before it runs and settled once, with its cost and its daily usage', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const opened = newRow({ clientRequestId: 'mine', limits: '[["account",null,"tokensPerDay",5,2]]' });
      await ledger.open(opened, counts());
      const before = await readRow(database, opened.id);
      assert.equal(before?.state, 'open');
      assert.equal(before?.limits, opened.limits);
      const ended = settlement({
        firstTokenAt: opened.startedAt + 100,
        endedAt: opened.startedAt + 1100,
        slotAt: opened.startedAt + 20,
      });
      assert.equal(await ledger.settle(opened.id, ended), 'settled');
      const after = await readRow(database, opened.id);
      assert.equal(after?.state, 'settled');
      assert.equal(after?.cost, String(10 * 150_000 + 5 * 600_000));
      assert.equal(after?.slot_at, ended.slotAt);
      assert.equal(after?.client_request_id, 'mine');
      assert.equal(after?.delivered, 1);
      const [day, ...others] = await readUsageDays(database);
      assert.equal(others.length, 0);
      assert.equal(day?.requests, 1);
      assert.equal(day?.billed_tokens, 15);
      assert.equal(day?.cost, after?.cost);
      const latencies = await database.kysely.selectFrom('latency_days').selectAll().execute();
      assert.deepEqual(latencies.map(({ measure }) => measure).sort(), ['speed', 'ttft']);
    });

    test('cached tokens are charged at their own price, in rows and in daily usage', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const usage = { promptTokens: 10, cachedTokens: 8, completionTokens: 5, reasoningTokens: 0 };
      const cost = 2 * 150_000 + 8 * 15_000 + 5 * 600_000;
      const [merged, opened, waived] = [15_000, 15_000, 15_000].map((priceInputCacheRead) =>
        newRow({ priceInputCacheRead }),
      );
      assert.ok(merged && opened && waived);
      const written = ledger.open(merged, counts());
      assert.equal(await ledger.settle(merged.id, settlement({ usage })), 'settled');
      await written;
      await ledger.open(opened, counts());
      await ledger.settle(opened.id, settlement({ usage }));
      await ledger.open(waived, counts());
      await ledger.settle(waived.id, settlement({ usage, billed: false, errorCode: 'internal_error' }));
      const rows = await Promise.all([merged, opened, waived].map(({ id }) => readRow(database, id)));
      assert.deepEqual(
        rows.map((row) => [row?.price_input_cache_read, row?.cached_tokens, row?.cost]),
        [
          [15_000, 8, String(cost)],
          [15_000, 8, String(cost)],
          [15_000, 8, '0'],
        ],
      );
      const [day] = await readUsageDays(database);
      assert.deepEqual([day?.cached_tokens, day?.cost], [24, String(2 * cost)]);
    });

    test('no row is deleted because the wall clock jumps ahead', async (t) => {
      await using database = await databases.open();
      const row = newRow();
      t.mock.timers.enable({ apis: ['setInterval'] });
      {
        await using ledger = await open(database, { keepDays: 30 });
        await ledger.open(row, counts());
        await ledger.settle(row.id, settlement());
        const ahead = Date.now() + 365 * 86_400_000;
        t.mock.method(Date, 'now', () => ahead);
        t.mock.timers.tick(3_600_000);
      }
      assert.equal((await readRow(database, row.id))?.state, 'settled');
    });

    test('text with any characters is stored exactly', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const signs = ['"', '\\', '\\"', '{a,b}', 'NULL', "'", ' ', '', 'é\n\t🙂', ','];
      const rows = signs.map((sign) => newRow({ clientRequestId: sign, limits: JSON.stringify([sign]) }));
      await Promise.all(rows.map((one) => ledger.open(one, counts())));
      for (const { id, clientRequestId, limits } of rows) {
        const after = await readRow(database, id);
        assert.equal(after?.client_request_id, clientRequestId);
        assert.equal(after?.limits, limits);
      }
    });

    test('a second settlement of a row returns `lost` and is not counted', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const opened = newRow();
      await ledger.open(opened, counts());
      const [first, second] = await Promise.all([
        ledger.settle(opened.id, settlement()),
        ledger.settle(opened.id, settlement()),
      ]);
      assert.deepEqual([first, second], ['settled', 'lost']);
      assert.equal(await ledger.settle(randomUUIDv7(), settlement()), 'lost');
      assert.equal((await readUsageDays(database))[0]?.requests, 1);
    });

    test('each of many concurrent requests is settled once', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const rows = Array.from({ length: 2500 }, (_, index) => newRow({ keyId: `key_${index % 7}` }));
      await Promise.all(rows.map((one) => ledger.open(one, counts())));
      const settled = await Promise.all(rows.map(({ id }) => ledger.settle(id, settlement())));
      assert.ok(settled.every((one) => one === 'settled'));
      assert.deepEqual(await countByState(database), { settled: 2500 });
      const days = await readUsageDays(database);
      assert.equal(
        days.reduce((sum, { requests }) => sum + requests, 0),
        2500,
      );
      assert.equal(new Set(days.map(({ key_id }) => key_id)).size, 7);
    });

    test('a fault of the service records tokens without cost; a disconnected client pays', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const [failed, left] = [newRow(), newRow()];
      await Promise.all([failed, left].map((one) => ledger.open(one, counts())));
      await ledger.settle(failed.id, settlement({ errorCode: 'engine_unavailable', billed: false }));
      await ledger.settle(left.id, settlement({ errorCode: 'client_disconnected', delivered: false }));
      const [day] = await readUsageDays(database);
      assert.equal(day?.requests, 2);
      assert.equal(day?.errors, 1);
      assert.equal(day?.aborted, 1);
      assert.equal(day?.prompt_tokens, 20);
      assert.equal(day?.billed_tokens, 15);
      assert.equal(day?.cost, String(10 * 150_000 + 5 * 600_000));
      assert.equal((await readRow(database, failed.id))?.cost, '0');
    });

    test('the counts of a running request are written as they change', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database, { checkpointMs: 10 });
      const [running, unknown] = [newRow(), newRow()];
      const moving = counts();
      await ledger.open(running, moving);
      Object.assign(moving, { replica: 'b', slotAt: 1, firstTokenAt: 2 });
      moving.usage.promptTokens = 7;
      moving.usage.completionTokens = 3;
      await until(async () => (await readRow(database, running.id))?.completion_tokens === 3);
      const written = await readRow(database, running.id);
      assert.equal(written?.state, 'open');
      assert.equal(written?.prompt_tokens, 7);
      assert.equal(written?.replica, 'b');
      assert.ok(written?.checkpoint_at);
      ledger.checkpoint(unknown.id);
    });

    test('a requested checkpoint does not wait for the timer', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database, { checkpointMs: 86_400_000 });
      const opened = newRow();
      const moving = counts();
      await ledger.open(opened, moving);
      moving.usage.completionTokens = 256;
      ledger.checkpoint(opened.id);
      await until(async () => (await readRow(database, opened.id))?.completion_tokens === 256);
    });

    test('a settled request is marked when its response could not be delivered', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const opened = newRow();
      await ledger.open(opened, counts());
      await ledger.settle(opened.id, settlement());
      ledger.undelivered(opened.id);
      await until(async () => (await readRow(database, opened.id))?.delivered === 0);
    });

    test('closing the ledger interrupts open requests, with their last counts and no cost', async () => {
      await using database = await databases.open({ threads: true });
      const opened = newRow();
      {
        await using ledger = await open(database, { checkpointMs: 86_400_000 });
        const moving = counts();
        await ledger.open(opened, moving);
        moving.usage.promptTokens = 7;
        moving.usage.completionTokens = 3;
      }
      const after = await readRow(database, opened.id);
      assert.equal(after?.state, 'interrupted');
      assert.equal(after?.completion_tokens, 3);
      assert.equal(after?.cost, '0');
      assert.ok(after?.ended_at);
      const [day] = await readUsageDays(database);
      assert.equal(day?.interrupted, 1);
      assert.equal(day?.completion_tokens, 3);
      assert.equal(day?.billed_tokens, 0);
      const live = await database.kysely
        .selectFrom('instances')
        .select('epoch')
        .where('live', '=', 1)
        .execute();
      assert.deepEqual(live, []);
    });

    test('a row that the database refuses does not affect the others', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const taken = newRow();
      await ledger.open(taken, counts());
      const others = [newRow(), newRow()];
      const [again, ...rest] = await Promise.allSettled(
        [taken, ...others].map((one) => ledger.open(one, counts())),
      );
      assert.equal(again?.status, 'rejected');
      assert.ok(rest.every(({ status }) => status === 'fulfilled'));
      assert.equal(await ledger.settle(taken.id, settlement()), 'settled');
      assert.deepEqual(ledger.health, { writable: true });
    });

    test('usage or cost that cannot be written ends the request with an error and without cost', async () => {
      await using database = await databases.open({ threads: true });
      await using ledger = await open(database);
      const dear = { pricePrompt: 2_000_000, priceCompletion: 2_000_000 };
      const absurd = [
        [counts(10 ** 15, 5), dear],
        ...Array.from({ length: 4 }, () => [counts(10, 10 ** 12), dear] as const),
        [counts(-1, 5), dear],
        [counts(0.5, 5), dear],
        [counts(NaN, 5), dear],
        // One cost that exceeds 64 bits, and six costs whose daily sum exceeds them.
        [counts(10 ** 9, 5), { pricePrompt: 10 ** 14 }],
        ...Array.from({ length: 6 }, () => [counts(10 ** 9, 0), { pricePrompt: 2 * 10 ** 9 }] as const),
      ] as const;
      const settled: string[] = [];
      for (const [usage, price] of absurd) {
        const opened = newRow(price);
        const moving = counts();
        await ledger.open(opened, moving);
        Object.assign(moving, usage);
        ledger.checkpoint(opened.id);
        settled.push(await ledger.settle(opened.id, settlement(usage)).catch(({ code }) => code));
      }
      const last = newRow();
      await ledger.open(last, counts());
      assert.equal(await ledger.settle(last.id, settlement()), 'settled');
      assert.deepEqual(settled, [
        ...Array.from({ length: 9 }, () => 'storage_unavailable'),
        ...Array.from({ length: 4 }, () => 'settled'),
        ...Array.from({ length: 2 }, () => 'storage_unavailable'),
      ]);
      assert.deepEqual(await countByState(database), { settled: absurd.length + 1 });
      const [day] = await readUsageDays(database);
      assert.deepEqual([day?.requests, day?.errors], [absurd.length + 1, 11]);
      const rows = await database.kysely.selectFrom('ledger').select(['error_code', 'billed']).execute();
      assert.equal(rows.filter(({ error_code, billed }) => error_code !== null && billed === 0).length, 11);
    });

    test('a running request with impossible usage is interrupted without counts', async () => {
      await using database = await databases.open({ threads: true });
      const opened = newRow();
      {
        await using ledger = await open(database);
        const moving = counts();
        await ledger.open(opened, moving);
        moving.usage.completionTokens = 10 ** 15;
      }
      const after = await readRow(database, opened.id);
      assert.deepEqual([after?.state, after?.completion_tokens], ['interrupted', 0]);
    });
  });
}
