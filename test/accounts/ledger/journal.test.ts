import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from '../../support/fast-check.ts';
import { openStore, startLedger } from '../../../src/accounts/ledger/open-ledger.ts';
import { ensurePartitions } from '../../../src/database/partitions.ts';
import type { Batch } from '../../../src/accounts/ledger/write.ts';
import type { Database } from '../../../src/database/database.ts';
import { SILENT } from '../../../src/support/log.ts';
import { until } from '../../harness.ts';
import { testDatabases } from '../../support/servers.ts';
import {
  counts,
  endLeases,
  newRow,
  SETTINGS,
  settlement,
  readRow,
  countByState,
  readUsageDays,
} from './fixture.ts';
import { FaultyStore, type Outcome } from './faulty-store.ts';

/** One hour, so that no timed heartbeat consumes an outcome of the script and no lease expires. */
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
  const resources = owned.move();
  return { store, ledger, [Symbol.asyncDispose]: () => resources.disposeAsync() };
}

const SCRIPT = fc.array(
  fc.constantFrom<Outcome>('works', 'works', 'fails', 'fails', 'loses', 'loses', 'fences'),
  { maxLength: 12 },
);

/**
 * `early`: the request ends before its row is written.
 * `turns`: turns of the event loop before the next request ends.
 */
const REQUESTS = fc.array(
  fc.record({
    unwritable: fc.boolean(),
    early: fc.boolean(),
    streamed: fc.boolean(),
    turns: fc.nat({ max: 3 }),
  }),
  { minLength: 1, maxLength: 8 },
);

/** A price at which the cost of `MOST` does not fit into the database. */
const UNWRITABLE = { pricePrompt: 10 ** 14 };
const MOST = counts(10 ** 9, 5);

