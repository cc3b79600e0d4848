import { sql, type Kysely, type Transaction } from 'kysely';
import { PROGRAM } from '../support/program-name.ts';
import { DatabaseError } from './errors.ts';
import type { DatabaseKind } from './migrations/column-types.ts';
import { createKeys } from './migrations/0001-keys.ts';
import { createAccounts } from './migrations/0002-accounts.ts';
import { createLedger } from './migrations/0003-ledger.ts';
import { createIdentity } from './migrations/0004-identity.ts';
import { allowClampedUsage } from './migrations/0005-clamped-usage.ts';
import { addReasoningTokens } from './migrations/0006-reasoning-tokens.ts';
import { addContinuedAfter } from './migrations/0007-continued-responses.ts';
import { createModels } from './migrations/0008-models.ts';
import { createDrainedReplicas } from './migrations/0009-drained-replicas.ts';
import { createRefusals } from './migrations/0010-refusals.ts';
import { renameClientDisconnected } from './migrations/0011-client-disconnected.ts';
import { renameUsers } from './migrations/0012-users.ts';
import { addKeyAuthors } from './migrations/0013-key-authors.ts';
import { addAccessRevisions } from './migrations/0014-access-revisions.ts';
import { addAuditIndexes } from './migrations/0015-audit-indexes.ts';
import { allowAuditRetention } from './migrations/0016-audit-retention.ts';
import { allowProtocols } from './migrations/0017-protocols.ts';
import { addCacheReadPrice } from './migrations/0018-cache-read-price.ts';
import { checkCacheReadPrice } from './migrations/0019-cache-read-price-check.ts';
import { addModelInput } from './migrations/0020-model-input.ts';
import { addStrictKeys } from './migrations/0021-strict-keys.ts';
import { addCacheMisses } from './migrations/0022-cache-misses.ts';
import { createAlerts } from './migrations/0023-alerts.ts';
import { addPreviousSecrets } from './migrations/0024-previous-secrets.ts';
import { addKeyTags } from './migrations/0025-key-tags.ts';
import { addClients } from './migrations/0026-clients.ts';
import { indexRefusalKinds } from './migrations/0027-refusal-kinds.ts';
import { addPlaygroundSessions } from './migrations/0028-playground-sessions.ts';
import { addAccountLimits } from './migrations/0029-account-limits.ts';
import type { Schema } from './schema.ts';

/** Upgrades the tables from the previous version, in SQLite or PostgreSQL. A released migration is never changed. */
type Migration = (database: Transaction<Schema>, kind: DatabaseKind) => Promise<void>;

/** How a process follows the migrations that it runs. */
export interface MigrationOptions {
  /** Whether to migrate the tables. Otherwise, those of an earlier version are refused with `older_schema`. Default: true. */
  migrates?: boolean;
  /** Called with the name of each migration before it runs. A migration of many rows can take minutes. */
  onMigration?: (name: string) => void;
  /** Called with the client that migrations wait for, such as a backup. PostgreSQL only. */
  onMigrationWait?: (client: string) => void;
  /** Stops waiting to migrate. PostgreSQL only. */
  signal?: AbortSignal;
}

/** The first migration. Only a new database lacks it. */
export const FIRST_MIGRATION = '0001_keys';

/**
 * Applied in this order. There are no migrations back to an earlier version. A migration that takes long comes before
 * one that locks more, because locks are held until all are applied.
 */
const MIGRATIONS: ReadonlyMap<string, Migration> = new Map([
  [FIRST_MIGRATION, createKeys],
  ['0002_accounts', createAccounts],
  ['0003_ledger', createLedger],
  ['0004_identity', createIdentity],
  ['0005_clamped_usage', allowClampedUsage],
  ['0006_reasoning_tokens', addReasoningTokens],
  ['0007_continued_responses', addContinuedAfter],
  ['0008_models', createModels],
  ['0009_drained_replicas', createDrainedReplicas],
  ['0010_refusals', createRefusals],
  ['0011_client_disconnected', renameClientDisconnected],
  ['0012_users', renameUsers],
  ['0013_key_authors', addKeyAuthors],
  ['0015_audit_indexes', addAuditIndexes],
  ['0014_access_revisions', addAccessRevisions],
  ['0016_audit_retention', allowAuditRetention],
  ['0017_protocols', allowProtocols],
  ['0018_cache_read_price', addCacheReadPrice],
  ['0019_cache_read_price_check', checkCacheReadPrice],
  ['0020_model_input', addModelInput],
  ['0021_strict_keys', addStrictKeys],
  ['0022_cache_misses', addCacheMisses],
  ['0023_alerts', createAlerts],
  ['0024_previous_secrets', addPreviousSecrets],
  ['0025_key_tags', addKeyTags],
  ['0026_clients', addClients],
  ['0027_refusal_kinds', indexRefusalKinds],
  ['0028_playground_sessions', addPlaygroundSessions],
  ['0029_account_limits', addAccountLimits],
]);

