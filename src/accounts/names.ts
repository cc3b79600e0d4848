import type { Database } from '../database/database.ts';

/** What has IDs of a key and an account. */
interface Owned {
  key_id: string | null;
  account_id: string | null;
}

/** Null: no ID, or it no longer exists. */
export interface OwnerNames {
  key_name: string | null;
  account_name: string | null;
}

/** IDs in one query, because databases limit its parameters. */
const IDS_AT_ONCE = 500;

/** Returns the names of these keys, accounts or users, by ID. */
export async function namesOf(
  { kysely }: Database,
  table: 'keys' | 'accounts' | 'users',
  ids: Iterable<string | null>,
): Promise<ReadonlyMap<string, string>> {
  const wanted = [...new Set(ids)].filter((id) => id !== null);
  const names = new Map<string, string>();
  for (let at = 0; at < wanted.length; at += IDS_AT_ONCE) {
    const part = wanted.slice(at, at + IDS_AT_ONCE);
    const rows = await kysely.selectFrom(table).select(['id', 'name']).where('id', 'in', part).execute();
    for (const { id, name } of rows) names.set(id, name);
  }
  return names;
}

/** Adds to each row the names of its key and account. */
export async function withNames<Row extends Owned>(
  database: Database,
  rows: readonly Row[],
): Promise<(Row & OwnerNames)[]> {
  const namesOfOwner = await ownerNames(database, rows);
  return rows.map((row) => ({ ...row, ...namesOfOwner(row) }));
}

/** Adds to each row of usage the names of its key, account and member. */
export async function withUsageNames<Row extends Owned & { member_id: string | null }>(
  database: Database,
  rows: readonly Row[],
): Promise<(Row & OwnerNames & { member_name: string | null })[]> {
  const members = rows.map(({ member_id: id }) => id);
  const names = await namesOf(database, 'users', members);
  const named = await withNames(database, rows);
  return named.map((row) => ({ ...row, member_name: names.get(row.member_id ?? '') ?? null }));
}

/** Returns a function that returns the names of the key and the account of one of these rows. */
export async function ownerNames(
  database: Database,
  rows: readonly Owned[],
): Promise<(row: Owned) => OwnerNames> {
  const keys = await namesOf(
    database,
    'keys',
    rows.map(({ key_id }) => key_id),
  );
  const accounts = await namesOf(
    database,
    'accounts',
    rows.map(({ account_id }) => account_id),
  );
  return ({ key_id: key, account_id: account }) => ({
    key_name: keys.get(key ?? '') ?? null,
    account_name: accounts.get(account ?? '') ?? null,
  });
}

/** Returns the names of the keys, accounts and users that these references, such as `key:<id>`, name, by reference. */
export async function namesOfReferences(
  database: Database,
  references: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const named = new Map<string, string>();
  for (const [kind, table] of [
    ['key', 'keys'],
    ['account', 'accounts'],
    ['user', 'users'],
  ] as const) {
    const prefix = `${kind}:`;
    const ids = references.flatMap((one) => (one.startsWith(prefix) ? [one.slice(prefix.length)] : []));
    for (const [id, name] of await namesOf(database, table, ids)) named.set(prefix + id, name);
  }
  return named;
}
