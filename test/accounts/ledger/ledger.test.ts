import assert from 'node:assert/strict';
import { randomUUIDv7 } from 'node:crypto';
import { describe, test } from 'node:test';
import { until } from '../../harness.ts';
import { testDatabases } from '../../servers.ts';
import { counts, open, row, settlement, standing, states, sums } from './books.ts';

for (const databases of testDatabases()) {
  describe(`the ledger on ${databases.name}`, () => {
    test('a request is opened before it runs and settled once, with its cost and its day', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const opened = row({ clientRequestId: 'mine', limits: '[["account",null,"tokensPerDay",5,2]]' });
      await ledger.open(opened, counts());
      const before = await standing(database, opened.id);
      assert.equal(before?.state, 'open');
      assert.equal(before?.limits, opened.limits);
      const ended = settlement({
        firstTokenAt: opened.startedAt + 100,
        endedAt: opened.startedAt + 1100,
        slotAt: opened.startedAt + 20,
      });
      assert.equal(await ledger.settle(opened.id, ended), 'settled');
      const after = await standing(database, opened.id);
      assert.equal(after?.state, 'settled');
      assert.equal(after?.cost, String(10 * 150_000 + 5 * 600_000));
      assert.equal(after?.slot_at, ended.slotAt);
      assert.equal(after?.client_request_id, 'mine');
      assert.equal(after?.delivered, 1);
      const [day, ...others] = await sums(database);
      assert.equal(others.length, 0);
      assert.equal(day?.requests, 1);
      assert.equal(day?.billed_tokens, 15);
      assert.equal(day?.cost, after?.cost);
      const latencies = await database.kysely.selectFrom('latency_days').selectAll().execute();
      assert.deepEqual(latencies.map(({ measure }) => measure).sort(), ['speed', 'ttft']);
    });

    test('text comes back as it was, whatever signs it is made of', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const signs = ['"', '\\', '\\"', '{a,b}', 'NULL', "'", ' ', '', 'é\n\t🙂', ','];
      const rows = signs.map((sign) => row({ clientRequestId: sign, limits: JSON.stringify([sign]) }));
      await Promise.all(rows.map((one) => ledger.open(one, counts())));
      for (const { id, clientRequestId, limits } of rows) {
        const after = await standing(database, id);
        assert.equal(after?.client_request_id, clientRequestId);
        assert.equal(after?.limits, limits);
      }
    });

    test('a second settlement of a row is lost and counts nothing', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const opened = row();
      await ledger.open(opened, counts());
      const [first, second] = await Promise.all([
        ledger.settle(opened.id, settlement()),
        ledger.settle(opened.id, settlement()),
      ]);
      assert.deepEqual([first, second], ['settled', 'lost']);
      assert.equal(await ledger.settle(randomUUIDv7(), settlement()), 'lost');
      assert.equal((await sums(database))[0]?.requests, 1);
    });

    test('many at once are each settled once', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const rows = Array.from({ length: 2500 }, (_, index) => row({ keyId: `key_${index % 7}` }));
      await Promise.all(rows.map((one) => ledger.open(one, counts())));
      const settled = await Promise.all(rows.map(({ id }) => ledger.settle(id, settlement())));
      assert.ok(settled.every((one) => one === 'settled'));
      assert.deepEqual(await states(database), { settled: 2500 });
      const days = await sums(database);
      assert.equal(
        days.reduce((sum, { requests }) => sum + requests, 0),
        2500,
      );
      assert.equal(new Set(days.map(({ key_id }) => key_id)).size, 7);
    });

    test('a fault of ours keeps its tokens and costs nothing; a hang-up pays', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const [failed, left] = [row(), row()];
      await Promise.all([failed, left].map((one) => ledger.open(one, counts())));
      await ledger.settle(failed.id, settlement({ errorCode: 'engine_unavailable', billed: false }));
      await ledger.settle(left.id, settlement({ errorCode: 'hung_up', delivered: false }));
      const [day] = await sums(database);
      assert.equal(day?.requests, 2);
      assert.equal(day?.errors, 1);
      assert.equal(day?.aborted, 1);
      assert.equal(day?.prompt_tokens, 20);
      assert.equal(day?.billed_tokens, 15);
      assert.equal(day?.cost, String(10 * 150_000 + 5 * 600_000));
      assert.equal((await standing(database, failed.id))?.cost, '0');
    });

    test('the counts of a running request are written as they move', async () => {
      await using database = await databases.open();
      await using ledger = await open(database, { checkpointMs: 10 });
      const [running, asked] = [row(), row()];
      const moving = counts();
      await ledger.open(running, moving);
      Object.assign(moving, { replica: 'b', slotAt: 1, firstTokenAt: 2 });
      moving.usage.promptTokens = 7;
      moving.usage.completionTokens = 3;
      await until(async () => (await standing(database, running.id))?.completion_tokens === 3);
      const written = await standing(database, running.id);
      assert.equal(written?.state, 'open');
      assert.equal(written?.prompt_tokens, 7);
      assert.equal(written?.replica, 'b');
      assert.ok(written?.checkpoint_at);
      ledger.checkpoint(asked.id);
    });

    test('a checkpoint that is asked for does not wait for the clock', async () => {
      await using database = await databases.open();
      await using ledger = await open(database, { checkpointMs: 86_400_000 });
      const opened = row();
      const moving = counts();
      await ledger.open(opened, moving);
      moving.usage.completionTokens = 256;
      ledger.checkpoint(opened.id);
      await until(async () => (await standing(database, opened.id))?.completion_tokens === 256);
    });

    test('an answer that did not arrive is corrected later', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const opened = row();
      await ledger.open(opened, counts());
      await ledger.settle(opened.id, settlement());
      ledger.undelivered(opened.id);
      await until(async () => (await standing(database, opened.id))?.delivered === 0);
    });

    test('what is still open when the ledger closes is interrupted, with its last counts and no cost', async () => {
      await using database = await databases.open();
      const opened = row();
      {
        await using ledger = await open(database, { checkpointMs: 86_400_000 });
        const moving = counts();
        await ledger.open(opened, moving);
        moving.usage.promptTokens = 7;
        moving.usage.completionTokens = 3;
      }
      const after = await standing(database, opened.id);
      assert.equal(after?.state, 'interrupted');
      assert.equal(after?.completion_tokens, 3);
      assert.equal(after?.cost, '0');
      assert.ok(after?.ended_at);
      const [day] = await sums(database);
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

    test('a row that the database refuses keeps none of the others from it', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const taken = row();
      await ledger.open(taken, counts());
      const others = [row(), row()];
      const [again, ...rest] = await Promise.allSettled(
        [taken, ...others].map((one) => ledger.open(one, counts())),
      );
      assert.equal(again?.status, 'rejected');
      assert.ok(rest.every(({ status }) => status === 'fulfilled'));
      assert.equal(await ledger.settle(taken.id, settlement()), 'settled');
      assert.deepEqual(ledger.health, { writable: true });
    });

    test('a usage or a cost that cannot be written ends its request with an error and costs nothing', async () => {
      await using database = await databases.open();
      await using ledger = await open(database);
      const dear = { pricePrompt: 2_000_000, priceCompletion: 2_000_000 };
      const absurd = [
        [counts(10 ** 15, 5), dear],
        ...Array.from({ length: 4 }, () => [counts(10, 10 ** 12), dear] as const),
        [counts(-1, 5), dear],
        [counts(0.5, 5), dear],
        [counts(NaN, 5), dear],
        // One cost that passes 64 bits, and six of which the sum of the day does.
        [counts(10 ** 9, 5), { pricePrompt: 10 ** 14 }],
        ...Array.from({ length: 6 }, () => [counts(10 ** 9, 0), { pricePrompt: 2 * 10 ** 9 }] as const),
      ] as const;
      const settled: string[] = [];
      for (const [usage, price] of absurd) {
        const opened = row(price);
        const moving = counts();
        await ledger.open(opened, moving);
        Object.assign(moving, usage);
        ledger.checkpoint(opened.id);
        settled.push(await ledger.settle(opened.id, settlement(usage)).catch(({ code }) => code));
      }
      const last = row();
      await ledger.open(last, counts());
      assert.equal(await ledger.settle(last.id, settlement()), 'settled');
      assert.deepEqual(settled, [
        ...Array.from({ length: 9 }, () => 'storage_unavailable'),
        ...Array.from({ length: 4 }, () => 'settled'),
        ...Array.from({ length: 2 }, () => 'storage_unavailable'),
      ]);
      assert.deepEqual(await states(database), { settled: absurd.length + 1 });
      const [day] = await sums(database);
      assert.deepEqual([day?.requests, day?.errors], [absurd.length + 1, 11]);
      const rows = await database.kysely.selectFrom('ledger').select(['error_code', 'billed']).execute();
      assert.equal(rows.filter(({ error_code, billed }) => error_code !== null && billed === 0).length, 11);
    });

    test('a running request with an impossible usage is interrupted without it', async () => {
      await using database = await databases.open();
      const opened = row();
      {
        await using ledger = await open(database);
        const moving = counts();
        await ledger.open(opened, moving);
        moving.usage.completionTokens = 10 ** 15;
      }
      const after = await standing(database, opened.id);
      assert.deepEqual([after?.state, after?.completion_tokens], ['interrupted', 0]);
    });
  });
}
