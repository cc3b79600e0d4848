import type { Selectable } from 'kysely';
import type { PlanLimits } from '../config/plan.ts';
import type { KeyPurpose, Schema } from '../database/schema.ts';
import { readLimits, readModels } from './key-limits.ts';

export type KeyKind = 'caller' | 'admin';

/** What is known of a key, its hash aside. Times in Unix milliseconds. */
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
  /** Null: it does not expire. */
  expiresAt: number | null;
  revokedAt: number | null;
  /** Right to the minute; null: never used. */
  lastUsedAt: number | null;
  /** The address that it was last used from; null: not known. */
  lastUsedIp: string | null;
  /** Ids of the models that it may use; null: all. */
  allowedModels: readonly string[] | null;
  /** Its own limits, below the plan's; null: none. */
  limits: PlanLimits | null;
}

/** Whether a key opens anything at this moment, and if not, why. */
export function keyStatus(key: KeyRecord, now: number): 'live' | 'revoked' | 'expired' {
  if (key.revokedAt !== null) return 'revoked';
  return key.expiresAt !== null && key.expiresAt <= now ? 'expired' : 'live';
}

/** A row of the table `keys` as the rest of the program speaks of it. */
export function toRecord(row: Selectable<Schema['keys']>): KeyRecord {
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
