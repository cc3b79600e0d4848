import type { ColumnType, Transaction as KyselyTransaction } from 'kysely';
import type { LedgerRow, SummedName } from './ledger-columns.ts';

/**
 * The Kysely types of the tables, which `migrations/` creates with the same columns on SQLite and PostgreSQL. Times are
 * Unix milliseconds. Flags are 0 or 1. Money is pico-dollars in a 64-bit integer, and is read as text (`cast(… as
 * text)`) because it can exceed 2^53. The update type of a column that never changes is `never`.
 */
export interface Schema {
  accounts: AccountsTable;
  users: UsersTable;
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
  /** One row per admitted request, without prompt and response. Partitioned by month of `id` on PostgreSQL. */
  ledger: LedgerTable;
  usage_days: UsageDaysTable;
  client_days: ClientDaysTable;
  latency_days: LatencyDaysTable;
  audit: AuditTable;
  models: ModelsTable;
  drained_replicas: DrainedReplicasTable;
  refusals: RefusalsTable;
  alerts: AlertsTable;
  alert_messages: AlertMessagesTable;
  alert_silences: AlertSilencesTable;
}

/** A transaction on these tables. */
export type Transaction = KyselyTransaction<Schema>;

type Fixed<T> = ColumnType<T, T, never>;
/** Has a default in the database. */
type Defaulted<T> = ColumnType<T, T | undefined, T>;
/** Written as a bigint, read through a cast to text. */
type Pico = ColumnType<never, bigint, bigint>;

export type AccountStatus = 'active' | 'suspended' | 'closed';

interface AccountsTable {
  id: Fixed<string>;
  name: string;
  /** Name of a plan in the configuration; null for the default plan. */
  plan: string | null;
  /** Its own limits over those of the plan, as JSON; null: none. */
  limits: string | null;
  /** Keys of an account that is not active are refused. */
  status: AccountStatus;
  created_at: Fixed<number>;
  /** Access revision of the latest change. Set by triggers. */
  access_revision: ColumnType<number, never, never>;
}

/** Users of the console. Deleting a user does not change accounts, keys and ledger. */
interface UsersTable {
  id: Fixed<string>;
  name: string;
  /** In lower case; unique. */
  email: string;
  /** 1: verified by a provider, an email or an operator. */
  email_verified: Defaulted<number>;
  /** 1: manages the whole service. */
  operator: Defaulted<number>;
  /** 1: two-factor authentication is enabled, and every session must complete it. */
  two_factor: Defaulted<number>;
  created_at: Fixed<number>;
  updated_at: Defaulted<number>;
}

export type MemberRole = 'owner' | 'member';

interface MembershipsTable {
  account_id: Fixed<string>;
  user_id: Fixed<string>;
  role: MemberRole;
  created_at: Fixed<number>;
}

/** A way to sign in: a password, or an identity at a provider. */
interface CredentialsTable {
  id: Fixed<string>;
  user_id: Fixed<string>;
  /** ID of a configured provider, or `credential` for a password. */
  provider: Fixed<string>;
  /** The user's permanent ID at the provider; for a password, the user's own ID. */
  subject: Fixed<string>;
  /** scrypt hash and salt; null if the credential is not a password. */
  password_hash: string | null;
  created_at: Fixed<number>;
  updated_at: number;
}

/** Sessions of the console. */
interface SessionsTable {
  id: Fixed<string>;
  /** SHA-256 of the cookie's token, 64 lower-case hexadecimal digits: reading this table does not give access. */
  token_hash: Fixed<string>;
  user_id: Fixed<string>;
  /** 1 until the second factor is completed. Until then, the user is not signed in. */
  pending: Fixed<number>;
  ip: Fixed<string | null>;
  user_agent: Fixed<string | null>;
  created_at: Fixed<number>;
  /** Accurate to a minute. */
  last_active_at: number;
  expires_at: number;
}

/** Pending verifications: the state of a sign-in at a provider, or a password link. */
interface VerificationsTable {
  id: Fixed<string>;
  /** If the identifier is a secret, its SHA-256 hash. */
  identifier: Fixed<string>;
  value: string;
  created_at: Fixed<number>;
  updated_at: number;
  expires_at: number;
}

/** The authenticator app of a user. */
interface SecondFactorsTable {
  user_id: Fixed<string>;
  /** Base32, as the app stores it. */
  secret: string;
  /** 0: the user has not entered a first code yet. */
  confirmed: number;
  /** The latest 30-second step whose code was used, so that no code is used twice. */
  last_step: number;
  created_at: number;
}

/** Each recovery code can be entered once in place of a code of the authenticator app, and is then deleted. */
interface RecoveryCodesTable {
  user_id: Fixed<string>;
  /** SHA-256, 64 lower-case hexadecimal digits. */
  hash: Fixed<string>;
}

/** Counters of rate-limited attempts. */
interface AttemptsTable {
  /** The kind of attempt, and a hash of its source or target. */
  name: Fixed<string>;
  count: number;
  /** When the count restarts. */
  until: number;
}

