import type { ConfigFile } from '../config/schema.ts';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import type { Log } from '../log.ts';

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

/** The configured plans, which a reload replaces while requests run. */
export class Plans {
  #current: PlanTable;

  constructor(file: PlansFile) {
    this.#current = buildPlanTable(file);
  }

  /** Replaces the plans. Admitted requests keep theirs. */
  replace(file: PlansFile): void {
    this.#current = buildPlanTable(file);
  }

  /**
   * Returns the plan with this name, or the default plan for null. Returns null for a missing plan: its accounts
   * must not fall back to a plan that allows more.
   */
  of(name: string | null): Plan | null {
    const { byName, defaultPlan } = this.#current;
    return name === null ? defaultPlan : (byName.get(name) ?? null);
  }

  /** Returns all plans in the order of the configuration. */
  list(): Plan[] {
    return [...this.#current.byName.values()];
  }

  get defaultName(): string {
    return this.#current.defaultPlan.name;
  }
}

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
