import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { auditRetention, listAudit, recordAudit, SERVICE } from '../../src/accounts/audit.ts';
import { Hourly } from '../../src/accounts/hourly.ts';
import type { Database } from '../../src/database/database.ts';
import { firstIdAt } from '../../src/database/partitions.ts';
import { SILENT } from '../../src/support/log.ts';
import { testDatabases } from '../support/servers.ts';

const DAY_MS = 86_400_000;

async function insertEntry({ kysely }: Database, at: number): Promise<void> {
  await kysely
    .insertInto('audit')
    .values({
      id: firstIdAt(at),
      at,
      actor: SERVICE.id,
      ip: null,
      action: 'plan.change',
      subject: 'plan:free',
      account_id: null,
      detail: '{}',
    })
    .execute();
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('entries are deleted after `keepDays`, and not before', async () => {
      await using database = await kind.open();
      for (let n = 0; n < 1200; n += 1) await insertEntry(database, Date.UTC(2026, 0, 1) + n);
      await recordAudit(database, SERVICE, { action: 'plan.create', subject: 'plan:free' });
      const actions = async () => {
        const rows = await database.kysely
          .selectFrom('audit')
          .select(['action', ({ fn }) => fn.countAll<number>().as('count')])
          .groupBy('action')
          .orderBy('action')
          .execute();
        return rows.map(({ action, count }) => [action, count]);
      };
      let now = Date.UTC(2026, 0, 31);
      await using retention = auditRetention(database, 30, SILENT, () => now);
      await retention.run();
      assert.deepEqual(await actions(), [
        ['plan.change', 1200],
        ['plan.create', 1],
      ]);
      now += 700;
      await retention.run();
      assert.deepEqual(await actions(), [
        ['plan.change', 500],
        ['plan.create', 1],
      ]);
      now += DAY_MS;
      await retention.run();
      assert.deepEqual(await actions(), [['plan.create', 1]]);
      // Entries that are not old enough are protected.
      await assert.rejects(database.kysely.deleteFrom('audit').execute());
      await assert.rejects(
        database.kysely
          .updateTable('audit')
          .set({ actor: 'x' } as never)
          .execute(),
      );
      assert.equal((await listAudit(database, {})).items.length, 1);
    });

    test('no entry is deleted because the wall clock jumps ahead', async (t) => {
      await using database = await kind.open();
      await insertEntry(database, Date.now());
      t.mock.timers.enable({ apis: ['Date'], now: Date.now() + 365 * DAY_MS });
      await using retention = auditRetention(database, 30, SILENT);
      await retention.run();
      assert.equal((await listAudit(database, {})).items.length, 1);
    });

    test('old entries are deleted from an hour after the start, when a wrong clock has been corrected', async (t) => {
      await using database = await kind.open();
      t.mock.timers.enable({ apis: ['setInterval'] });
      const deleteOld = t.mock.method(Hourly.prototype, 'run');
      await using _retention = auditRetention(database, 30, SILENT);
      t.mock.timers.tick(3_599_999);
      assert.equal(deleteOld.mock.callCount(), 0);
      t.mock.timers.tick(1);
      assert.equal(deleteOld.mock.callCount(), 1);
    });

    test('no entry can be deleted after `keepDays` is removed', async () => {
      await using database = await kind.open();
      const first = Date.UTC(2026, 0, 1);
      await insertEntry(database, first);
      await using limited = auditRetention(database, 30, SILENT, () => first);
      await limited.run();
      await insertEntry(database, first - 31 * DAY_MS);
      await using unlimited = auditRetention(database, undefined, SILENT);
      await unlimited.run();
      await assert.rejects(database.kysely.deleteFrom('audit').where('at', '<', first).execute());
      assert.equal((await listAudit(database, {})).items.length, 2);
    });
  });
}
