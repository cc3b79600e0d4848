import { randomBytes } from 'node:crypto';
import { sql, type Kysely } from 'kysely';
import { Migrator, type Migration } from 'kysely/migration';
import { DatabaseError } from './errors.ts';
import { CACHE_SCOPE_SECRET, DEFAULT_ACCOUNT_ID, type Schema } from './schema.ts';

/**
 * Brings the tables to the newest version. The whole of it is one transaction that holds the write lock from its
 * first statement, so two processes that start at once do not collide: the second finds nothing left to do.
 * Rejects with a `DatabaseError` (`newer_schema`) when the database knows migrations that this program does not.
 */
export async function migrate(database: Kysely<Schema>, path: string): Promise<void> {
  if (standing(await applied(database), path)) return;
  await database.transaction().execute(async (transaction) => {
    if (standing(await applied(transaction), path)) return;
    const migrator = new Migrator({
      // The migrator's own tables are no part of our schema's type.
      db: transaction,
      provider: { getMigrations: () => Promise.resolve(MIGRATIONS) },
      migrationTableName: TABLE,
      migrationLockTableName: `${TABLE}_lock`,
    });
    const { error } = await migrator.migrateToLatest();
    if (error !== undefined) throw error;
  });
}

const TABLE = 'migrations';

/** Whether every migration is applied already; throws when there are some we do not know. */
function standing(names: readonly string[], path: string): boolean {
  const unknown = names.filter((name) => !(name in MIGRATIONS));
  if (unknown.length > 0) {
    throw new DatabaseError(
      'newer_schema',
      `The database ${path} was changed by a newer version of Sluice (${unknown.join(', ')}). ` +
        'Start that version, or bring back a backup from before it.',
    );
  }
  return names.length === Object.keys(MIGRATIONS).length;
}

async function applied(database: Kysely<Schema>): Promise<readonly string[]> {
  const tables = await sql`select 1 from sqlite_master where type = 'table' and name = ${TABLE}`.execute(
    database,
  );
  if (tables.rows.length === 0) return [];
  const { rows } = await sql<{ name: string }>`select name from ${sql.table(TABLE)} order by name`.execute(
    database,
  );
  return rows.map((row) => row.name);
}

/** Forward only, in the order of their names. One that has been released is never changed. */
const MIGRATIONS: Readonly<Record<string, Migration>> = {
  '0001_keys': { up: createKeys },
};

async function createKeys(database: Kysely<Schema>): Promise<void> {
  await database.schema
    .createTable('accounts')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('status', 'text', (column) =>
      column.notNull().check(sql`status in ('active', 'suspended', 'closed')`),
    )
    .addColumn('created_at', 'integer', (column) => column.notNull())
    .modifyEnd(sql`strict`)
    .execute();
  await database.schema
    .createTable('keys')
    .addColumn('id', 'text', (column) => column.primaryKey().notNull())
    .addColumn('account_id', 'text', (column) => column.notNull().references('accounts.id'))
    .addColumn('kind', 'text', (column) => column.notNull().check(sql`kind in ('caller', 'admin')`))
    .addColumn('name', 'text', (column) => column.notNull())
    .addColumn('hash', 'text', (column) =>
      column
        .notNull()
        .unique()
        .check(sql`length(hash) = 64`),
    )
    .addColumn('prefix', 'text', (column) => column.notNull())
    .addColumn('last_four', 'text', (column) => column.notNull())
    .addColumn('created_at', 'integer', (column) => column.notNull())
    .addColumn('expires_at', 'integer')
    .addColumn('revoked_at', 'integer')
    .addColumn('last_used_at', 'integer')
    .modifyEnd(sql`strict`)
    .execute();
  await database.schema
    .createTable('settings')
    .addColumn('name', 'text', (column) => column.primaryKey().notNull())
    .addColumn('value', 'text', (column) => column.notNull())
    .modifyEnd(sql`strict`)
    .execute();
  await database
    .insertInto('accounts')
    .values({ id: DEFAULT_ACCOUNT_ID, name: 'Default', status: 'active', created_at: Date.now() })
    .execute();
  await database
    .insertInto('settings')
    .values({ name: CACHE_SCOPE_SECRET, value: randomBytes(32).toString('hex') })
    .execute();
}
