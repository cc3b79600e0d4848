import type { ColumnType } from 'kysely';

/**
 * The tables, as Kysely types; `migrations.ts` makes them. Times are whole Unix milliseconds. A column that is
 * written once and never changed says so with `never` in its update type.
 */
export interface Schema {
  accounts: AccountsTable;
  keys: KeysTable;
  settings: SettingsTable;
}

type Fixed<T> = ColumnType<T, T, never>;

interface AccountsTable {
  id: Fixed<string>;
  name: string;
  /** Keys of an account that is not active open nothing. */
  status: 'active' | 'suspended' | 'closed';
  created_at: Fixed<number>;
}

interface KeysTable {
  id: Fixed<string>;
  account_id: Fixed<string>;
  /** `caller` may generate; `admin` may also see the state of every model. */
  kind: Fixed<'caller' | 'admin'>;
  name: string;
  /** SHA-256 of the whole key, 64 lower-case hexadecimal digits. */
  hash: Fixed<string>;
  /** The first characters of the key, enough for people to tell keys apart. */
  prefix: Fixed<string>;
  last_four: Fixed<string>;
  created_at: Fixed<number>;
  /** From this moment on the key is refused; null: never by itself. */
  expires_at: number | null;
  revoked_at: number | null;
  /** Right to the minute: it is written in batches. */
  last_used_at: number | null;
}

/** What the service keeps about itself, such as the secret from which cache scopes are made. */
interface SettingsTable {
  name: Fixed<string>;
  value: string;
}

/** The account that every key belongs to unless it is told otherwise; the first migration makes it. */
export const DEFAULT_ACCOUNT_ID = 'default';

/** Row of `settings`: 256 random bits in hexadecimal, made once with the database. */
export const CACHE_SCOPE_SECRET = 'cache_scope_secret';
