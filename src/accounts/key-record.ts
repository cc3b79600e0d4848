import type { Selectable } from 'kysely';
import type { PlanLimits } from '../config/plan.ts';
import type { KeyPurpose, Schema } from '../database/schema.ts';

export type KeyKind = 'caller' | 'admin';

/** A key, without its hash. Times are Unix milliseconds. */
export interface KeyRecord {
  id: string;
  accountId: string;
  kind: KeyKind;
  purpose: KeyPurpose;
  name: string;
  /** First characters of the key. */
  prefix: string;
  lastFour: string;
  createdAt: number;
  /** Null: never. */
  expiresAt: number | null;
  revokedAt: number | null;
  /** Accurate to the minute; null: never used. */
  lastUsedAt: number | null;
  /** The IP address of its last use; null: unknown. */
  lastUsedIp: string | null;
  /** IDs of the models that it may use; null: all. */
  allowedModels: readonly string[] | null;
  /** The key's own limits, in addition to the plan's; null: none. */
  limits: PlanLimits | null;
}

/** Returns whether a key works now, and if not, why. */
export function keyStatus(key: KeyRecord, now: number): 'live' | 'revoked' | 'expired' {
  if (key.revokedAt !== null) return 'revoked';
  return key.expiresAt !== null && key.expiresAt <= now ? 'expired' : 'live';
}

/** The columns of a key, without the one that triggers set. */
export type KeyRow = Omit<Selectable<Schema['keys']>, 'access_revision'>;

export function toRecord(row: KeyRow): KeyRecord {
  const models = readModels(row.allowed_models);
  return {
    id: row.id,
    accountId: row.account_id,
    kind: row.kind,
    purpose: row.purpose,
    name: row.name,
    prefix: row.prefix,
    lastFour: row.last_four,
    createdAt: row.created_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    lastUsedAt: row.last_used_at,
    lastUsedIp: row.last_used_ip,
    allowedModels: models === null ? null : [...models],
    limits: readLimits(row.limits),
  };
}

/** Parses the column `limits`, which was checked when it was written. */
export function readLimits(text: string | null): PlanLimits | null {
  return text === null ? null : (JSON.parse(text) as PlanLimits);
}

/** Parses the column `allowed_models` into model IDs; null: all. */
export function readModels(text: string | null): ReadonlySet<string> | null {
  return text === null ? null : new Set(JSON.parse(text) as string[]);
}
