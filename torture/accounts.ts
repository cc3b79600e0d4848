import { createAccount } from '../src/accounts/accounts.ts';
import { createKey } from '../src/accounts/key-table.ts';
import { openDatabase, type DatabaseOptions } from '../src/database/database.ts';
import type { Caller } from './books.ts';

/** Who calls: how often, on which plan, with how many keys. */
const CAST = [
  { plan: 'roomy', keys: 2, weight: 4 },
  // Calls only in strikes.
  { plan: 'hostile', keys: 1, weight: 0 },
  { plan: 'tight', keys: 1, weight: 1 },
  { plan: 'budget', keys: 1, weight: 1 },
] as const;

export type TortureCaller = Caller & { plan: (typeof CAST)[number]['plan']; weight: number };

/** A key below the limits of its account's plan has counters of its own. */
const KEY_LIMITS = { tokensPerDay: 500_000_000, tokensPerMonth: 500_000_000, usdPerMonth: '500' };

export interface Cast {
  callers: TortureCaller[];
  /** A key that may ask how limits stand. */
  adminKey: string;
}

/** Makes the tables, the accounts and their keys. */
export async function makeCast(place: DatabaseOptions): Promise<Cast> {
  await using database = await openDatabase(place);
  const by = { id: 'cli:torture', ip: null };
  const callers: TortureCaller[] = [];
  for (const { plan, keys, weight } of CAST) {
    const account = await createAccount(database, { name: plan, plan: { name: plan, limits: {} } }, by);
    for (let index = 0; index < keys; index++) {
      const limits = index === 0 ? null : KEY_LIMITS;
      const wanted = { name: `${plan}-${index}`, accountId: account.id, limits };
      const { key, record } = await createKey(database, wanted, by);
      callers.push({ account: account.id, keyId: record.id, key: key.reveal(), plan, weight });
    }
  }
  const { key } = await createKey(database, { name: 'admin', kind: 'admin' }, by);
  return { callers, adminKey: key.reveal() };
}
