import type { PlanLimits } from '../config/plan.ts';

/** A key's own limits as the column `limits` has them; they were checked when they were written. */
export function readLimits(text: string | null): PlanLimits | null {
  return text === null ? null : (JSON.parse(text) as PlanLimits);
}

/** The ids of the models that a key may use, as the column `allowed_models` has them; null: all. */
export function readModels(text: string | null): ReadonlySet<string> | null {
  return text === null ? null : new Set(JSON.parse(text) as string[]);
}
