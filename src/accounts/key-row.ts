import type { Selectable } from 'kysely';
import type { PlanLimits } from '../config/plan.ts';
import type { Schema } from '../database/schema.ts';

export type KeyKind = 'caller' | 'admin';

/** The columns of a key that leave `accounts/`: all but its hash. */
export const KEY_COLUMNS = [
  'id',
  'account_id',
  'kind',
  'purpose',
  'name',
  'prefix',
  'last_four',
  'created_at',
  'expires_at',
  'revoked_at',
  'last_used_at',
  'last_used_ip',
  'allowed_models',
  'limits',
] as const;

/** A key, without its hash. */
export type KeyRow = Pick<Selectable<Schema['keys']>, (typeof KEY_COLUMNS)[number]>;

/** Returns whether a key works now, and if not, why. */
export function keyStatus(key: KeyRow, now: number): 'live' | 'revoked' | 'expired' {
  if (key.revoked_at !== null) return 'revoked';
  return key.expires_at !== null && key.expires_at <= now ? 'expired' : 'live';
}

/** Parses the column `limits`, which was checked when it was written. */
export function readLimits(text: string | null): PlanLimits | null {
  return text === null ? null : (JSON.parse(text) as PlanLimits);
}

/** Parses the column `allowed_models` into model IDs; null: all. */
export function readModels(text: string | null): ReadonlySet<string> | null {
  return text === null ? null : new Set(JSON.parse(text) as string[]);
}