/** Applied after all others have committed, because they read a large table and need a weaker lock than the others. */
const SEPARATE: ReadonlySet<string> = new Set(['0019_cache_read_price_check']);

/** ID of the advisory lock that instances take to migrate. On PostgreSQL, such a lock applies to one database. */
const LOCK = 0x51_01_ce;

/**
 * Migrates the tables to the newest version in one transaction, and those of `SEPARATE` in another. A transaction holds a
 * lock from its first statement, so that processes that start at the same time do not collide. Calls `onMigration` before each migration. Rejects with
 * a `DatabaseError` `newer_schema` if the database has unknown migrations; its message refers to the database as
 * `name`.
 */
export async function migrate(
  database: Kysely<Schema>,
  kind: DatabaseKind,
  name: string,
  onMigration?: (name: string) => void,
): Promise<void> {
  if (await isMigrated(database, kind, name)) return;
  for (const separate of [false, true]) {
    const names = [...MIGRATIONS.keys()].filter((migration) => SEPARATE.has(migration) === separate);
    await apply(database, kind, name, names, onMigration);
  }
}

/** Returns the error for tables that `migrate` would change. */
export function olderSchema(name: string): DatabaseError {
  return new DatabaseError(
    'older_schema',
    `The database ${name} has the tables of an earlier version of Sluice. \`${PROGRAM} database migrate\` migrates them.`,
  );
}

/** Applies those of the migrations that are not applied yet, in one transaction. */
async function apply(
  database: Kysely<Schema>,
  kind: DatabaseKind,
  name: string,
  migrations: readonly string[],
  onMigration?: (name: string) => void,
): Promise<void> {
  await database.transaction().execute(async (transaction) => {
    // On SQLite the transaction takes the lock when it begins.
    if (kind === 'postgres') await sql`select pg_advisory_xact_lock(${sql.lit(LOCK)})`.execute(transaction);
    const done = await applied(transaction, kind, name);
    await sql`create table if not exists migrations (name varchar(255) not null primary key, timestamp varchar(255) not null)`.execute(
      transaction,
    );
    for (const migration of migrations) {
      if (done.has(migration)) continue;
      onMigration?.(migration);
      await MIGRATIONS.get(migration)?.(transaction, kind);
      await sql`insert into migrations (name, timestamp) values (${migration}, ${new Date().toISOString()})`.execute(
        transaction,
      );
    }
  });
}

/** Whether all migrations are applied. Rejects like `migrate`. */
export async function isMigrated(
  database: Kysely<Schema>,
  kind: DatabaseKind,
  name: string,
): Promise<boolean> {
  return (await applied(database, kind, name)).size === MIGRATIONS.size;
}

async function applied(
  database: Kysely<Schema>,
  kind: DatabaseKind,
  name: string,
): Promise<ReadonlySet<string>> {
  const found =
    kind === 'sqlite'
      ? await sql`select 1 from sqlite_master where type = 'table' and name = 'migrations'`.execute(database)
      : // Not `to_regclass`, which reads caches and may return a state from before the lock was taken.
        await sql`select 1 from pg_class where relname = 'migrations' and pg_table_is_visible(oid)`.execute(
          database,
        );
  if (found.rows.length === 0) return new Set();
  const { rows } = await sql<{ name: string }>`select name from migrations order by name`.execute(database);
  const names = rows.map((row) => row.name);
  assertKnownMigrations(names, name);
  return new Set(names);
}

/** Throws a `DatabaseError` `newer_schema` if the database `name` has a migration of a newer version. */
export function assertKnownMigrations(names: readonly string[], name: string): void {
  const unknown = names.filter((migration) => !MIGRATIONS.has(migration));
  if (unknown.length > 0) {
    throw new DatabaseError(
      'newer_schema',
      `The database ${name} was migrated by a newer version of Sluice (${unknown.join(', ')}). ` +
        'Start that version, or restore a backup from before the upgrade (on PostgreSQL: to an empty database).',
    );
  }
}
