import { isDeepStrictEqual } from 'node:util';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import { appendAudit, SERVICE, type AuditNote } from './audit.ts';
import type { Plans } from './plans.ts';

/** Name of the row in `settings` with the plans that an instance most recently read. */
const LAST_PLANS = 'plans';

interface ConfiguredPlans {
  /** The weight is left out if it is 1. */
  plans: Readonly<Record<string, PlanLimits & { weight?: number }>>;
  defaultPlan: string;
}

/**
 * Records in the audit log how the configured plans have changed since any instance last read them. Each change is
 * recorded once, even if several instances read it. The first plans of a new database are not recorded. Rejects with a
 * `DatabaseError`.
 */
export async function recordPlans(database: Database, plans: Plans): Promise<void> {
  const current: ConfiguredPlans = {
    plans: Object.fromEntries(
      plans.list().map(({ name, limits, weight }) => [name, weight === 1 ? limits : { ...limits, weight }]),
    ),
    defaultPlan: plans.defaultName,
  };
  const value = JSON.stringify(current);
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
      .$if(database.location.kind === 'postgres', (query) => query.forUpdate())
      .executeTakeFirstOrThrow();
    if (last.value === value) return;
    await transaction.updateTable('settings').set({ value }).where('name', '=', LAST_PLANS).execute();
    // The value was written by an earlier call of this function.
    for (const note of changesBetween(JSON.parse(last.value) as ConfiguredPlans, current)) {
      await appendAudit(transaction, SERVICE, note);
    }
  });
}

function changesBetween(before: ConfiguredPlans, now: ConfiguredPlans): AuditNote[] {
  const [plansBefore, plansNow] = [new Map(Object.entries(before.plans)), new Map(Object.entries(now.plans))];
  const notes = [...new Set([...plansBefore.keys(), ...plansNow.keys()])].flatMap((name): AuditNote[] => {
    const [from = null, to = null] = [plansBefore.get(name), plansNow.get(name)];
    if (isDeepStrictEqual(from, to)) return [];
    const action = from === null ? 'plan.create' : to === null ? 'plan.remove' : 'plan.change';
    return [{ action, subject: `plan:${name}`, detail: { from, to } }];
  });
  if (before.defaultPlan === now.defaultPlan) return notes;
  const detail = { from: before.defaultPlan, to: now.defaultPlan };
  const subject = `plan:${now.defaultPlan}`;
  return [...notes, { action: 'plan.make_default', subject, detail }];
}
