import type { PlanLimits } from '../config/plan.ts';
import type { Schema } from '../database/schema.ts';
import { ServiceError } from '../errors.ts';
import type { Selectable } from 'kysely';
import { MAX_MODELS } from './bounds.ts';
import { checkedName } from './name.ts';

/** Changes to a key. Omitted fields stay the same. */
export interface KeyChange {
  /** 1 to 100 characters without control characters. */
  name?: string | undefined;
  /** Unix milliseconds; null: never. */
  expiresAt?: number | null | undefined;
  /** IDs of the models that it may use, 1 to `MAX_MODELS`; null: all. */
  allowedModels?: readonly string[] | null | undefined;
  /** The key's own limits, in addition to the plan's; null or empty: none. */
  limits?: PlanLimits | null | undefined;
}

/** The columns that a `KeyChange` sets. */
export type KeyColumns = Pick<
  Selectable<Schema['keys']>,
  'name' | 'expires_at' | 'allowed_models' | 'limits'
>;

/**
 * Converts a change to columns. Throws a `ServiceError` `invalid_value` (param `name` or `allowed_models`). Callers
 * have validated limits and model IDs with a schema.
 */
export function columnsOf({ name, expiresAt, allowedModels, limits }: KeyChange): Partial<KeyColumns> {
  return {
    ...(name !== undefined && { name: checkedName(name, 'key') }),
    ...(expiresAt !== undefined && { expires_at: boundedExpiry(expiresAt) }),
    ...(allowedModels !== undefined && { allowed_models: modelsText(allowedModels) }),
    ...(limits !== undefined && { limits: limitsText(limits) }),
  };
}

/** Converts columns for the audit log: times to ISO 8601, lists and limits to JSON values. */
export function readable(columns: Partial<KeyColumns>): Record<string, unknown> {
  const parsed = (text: string | null): unknown => (text === null ? null : JSON.parse(text));
  const { name, expires_at: expiry, allowed_models: models, limits } = columns;
  return {
    ...(name !== undefined && { name }),
    ...(expiry !== undefined && { expires_at: expiry === null ? null : new Date(expiry).toISOString() }),
    ...(models !== undefined && { allowed_models: parsed(models) }),
    ...(limits !== undefined && { limits: parsed(limits) }),
  };
}

/** 9999-12-31T23:59:59.999Z, the last time with a four-digit year in ISO 8601. */
const LAST_MS = 253_402_300_799_999;

/** Clamps an expiry to the years 1970 to 9999, which every client can parse. */
function boundedExpiry(expiresAt: number | null): number | null {
  if (expiresAt === null) return null;
  // SQLite would store NaN as null, and the key would never expire.
  if (Number.isNaN(expiresAt)) throw new TypeError('an expiry is not a number');
  return Math.min(Math.max(expiresAt, 0), LAST_MS);
}

function modelsText(models: readonly string[] | null): string | null {
  if (models === null) return null;
  const ids = [...new Set(models)];
  if (ids.length >= 1 && ids.length <= MAX_MODELS) return JSON.stringify(ids);
  throw new ServiceError(
    'invalid_value',
    `\`allowed_models\` must list 1 to ${MAX_MODELS} models, or be null for all models.`,
    { param: 'allowed_models' },
  );
}

function limitsText(limits: PlanLimits | null): string | null {
  const text = JSON.stringify(limits);
  return text === '{}' || text === 'null' ? null : text;
}
