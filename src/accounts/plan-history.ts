import { isDeepStrictEqual } from 'node:util';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import { appendAudit, SERVICE, type AuditNote } from './audit.ts';
import type { Plans } from './plans.ts';

/** Row of `settings`: the plans as a copy of the service has last read them. */
const LAST_PLANS = 'plans';

/** The plans of a configuration by their names, and which of them is the default one. */
interface PlansRead {
  plans: Readonly<Record<string, PlanLimits>>;
  defaultPlan: string;
}

/**
 * Writes into the audit log what the configuration has changed of the plans since any copy of the service last read
 * it: one entry a plan, however many copies read the same. The plans of a fresh database are no change. Rejects with
 * a `DatabaseError`.
 */
export async function recordPlans(database: Database, plans: Plans): Promise<void> {
  const read: PlansRead = {
    plans: Object.fromEntries(plans.list().map(({ name, limits }) => [name, limits])),
    defaultPlan: plans.defaultName,
  };
  const value = JSON.stringify(read);
  await database.kysely.transaction().execute(async (transaction) => {
    await transaction
      .insertInto('settings')
      .values({ name: LAST_PLANS, value })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    const last = await transaction
      .selectFrom('settings')
      .select('value')
      .where('name', '=', LAST_PLANS)
      .$if(database.place.kind === 'postgres', (query) => query.forUpdate())
      .executeTakeFirstOrThrow();
    if (last.value === value) return;
    await transaction.updateTable('settings').set({ value }).where('name', '=', LAST_PLANS).execute();
    // An earlier call wrote it.
    for (const note of changesBetween(JSON.parse(last.value) as PlansRead, read)) {
      await appendAudit(transaction, SERVICE, note);
    }
  });
}

function changesBetween(before: PlansRead, now: PlansRead): AuditNote[] {
  const names = new Set([...Object.keys(before.plans), ...Object.keys(now.plans)]);
  const notes = [...names].flatMap((name): AuditNote[] => {
    const [from = null, to = null] = [before.plans[name], now.plans[name]];
    if (isDeepStrictEqual(from, to)) return [];
    const action = from === null ? 'plan.create' : to === null ? 'plan.remove' : 'plan.change';
    return [{ action, subject: `plan:${name}`, accountId: null, detail: { from, to } }];
  });
  if (before.defaultPlan === now.defaultPlan) return notes;
  const detail = { from: before.defaultPlan, to: now.defaultPlan };
  const subject = `plan:${now.defaultPlan}`;
  return [...notes, { action: 'plan.make_default', subject, accountId: null, detail }];
}
