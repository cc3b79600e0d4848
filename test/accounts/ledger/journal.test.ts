import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { openStore, startLedger } from '../../../src/accounts/ledger/open-ledger.ts';
import { ensurePartitions } from '../../../src/database/partitions.ts';
import type { Database } from '../../../src/database/database.ts';
import { SILENT } from '../../../src/log.ts';
import { until } from '../../harness.ts';
import { testDatabases } from '../../servers.ts';
import { counts, endLeases, row, SETTINGS, settlement, standing, states, sums } from './books.ts';
import { FaultyStore, type Outcome } from './faulty-store.ts';

/** An hour: no heartbeat of the clock plays an outcome of the script, and no lease ends by itself. */
const LEASE_MS = 3_600_000;

/** A ledger over a store that fails on demand. */
async function faulty(database: Database, settleWaitMs = 60_000) {
  await using owned = new AsyncDisposableStack();
  await ensurePartitions(database, Date.now());
  const other = owned.use(await openStore(database));
  const fence = async () => {
    await endLeases(database);
    const epoch = await other.register(LEASE_MS);
    await other.reap(epoch);
    await other.retire(epoch);
  };
  const store = new FaultyStore(await openStore(database), fence);
  const ledger = owned.use(
    await startLedger(
      store,
      {
        settings: { ...SETTINGS, settleWaitMs, leaseMs: LEASE_MS, checkpointMs: 86_400_000 },
        log: SILENT,
        onFenced: () => {},
        onReaped: () => {},
      },
      { firstMs: 1, longestMs: 1 },
    ),
  );
  const kept = owned.move();
  return { store, ledger, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

const SCRIPT = fc.array(
  fc.constantFrom<Outcome>('works', 'works', 'fails', 'fails', 'loses', 'loses', 'fences'),
  { maxLength: 12 },
);

const REQUESTS = fc.array(fc.record({ unwritable: fc.boolean(), turns: fc.nat({ max: 3 }) }), {
  minLength: 1,
  maxLength: 8,
});

/** A price at which the cost of `MOST` does not fit into the database. */
const UNWRITABLE = { pricePrompt: 10 ** 14 };
const MOST = counts(10 ** 9, 5);

for (const databases of testDatabases()) {
  describe(`a ledger on ${databases.name} that fails and then refuses a row`, () => {
    test('rejects that row alone and opens requests again', async () => {
      await using database = await databases.open();
      await using faults = await faulty(database);
      const { store, ledger } = faults;
      const [refused, valid, alone] = [row(), row(), row()];
      for (const one of [refused, valid, alone]) await ledger.open(one, counts());
      store.refused.add(refused.id).add(alone.id);
      store.play(['fails']);
      const [first, second] = await Promise.allSettled([
        ledger.settle(refused.id, settlement()),
        ledger.settle(valid.id, settlement()),
      ]);
      assert.equal(first.status === 'rejected' && first.reason.code, 'storage_unavailable');
      assert.equal(second.status === 'fulfilled' && second.value, 'settled');
      await until(() => ledger.health.writable);
      store.play(['fails']);
      await assert.rejects(ledger.settle(alone.id, settlement()), { code: 'storage_unavailable' });
      await until(() => ledger.health.writable);
      await ledger.open(row(), counts());
    });

    test('takes back the cost of other rows when one cannot be', async () => {
      await using database = await databases.open();
      await using faults = await faulty(database, 1);
      const { store, ledger } = faults;
      const rows = [row(), row(), row()];
      for (const one of rows) await ledger.open(one, counts());
      // Written, but no response arrives before the requests are told that they were not counted.
      store.play(['loses', 'fails', 'fails', 'fails', 'fails', 'fails', 'fails']);
      const settled = await Promise.allSettled(rows.map(({ id }) => ledger.settle(id, settlement())));
      assert.ok(settled.every(({ status }) => status === 'rejected'));
      store.refused.add(rows[1]?.id ?? '');
      await until(() => ledger.health.writable);
      const next = row();
      await ledger.open(next, counts());
      const billed = await Promise.all(rows.map(async ({ id }) => (await standing(database, id))?.billed));
      assert.deepEqual(billed, [0, 1, 0]);
    });

    for (const settleWaitMs of [1, 60_000]) {
      test(`settles every valid row once whatever fails, when requests wait for ${settleWaitMs} ms`, async () => {
        await using database = await databases.open();
        await using faults = await faulty(database, settleWaitMs);
        const { store, ledger } = faults;
        await fc.assert(
          fc.asyncProperty(SCRIPT, REQUESTS, async (script, requests) => {
            const running = requests.map((one) => ({ ...one, row: row(one.unwritable ? UNWRITABLE : {}) }));
            await Promise.all(running.map(({ row: opened }) => ledger.open(opened, counts())));
            store.play(script);
            const results: Promise<string>[] = [];
            const openings: Promise<void>[] = [];
            for (const { row: opened, unwritable, turns } of running) {
              const ended = settlement(unwritable ? MOST : {});
              results.push(ledger.settle(opened.id, ended).catch(({ code }) => code));
              // Its own result is not of interest: it is there to be in the same batches.
              openings.push(ledger.open(row(), counts()).catch(() => {}));
              for (let left = turns; left > 0; left--) await turn();
            }
            await Promise.all([...results, ...openings]);
            store.play([]);
            // Written after everything that was kept; a call of the script may still be under way.
            let last = row();
            await until(() => {
              last = row();
              return ledger.open(last, counts()).then(
                () => true,
                () => false,
              );
            });
            await ledger.settle(last.id, settlement()).catch(() => {});
            await until(async () => (await standing(database, last.id))?.state === 'settled');
            for (const [index, { row: opened, unwritable }] of running.entries()) {
              const result = await results[index];
              const after = await standing(database, opened.id);
              assert.deepEqual(
                [after?.billed, after?.cost === '0'],
                result === 'settled' ? [1, false] : [0, true],
              );
              assert.notEqual(after?.state, 'open');
              if (unwritable) assert.notEqual(result, 'settled');
              else if (settleWaitMs > 1) assert.notEqual(result, 'storage_unavailable');
              else
                assert.ok(
                  result === 'settled' || after?.state === 'interrupted' || after?.error_code !== null,
                );
            }
            const { open: _, ...ended } = await states(database);
            const days = await sums(database);
            assert.equal(
              days.reduce((sum, { requests }) => sum + requests, 0),
              (ended.settled ?? 0) + (ended.interrupted ?? 0),
            );
          }),
          { numRuns: 25 },
        );
      });
    }
  });
}