/** Invitations to accounts. Deleted when accepted or withdrawn. */
interface InvitationsTable {
  id: Fixed<string>;
  /** SHA-256 of the link's token, 64 lower-case hexadecimal digits. */
  token_hash: Fixed<string>;
  account_id: Fixed<string>;
  /** In lower case. */
  email: Fixed<string>;
  role: Fixed<MemberRole>;
  /** In the format of an audit log actor. */
  invited_by: Fixed<string>;
  created_at: Fixed<number>;
  expires_at: Fixed<number>;
}

interface KeysTable {
  id: Fixed<string>;
  account_id: Fixed<string>;
  /** `caller` can use models and read the receipts of its account; `admin` can also manage the service. */
  kind: Fixed<'caller' | 'admin'>;
  name: string;
  /** SHA-256 of the whole key, 64 lower-case hexadecimal digits. */
  hash: string;
  /** The first characters of the key, for identification. */
  prefix: string;
  last_four: string;
  created_at: Fixed<number>;
  /** The key is refused from this time on; null if it never expires. */
  expires_at: number | null;
  revoked_at: number | null;
  /** Accurate to a minute, because it is written in batches. */
  last_used_at: number | null;
  /** JSON list of the model IDs that the key may use; null for all models. */
  allowed_models: string | null;
  /**
   * JSON of the key's own limits, in the format of a plan. They apply in addition to those of the plan. Null if the key
   * has none.
   */
  limits: string | null;
  /** 1: a request is refused if something in it would have no effect. */
  strict: ColumnType<number, number | undefined, number>;
  /** JSON list of the tags, in their order; null: none. */
  tags: ColumnType<string | null, string | null | undefined, string | null>;
  /** `playground`: created by the console for its playground, valid for an hour. */
  purpose: ColumnType<KeyPurpose, KeyPurpose | undefined, never>;
  /** IP address of the last request; written with `last_used_at`. */
  last_used_ip: string | null;
  /** Program that sent the last request; written with `last_used_at`. Null: not used since clients are recognized. */
  last_used_client: ColumnType<string | null, string | null | undefined, string | null>;
  /** In the format of an audit log actor; null: created by a version that did not store it. */
  created_by: ColumnType<string | null, string | null | undefined, never>;
  /** ID of the session that created a playground key, and whose end revokes it; null: none. */
  session_id: ColumnType<string | null, string | null | undefined, never>;
  /** The hash and the last characters of the secret before a rotation; null: none, or it no longer works. */
  previous_hash: ColumnType<string | null, string | null | undefined, string | null>;
  previous_last_four: ColumnType<string | null, string | null | undefined, string | null>;
  /** The previous secret is refused from this time on. */
  previous_expires_at: ColumnType<number | null, number | null | undefined, number | null>;
  /** When the previous secret was last used since the rotation; null: never. Written with `last_used_at`. */
  previous_used_at: ColumnType<number | null, number | null | undefined, number | null>;
  /** Access revision of the latest change of access rights. Set by triggers. */
  access_revision: ColumnType<number, never, never>;
}

export type KeyPurpose = 'api' | 'playground';

/** Internal values of the service, such as the secret for cache scopes. */
interface SettingsTable {
  name: Fixed<string>;
  value: string;
}

/** Replicas that get no new requests, because an operator has drained them. */
interface DrainedReplicasTable {
  /** ID of the model. */
  model: Fixed<string>;
  /** URL of the server, or the name of an embedded engine. */
  server: Fixed<string>;
  drained_at: Fixed<number>;
}

/** Instances of the service. Only a live one may write its rows of the ledger. */
interface InstancesTable {
  /** Assigned by the database, increasing. */
  epoch: ColumnType<number, never, never>;
  /** 1 until the instance stops, or until its lease expires and another instance settles its rows. */
  live: number;
  /** Time on the database's clock. */
  lease_until: number;
  started_at: Fixed<number>;
  /** Process ID, for operators. */
  pid: Fixed<number>;
}

/** The columns of `LEDGER`, and the instance that opened the row. */
type LedgerTable = { epoch: Fixed<number> } & {
  [N in keyof LedgerRow]: N extends `${string}_pico` ? Pico : LedgerRow[N];
};

/** Daily sums by the UTC day on which the requests started. Written in the transaction that settles a request. */
interface UsageDaysTable extends Record<SummedName, number> {
  account_id: Fixed<string>;
  /** Days since 1970-01-01. */
  day: Fixed<number>;
  model: Fixed<string>;
  key_id: Fixed<string>;
  requests: number;
  /** Requests that ended with an error. Excludes those in `aborted` and `interrupted`. */
  errors: number;
  /** Requests whose client disconnected. */
  aborted: number;
  interrupted: number;
  /** Prompt and completion tokens that count against limits. Excludes requests that failed because of the service. */
  billed_tokens: number;
  cost_pico: Pico;
}

/** The sums of `usage_days` by client, without requests whose client is null. Written in the same transactions. */
interface ClientDaysTable extends UsageDaysTable {
  client: Fixed<string>;
}

