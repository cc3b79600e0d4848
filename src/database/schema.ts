import type { ColumnType } from 'kysely';
import type { LedgerTable } from './ledger-columns.ts';

/**
 * The tables, as Kysely types; `migrations/` makes them, the same on SQLite and PostgreSQL. Times are whole Unix
 * milliseconds. Flags are 0 or 1. Money is pico-dollars in a 64-bit integer and leaves the database as text
 * (`cast(… as text)`), because a number of JavaScript ends at 2^53. A column that is written once and never
 * changed says so with `never` in its update type.
 */
export interface Schema {
  accounts: AccountsTable;
  people: PeopleTable;
  memberships: MembershipsTable;
  credentials: CredentialsTable;
  sessions: SessionsTable;
  verifications: VerificationsTable;
  second_factors: SecondFactorsTable;
  recovery_codes: RecoveryCodesTable;
  attempts: AttemptsTable;
  invitations: InvitationsTable;
  keys: KeysTable;
  settings: SettingsTable;
  instances: InstancesTable;
  /** One row per admitted request, never its prompt or its response. Partitioned by month of `id` on PostgreSQL. */
  ledger: LedgerTable;
  usage_days: UsageDaysTable;
  latency_days: LatencyDaysTable;
  audit: AuditTable;
}

type Fixed<T> = ColumnType<T, T, never>;
/** Has a default in the database. */
type Defaulted<T> = ColumnType<T, T | undefined, T>;
/** Written as a bigint; to be read through a cast to text. */
type Pico = ColumnType<never, bigint, bigint>;

export type AccountStatus = 'active' | 'suspended' | 'closed';

interface AccountsTable {
  id: Fixed<string>;
  name: string;
  /** Name of a plan of the configuration; null: the default plan. */
  plan: string | null;
  /** Keys of an account that is not active open nothing. */
  status: AccountStatus;
  created_at: Fixed<number>;
}

/** Somebody who may use the console. Deleting one leaves accounts, keys and ledger as they are. */
interface PeopleTable {
  id: Fixed<string>;
  name: string;
  /** In lower case; unique. */
  email: string;
  /** 1: a provider or a message to the address has proved that it is theirs. */
  email_verified: Defaulted<number>;
  /** 1: may manage the whole service. */
  operator: Defaulted<number>;
  /** 1: has a second factor, without which no session of theirs is worth anything. */
  two_factor: Defaulted<number>;
  created_at: Fixed<number>;
  updated_at: Defaulted<number>;
}

export type Role = 'owner' | 'member';

/** Who may act for an account. */
interface MembershipsTable {
  account_id: Fixed<string>;
  person_id: Fixed<string>;
  role: Role;
  created_at: Fixed<number>;
}

/** One way in which a person can sign in: a password, or who they are at a provider. */
interface CredentialsTable {
  id: Fixed<string>;
  person_id: Fixed<string>;
  /** Id of a provider of the configuration; `credential`: the password. */
  provider: Fixed<string>;
  /** Who they are there, by a name that never changes; of the password, the person's own id. */
  subject: Fixed<string>;
  /** scrypt, with its salt; null: not a password. */
  password_hash: string | null;
  created_at: Fixed<number>;
  updated_at: number;
}

/** Who is signed in to the console. */
interface SessionsTable {
  id: Fixed<string>;
  /** SHA-256 of what the cookie carries, 64 lower-case hexadecimal digits: who reads this table is nobody by it. */
  token_hash: Fixed<string>;
  person_id: Fixed<string>;
  /** 1: the second factor is still to be given, and nothing else is opened by it. */
  pending: Fixed<number>;
  ip: Fixed<string | null>;
  user_agent: Fixed<string | null>;
  created_at: Fixed<number>;
  /** Right to the minute. */
  last_active_at: number;
  expires_at: number;
}

/** What somebody has to come back with: the state of a sign-in at a provider, a link to a new password. */
interface VerificationsTable {
  id: Fixed<string>;
  /** SHA-256 of it where it is a secret. */
  identifier: Fixed<string>;
  value: string;
  created_at: Fixed<number>;
  updated_at: number;
  expires_at: number;
}

/** The authenticator app of a person. */
interface SecondFactorsTable {
  person_id: Fixed<string>;
  /** Base32, as the app has it. */
  secret: string;
  /** 0: the person has not shown yet that their app has it. */
  confirmed: number;
  /** The newest step of 30 seconds whose code was taken: none is taken twice. */
  last_step: number;
  created_at: number;
}

