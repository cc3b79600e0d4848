import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { listAudit } from '../../src/accounts/audit.ts';
import { recordPlans, Plans } from '../../src/accounts/plans.ts';
import { SILENT } from '../../src/support/log.ts';
import type { Database } from '../../src/database/database.ts';
import { testDatabases } from '../support/servers.ts';

const first = { plans: { a: { tokensPerDay: 5 }, b: {} }, defaultPlan: 'b' };
const second = { plans: { a: { tokensPerDay: 6 }, c: { usdPerMonth: '1' } }, defaultPlan: 'c' };

async function planChanges(database: Database) {
  const { items } = await listAudit(database, { actor: 'service' });
  return items.map(({ action, subject, detail }) => ({ action, subject, ...JSON.parse(detail) }));
}

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    test('changes of the configured plans are in the audit log, plan by plan', async () => {
      await using database = await kind.open();
      const plans = new Plans(first);
      await recordPlans(database, plans, SILENT);
      assert.deepEqual(await planChanges(database), [], 'the plans of a new database are not a change');
      plans.replace(second);
      await recordPlans(database, plans, SILENT);
      assert.deepEqual(
        new Set(await planChanges(database)),
        new Set([
          { action: 'plan.change', subject: 'plan:a', from: { tokensPerDay: 5 }, to: { tokensPerDay: 6 } },
          { action: 'plan.remove', subject: 'plan:b', from: {}, to: null },
          { action: 'plan.create', subject: 'plan:c', from: null, to: { usdPerMonth: '1' } },
          { action: 'plan.make_default', subject: 'plan:c', from: 'b', to: 'c' },
        ]),
      );
    });

    test('damaged plans in the database are replaced, which is not a change', async () => {
      await using database = await kind.open();
      await recordPlans(database, new Plans(first), SILENT);
      for (const value of ['not json', 'null', '{}']) {
        await database.kysely.updateTable('settings').set({ value }).where('name', '=', 'plans').execute();
        await recordPlans(database, new Plans(first), SILENT);
      }
      assert.deepEqual(await planChanges(database), []);
      await recordPlans(database, new Plans(second), SILENT);
      assert.equal((await planChanges(database)).length, 4);
    });

    test('a change that several instances read is recorded once', async () => {
      await using database = await kind.open();
      // With SQLite, a second connection would block the thread that must release the lock.
      await using other = kind.name === 'SQLite' ? null : await database.again();
      const databases = [database, other ?? database, database, other ?? database];
      await Promise.all(databases.map((each) => recordPlans(each, new Plans(first), SILENT)));
      await Promise.all(databases.map((each) => recordPlans(each, new Plans(second), SILENT)));
      assert.equal((await planChanges(database)).length, 4);
    });
  });
}