/** Latency histograms by UTC day: one row per bucket. */
interface LatencyDaysTable {
  account_id: Fixed<string>;
  day: Fixed<number>;
  model: Fixed<string>;
  key_id: Fixed<string>;
  /** `ttft`: time to first token. `speed`: tokens per second after the first token. */
  measure: Fixed<'ttft' | 'speed'>;
  /** Index of a logarithmic bucket. */
  bucket: Fixed<number>;
  count: number;
}

/** The audit log. Append-only: the database refuses changes. */
interface AuditTable {
  /** UUIDv7 as text. */
  id: Fixed<string>;
  at: Fixed<number>;
  /** `key:<id>`, `user:<id>`, `cli:<user name>`, `service` or `visitor`. */
  actor: Fixed<string>;
  /** IP address; null if it is unknown or the change was made on this machine. */
  ip: Fixed<string | null>;
  /** Such as `key.revoke`. */
  action: Fixed<string>;
  /** Such as `key:key_12…`. */
  subject: Fixed<string>;
  account_id: Fixed<string | null>;
  /** JSON of the changes, without secrets. */
  detail: Fixed<string>;
}

/** Models that were added to a running service. Those of the configuration file are not in the database. */
interface ModelsTable {
  id: Fixed<string>;
  /** The instance that runs the model's engine, on PostgreSQL; empty: every instance serves the model. */
  node: Fixed<string>;
  /** An element of `models` in the configuration, in JSON. */
  definition: string;
  /** 0: an operator has unloaded it. */
  loaded: number;
  created_at: Fixed<number>;
}

/** Refused requests, which are not in the ledger: counts per minute, kept for 7 days. */
interface RefusalsTable {
  /** Minutes since 1970-01-01. */
  minute: Fixed<number>;
  /** Empty: the request had no valid key. */
  account_id: Fixed<string>;
  key_id: Fixed<string>;
  /** An error code, or `other` for further kinds of refusals in the same minute. */
  code: Fixed<string>;
  /** Path of the invalid field, without indices; empty: none. */
  param: Fixed<string>;
  count: number;
  last_at: number;
  /** Message of the last refusal. */
  message: string;
}

/** Alerts of all instances. */
interface AlertsTable {
  /** UUIDv7 as text. */
  id: Fixed<string>;
  /** Unique, so that one instance inserts the alert. The condition, followed by `#` and the ID once it may fire again. */
  dedupe_key: string;
  /** What is wrong: the type and its subject, such as `budget_80:acct_1:usdPerMonth::2026-11`. */
  condition: Fixed<string>;
  /** A newer version may have written a type that this one does not know. */
  type: Fixed<string>;
  title: Fixed<string>;
  body: Fixed<string>;
  fired_at: Fixed<number>;
  /** When an instance last found the condition. */
  seen_at: number;
  /** Null: it is firing. */
  resolved_at: number | null;
}

/** What is sent about alerts: one row per alert, event and channel. */
interface AlertMessagesTable {
  /** UUIDv7 as text. Receivers get it with each attempt. */
  id: Fixed<string>;
  alert_id: Fixed<string>;
  event: Fixed<'firing' | 'resolved'>;
  /** Such as `webhook:pager`. */
  channel: Fixed<string>;
  /** `silenced`: the alert was over before its silence. */
  state: 'pending' | 'sent' | 'failed' | 'silenced';
  attempts: number;
  /** When it was queued. */
  created_at: number;
  /** When it may be sent. An instance that sends it moves this ahead, so that no other does. */
  next_at: number;
  sent_at: number | null;
  /** Of the latest attempt; null: it succeeded, or there was none. */
  error: string | null;
}

/** Alerts that send no messages until a time. Kept for a day after it. */
interface AlertSilencesTable {
  /** A type of alerts, or the condition of one. */
  target: Fixed<string>;
  until: number;
  created_at: number;
  /** In the format of an audit log actor. */
  created_by: string;
}

/** The default account of new keys; created by the first migration. */
export const DEFAULT_ACCOUNT_ID = 'default';

/** Row of `settings`: 256 random bits in hexadecimal, created with the database. */
export const CACHE_SCOPE_SECRET = 'cache_scope_secret';

/** Row of `settings`: a number that increases with every change of access rights. Increased by triggers. */
export const ACCESS_REVISION = 'access_revision';

/** Row of `settings`: the access revision at which a key or account was deleted, so that all keys must be read again. */
export const ACCESS_RELOAD = 'access_reload';

/** Row of `settings`: a number that increases with every change of the table `models`. */
export const MODELS_REVISION = 'models_revision';

/** Row of `settings`: the ID of the default model. Absent: the first model is the default. */
export const DEFAULT_MODEL = 'default_model';

/** Row of `settings`: entries of the audit log from before this time, in Unix milliseconds, may be deleted. Absent: none. */
export const AUDIT_KEEP_FROM = 'audit_keep_from';

/** Row of `settings`: 256 random bits in hexadecimal that sign the console's cookies. */
export const AUTH_SECRET = 'auth_secret';

/** Row of `settings`: the expiry of the setup link in Unix milliseconds, and the hash of its token. */
export const SETUP_TOKEN = 'setup_token';