/** Each opens the way of a second factor once, and is gone. */
interface RecoveryCodesTable {
  person_id: Fixed<string>;
  /** SHA-256, 64 lower-case hexadecimal digits. */
  hash: Fixed<string>;
}

/** How often something was tried that may not be tried at will. */
interface AttemptsTable {
  /** What is tried, and the hash of by whom or for whom. */
  name: Fixed<string>;
  count: number;
  /** When the count begins anew. */
  until: number;
}

/** Somebody who may act for an account once they accept. Gone when they do, or when it is withdrawn. */
interface InvitationsTable {
  id: Fixed<string>;
  /** SHA-256 of what the link carries, 64 lower-case hexadecimal digits. */
  token_hash: Fixed<string>;
  account_id: Fixed<string>;
  /** In lower case. */
  email: Fixed<string>;
  role: Fixed<Role>;
  /** As an actor of the audit log. */
  invited_by: Fixed<string>;
  created_at: Fixed<number>;
  expires_at: Fixed<number>;
}

interface KeysTable {
  id: Fixed<string>;
  account_id: Fixed<string>;
  /** `caller` may generate; `admin` may also manage, and see the state of every model. */
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
  /** JSON list of model ids that the key may use; null: all. */
  allowed_models: string | null;
  /** JSON of limits of its own, below the plan's, in the form a plan has in the configuration; null: none. */
  limits: string | null;
  /** `playground`: made by the console for itself, for an hour. */
  purpose: ColumnType<KeyPurpose, KeyPurpose | undefined, never>;
  /** Address of the last request with it; written with `last_used_at`. */
  last_used_ip: string | null;
}

export type KeyPurpose = 'api' | 'playground';

/** What the service keeps about itself, such as the secret from which cache scopes are made. */
interface SettingsTable {
  name: Fixed<string>;
  value: string;
}

/** A running copy of the service. Only one that is live may write its rows of the ledger. */
interface InstancesTable {
  /** Given by the database, ever higher. */
  epoch: ColumnType<number, never, never>;
  /** 1 until its lease has ended and another copy has settled its rows. */
  live: number;
  /** On the database's clock. */
  lease_until: number;
  started_at: Fixed<number>;
  /** Process id, for a SQLite home whose copies are all on one machine. */
  pid: Fixed<number>;
}

/** Sums of a UTC day by the day on which the requests started; written in the transaction that settles a row. */
interface UsageDaysTable {
  account_id: Fixed<string>;
  /** Days since 1970-01-01. */
  day: Fixed<number>;
  model: Fixed<string>;
  key_id: Fixed<string>;
  requests: number;
  /** Ended by a fault of ours, with an error code. */
  errors: number;
  /** The caller hung up. */
  aborted: number;
  interrupted: number;
  prompt_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  /** Prompt and completion tokens that count against limits: not those of our faults. */
  billed_tokens: number;
  cost_pico: Pico;
}

/** Histograms of a UTC day. */
interface LatencyDaysTable {
  account_id: Fixed<string>;
  day: Fixed<number>;
  model: Fixed<string>;
  key_id: Fixed<string>;
  /** Time to first token, or tokens a second after it. */
  measure: Fixed<'ttft' | 'speed'>;
  /** Index of a logarithmic bucket. */
  bucket: Fixed<number>;
  count: number;
}

/** Who did what to whom. Append-only: the database refuses changes. */
interface AuditTable {
  /** UUIDv7 as text. */
  id: Fixed<string>;
  at: Fixed<number>;
  /** `key:<id>`, `person:<id>`, `cli:<user name>`, `service` or `visitor`. */
  actor: Fixed<string>;
  /** Address it came from; null: the command line. */
  ip: Fixed<string | null>;
  /** Such as `key.revoke`. */
  action: Fixed<string>;
  /** Such as `key:key_12…`. */
  subject: Fixed<string>;
  account_id: Fixed<string | null>;
  /** JSON of what changed, no secrets. */
  detail: Fixed<string>;
}

/** The account that every key belongs to unless it is told otherwise; the first migration makes it. */
export const DEFAULT_ACCOUNT_ID = 'default';

/** Row of `settings`: 256 random bits in hexadecimal, made once with the database. */
export const CACHE_SCOPE_SECRET = 'cache_scope_secret';

/** Row of `settings`: a number that triggers raise with every change of who may do what. */
export const ACCESS_REVISION = 'access_revision';

/** Row of `settings`: 256 random bits in hexadecimal, made once; cookies of the console are signed with it. */
export const AUTH_SECRET = 'auth_secret';

/** Row of `settings`: until when the set-up link opens, in Unix milliseconds, and the hash of its token. */
export const SETUP_TOKEN = 'setup_token';
