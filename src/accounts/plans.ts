import type { ConfigFile } from '../config/schema.ts';
import type { PlanLimits } from '../config/plan.ts';
import type { Database } from '../database/database.ts';
import type { Log } from '../log.ts';

/** A plan by its name. */
export interface Plan {
  readonly name: string;
  readonly limits: PlanLimits;
}

type PlansFile = Pick<ConfigFile, 'plans' | 'defaultPlan'>;

interface Planned {
  byName: ReadonlyMap<string, Plan>;
  /** Of accounts that have none of their own. */
  standard: Plan;
}

function planned({ plans, defaultPlan }: PlansFile): Planned {
  const byName = new Map(Object.entries(plans).map(([name, limits]) => [name, { name, limits }]));
  // The schema refuses a default that is none of the plans.
  return { byName, standard: byName.get(defaultPlan) as Plan };
}

/** The plans of the configuration as they hold now: a reload replaces them while requests run. */
export class Plans {
  #now: Planned;

  constructor(file: PlansFile) {
    this.#now = planned(file);
  }

  /** Puts these plans in the place of those before; requests that were admitted keep what they have. */
  replace(file: PlansFile): void {
    this.#now = planned(file);
  }

  /**
   * The plan of that name, or the default one for null. Null where the configuration has none of that name any
   * more: nobody may use more than their plan because a line is missing.
   */
  of(name: string | null): Plan | null {
    const { byName, standard } = this.#now;
    return name === null ? standard : (byName.get(name) ?? null);
  }

  /** Every plan, in the order of the configuration. */
  list(): Plan[] {
    return [...this.#now.byName.values()];
  }

  /** Name of the plan of accounts that have none of their own. */
  get defaultName(): string {
    return this.#now.standard.name;
  }
}

/** Says which accounts have a plan that the configuration has not: their requests are refused. */
export async function warnOfLostPlans(database: Database, plans: Plans, log: Log): Promise<void> {
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
