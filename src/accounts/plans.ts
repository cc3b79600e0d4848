import { isDeepStrictEqual } from 'node:util';
import type { ConfigFile } from '../config/schema.ts';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import type { Log } from '../support/log.ts';
import { appendAudit, SERVICE, type AuditNote } from './audit.ts';

export interface Plan {
  readonly name: string;
  readonly limits: PlanLimits;
  /** While requests wait for a model, each account's share of the model is proportional to this weight. */
  readonly weight: number;
}

type PlansFile = Pick<ConfigFile, 'plans' | 'defaultPlan'>;

interface PlanTable {
  byName: ReadonlyMap<string, Plan>;
  defaultPlan: Plan;
}

function buildPlanTable({ plans, defaultPlan }: PlansFile): PlanTable {
  const byName = new Map(
    Object.entries(plans).map(([name, { weight = 1, ...limits }]) => [name, { name, limits, weight }]),
  );
  // The schema requires the default to be one of the plans.
  return { byName, defaultPlan: byName.get(defaultPlan) as Plan };
}

/** The limits of an account, and the plan that it had when they were last merged. */
interface OwnPlan {
  base: Plan;
  plan: Plan;
}

/** The configured plans, which a reload replaces while requests run. */
export class Plans {
  #current: PlanTable;
  /** By the limits of accounts. The limiter recognizes limits by their objects, so these stay the same. */
  readonly #own = new WeakMap<PlanLimits, OwnPlan>();

  constructor(file: PlansFile) {
    this.#current = buildPlanTable(file);
  }

  /** Replaces the plans. Admitted requests keep theirs. */
  replace(file: PlansFile): void {
    this.#current = buildPlanTable(file);
  }

  /**
   * Returns the plan with this name, or the default plan for null. Returns null for a missing plan: its accounts
   * must not fall back to a plan that allows more. `own` are the limits of an account: each takes the place of the plan's
   * limit of the same name, and those of a model the place of the plan's for that model.
   */
  of(name: string | null, own: PlanLimits | null = null): Plan | null {
    const { byName, defaultPlan } = this.#current;
    const base = name === null ? defaultPlan : (byName.get(name) ?? null);
    if (base === null || own === null) return base;
    let merged = this.#own.get(own);
    if (merged?.base !== base) {
      const models = { ...base.limits.models, ...own.models };
      const burst = own.burst && { burst: { ...base.limits.burst, ...own.burst } };
      merged = { base, plan: { ...base, limits: { ...base.limits, ...own, ...burst, models } } };
      this.#own.set(own, merged);
    }
    return merged.plan;
  }

  /** Returns all plans in the order of the configuration. */
  list(): Plan[] {
    return [...this.#current.byName.values()];
  }

  get defaultName(): string {
    return this.#current.defaultPlan.name;
  }
}

/** Formats the limits of a key or an account for the database. */
export function limitsText(limits: PlanLimits | null): string | null {
  const text = JSON.stringify(limits);
  return text === '{}' || text === 'null' ? null : text;
}

/** Parses limits that `limitsText` wrote. Null: none; undefined: they are damaged. */
export function readLimits(text: string | null): PlanLimits | null | undefined {
  return parsedJson(text, isLimits);
}

/** Returns the value of a column with JSON; undefined: it is damaged. */
export function parsedJson<Value>(
  text: string | null,
  isValid: (value: unknown) => value is Value,
): Value | null | undefined {
  if (text === null) return null;
  try {
    const value: unknown = JSON.parse(text);
    return isValid(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Checks the types only: an earlier version may have allowed other bounds. */
const isLimits = (value: unknown): value is PlanLimits =>
  isObject(value) &&
  Object.entries(value).every(([name, limit]) => {
    if (name === 'models') return isObject(limit) && Object.values(limit).every(isLimits);
    if (name === 'burst') return isObject(limit) && Object.values(limit).every(Number.isFinite);
    return name.startsWith('usd') ? isUsd(limit) : Number.isFinite(limit);
  });

const isUsd = (value: unknown): boolean => typeof value === 'string' && /^\d+(?:\.\d+)?$/.test(value);

const isObject = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Logs a warning for each account that is not closed and whose plan is missing from the configuration, up to 100. */
export async function warnAboutMissingPlans(database: Database, plans: Plans, log: Log): Promise<void> {
  const rows = await database.kysely
    .selectFrom('accounts')
    .select(['id', 'plan'])
    .where('status', '!=', 'closed')
    .where('plan', 'is not', null)
    .where('plan', 'not in', ['', ...plans.list().map(({ name }) => name)])
    .limit(100)
    .execute();
  for (const { id, plan } of rows) {
    log.warn('requests of this account are refused because its plan is not in the configuration', {
      account: id,
      plan,
    });
  }
}

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
export async function recordPlans(database: Database, plans: Plans, log: Log): Promise<void> {
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
      .forUpdate()
      .executeTakeFirstOrThrow();
    if (last.value === value) return;
    await transaction.updateTable('settings').set({ value }).where('name', '=', LAST_PLANS).execute();
    const before = readPlans(last.value);
    if (before === null)
      log.warn('the audit log lacks changes of plans, because the last plans in the database are damaged');
    for (const note of before === null ? [] : changesBetween(before, current)) {
      await appendAudit(transaction, SERVICE, note);
    }
  });
}

/** Parses what an earlier call of `recordPlans` wrote. Null: it is damaged. */
function readPlans(text: string): ConfiguredPlans | null {
  try {
    const last = JSON.parse(text) as ConfiguredPlans;
    return typeof last.plans === 'object' && typeof last.defaultPlan === 'string' ? last : null;
  } catch {
    return null;
  }
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