for (const databases of testDatabases()) {
  describe(`a row on ${databases.name}`, () => {
    const idsOf = (batches: readonly Batch[]) =>
      batches.map(({ opens, ended, settles }) => ({
        opens: opens.map(([id]) => id),
        ended: ended.map(([id]) => id),
        settles: settles.map(([id]) => id),
      }));

    test('of a non-streaming request is inserted as settled', async () => {
      await using database = await databases.open({ threads: true });
      await using faults = await faulty(database);
      const { store, ledger } = faults;
      const row = newRow({ streamed: false });
      const opened = ledger.open(row, counts());
      // Writes of this turn would be in progress now.
      await turn();
      await turn();
      assert.equal(await ledger.settle(row.id, settlement()), 'settled');
      await opened;
      assert.deepEqual(idsOf(store.batches), [{ opens: [], ended: [row.id], settles: [] }]);
      assert.equal((await readRow(database, row.id))?.state, 'settled');
      const days = await readUsageDays(database);
      assert.deepEqual(
        days.map(({ requests }) => requests),
        [1],
      );
    });

    test('of a non-streaming request that does not end is inserted as open', async () => {
      await using database = await databases.open({ threads: true });
      await using faults = await faulty(database);
      const row = newRow({ streamed: false });
      await faults.ledger.open(row, counts());
      assert.equal((await readRow(database, row.id))?.state, 'open');
    });

    test('is followed by its settlement if the request ends while the row is being written', async () => {
      await using database = await databases.open({ threads: true });
      await using faults = await faulty(database);
      const { store, ledger } = faults;
      const row = newRow();
      const opened = ledger.open(row, counts());
      await until(() => store.batches.length === 1);
      const settled = ledger.settle(row.id, settlement());
      await opened;
      assert.equal(await settled, 'settled');
      assert.deepEqual(idsOf(store.batches), [
        { opens: [row.id], ended: [], settles: [] },
        { opens: [], ended: [], settles: [row.id] },
      ]);
    });

    test('costs nothing if the response to the batch with its settlement is lost', async () => {
      await using database = await databases.open({ threads: true });
      await using faults = await faulty(database);
      const { store, ledger } = faults;
      const row = newRow({ streamed: false });
      const opened = ledger.open(row, counts());
      store.play(['loses']);
      const settled = ledger.settle(row.id, settlement());
      await assert.rejects(opened, { code: 'storage_unavailable' });
      assert.equal(await settled, 'lost');
      await until(async () => (await readRow(database, row.id))?.billed === 0);
    });
  });

  describe(`a ledger on ${databases.name} that fails and then refuses a row`, () => {
    test('rejects only that row, and accepts requests again', async () => {
      await using database = await databases.open({ threads: true });
      await using faults = await faulty(database);
      const { store, ledger } = faults;
      const [refused, valid, alone] = [newRow(), newRow(), newRow()];
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
      await ledger.open(newRow(), counts());
    });

    for (const refused of [0, 1, 2]) {
      test(`cancels the cost of the other rows when row ${refused} of three is refused`, async () => {
        await using database = await databases.open({ threads: true });
        await using faults = await faulty(database, 1);
        const { store, ledger } = faults;
        const rows = [newRow(), newRow(), newRow()];
        for (const one of rows) await ledger.open(one, counts());
        // Written, but the requests time out before a response arrives.
        store.play(['loses', 'fails', 'fails', 'fails', 'fails', 'fails', 'fails']);
        const settled = await Promise.allSettled(rows.map(({ id }) => ledger.settle(id, settlement())));
        assert.ok(settled.every(({ status }) => status === 'rejected'));
        store.refused.add(rows[refused]?.id ?? '');
        await until(() => ledger.health.writable);
        const next = newRow();
        await ledger.open(next, counts());
        const billed = await Promise.all(rows.map(async ({ id }) => (await readRow(database, id))?.billed));
        assert.deepEqual(
          billed,
          rows.map((_, index) => Number(index === refused)),
        );
      });
    }

    for (const settleWaitMs of [1, 60_000]) {
      test(`settles every valid row once, no matter what fails, with a wait of ${settleWaitMs} ms`, async () => {
        await using database = await databases.open({ threads: true });
        await using faults = await faulty(database, settleWaitMs);
        const { store, ledger } = faults;
        await fc.assert(
          fc.asyncProperty(SCRIPT, REQUESTS, async (script, requests) => {
            const running = requests.map((one) => ({
              ...one,
              row: newRow({ streamed: one.streamed, ...(one.unwritable && UNWRITABLE) }),
            }));
            const late = running.filter(({ early }) => !early);
            await Promise.all(late.map(({ row: opened }) => ledger.open(opened, counts())));
            store.play(script);
            const results: Promise<string>[] = [];
            const openings: Promise<void>[] = [];
            for (const { row: opened, unwritable, early, turns } of running) {
              const ended = settlement(unwritable ? MOST : {});
              if (early) {
                openings.push(ledger.open(opened, counts()).catch(() => {}));
                for (let left = turns; left > 0; left--) await turn();
              }
              results.push(ledger.settle(opened.id, ended).catch(({ code }) => code));
              // Only fills the same batches; its result does not matter.
              openings.push(ledger.open(newRow(), counts()).catch(() => {}));
              for (let left = turns; left > 0; left--) await turn();
            }
            await Promise.all([...results, ...openings]);
            store.play([]);
            // Written after all pending rows; a call of the script may still be in progress.
            let last = newRow();
            await until(() => {
              last = newRow();
              return ledger.open(last, counts()).then(
                () => true,
                () => false,
              );
            });
            await ledger.settle(last.id, settlement()).catch(() => {});
            await until(async () => (await readRow(database, last.id))?.state === 'settled');
            for (const [index, { row: opened, unwritable, early }] of running.entries()) {
              const result = await results[index];
              const after = await readRow(database, opened.id);
              if (early && after === undefined) {
                assert.notEqual(result, 'settled');
                continue;
              }
              assert.deepEqual(
                [after?.billed, after?.cost === '0'],
                result === 'settled' ? [1, false] : [0, true],
              );
              assert.notEqual(after?.state, 'open');
              if (unwritable) assert.notEqual(result, 'settled');
              else if (settleWaitMs > 1 && !early) assert.notEqual(result, 'storage_unavailable');
              else
                assert.ok(
                  result === 'settled' || after?.state === 'interrupted' || after?.error_code !== null,
                );
            }
            const { open: _, ...ended } = await countByState(database);
            const days = await readUsageDays(database);
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
