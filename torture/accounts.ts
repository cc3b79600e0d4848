import { createAccount } from '../src/accounts/accounts.ts';
import { createKey } from '../src/accounts/key-table.ts';
import { openDatabase, type DatabaseOptions } from '../src/database/database.ts';
import type { CallerKey } from './records.ts';

/** The plan and number of keys of each account, and the relative number of its requests. */
const ACCOUNTS = [
  { plan: 'roomy', keys: 2, weight: 4 },
  // Sends requests only during faults.
  { plan: 'hostile', keys: 1, weight: 0 },
  { plan: 'tight', keys: 1, weight: 1 },
  { plan: 'budget', keys: 1, weight: 1 },
] as const;

export type TortureCaller = CallerKey & { plan: (typeof ACCOUNTS)[number]['plan']; weight: number };

/** Limits of a key, which are counted separately from those of its account. */
const KEY_LIMITS = { tokensPerDay: 500_000_000, tokensPerMonth: 500_000_000, usdPerMonth: '500' };

export interface TortureAccounts {
  callers: TortureCaller[];
  adminKey: string;
}

/** Migrates the database and creates the accounts and their keys. */
export async function createAccounts(location: DatabaseOptions): Promise<TortureAccounts> {
  await using database = await openDatabase(location);
  const by = { id: 'cli:torture', ip: null };
  const callers: TortureCaller[] = [];
  for (const { plan, keys, weight } of ACCOUNTS) {
    const account = await createAccount(
      database,
      { name: plan, plan: { name: plan, limits: {}, weight: 1 } },
      by,
    );
    for (let index = 0; index < keys; index++) {
      const limits = index === 0 ? null : KEY_LIMITS;
      const settings = { name: `${plan}-${index}`, accountId: account.id, limits };
      const { key, record } = await createKey(database, settings, by);
      callers.push({ account: account.id, keyId: record.id, key: key.reveal(), plan, weight });
    }
  }
  const { key } = await createKey(database, { name: 'admin', kind: 'admin' }, by);
  return { callers, adminKey: key.reveal() };
}
