import { DatabaseSync, type SQLInputValue } from 'node:sqlite';
import { sql, type Kysely } from 'kysely';
import type { Schema, Transaction } from './schema.ts';
import { openSqlite } from './sqlite.ts';
import { columnsOf, tablesOf } from './sqlite-tables.ts';

/** Rows per statement. Writing them to SQLite blocks the event loop for a few milliseconds. */
const ROWS = 500;

/**
 * Copies a snapshot of a PostgreSQL database to the empty file `partial`, as a SQLite database with the same tables.
 * Rejects with the signal's reason or a `DatabaseError`.
 */
export async function copyPostgres(
  source: Kysely<Schema>,
  partial: string,
  { signal, onProgress }: { signal?: AbortSignal; onProgress?: (fraction: number) => void },
): Promise<void> {
  const migrated = await openSqlite(partial, { threads: false });
  await migrated[Symbol.asyncDispose]();
  const target = new DatabaseSync(partial, { enableForeignKeyConstraints: false });
  try {
    // The file is deleted unless the copy completes.
    target.exec('pragma journal_mode = delete; pragma synchronous = off');
    const tables = tablesOf(target);
    for (const table of tables) if (table !== 'audit') target.exec(`delete from ${table}`);
    await source
      .transaction()
      .setIsolationLevel('repeatable read')
      .setAccessMode('read only')
      .execute(async (transaction) => {
        for (const [index, table] of tables.entries()) {
          await copyTable(transaction, target, table, signal);
          onProgress?.((index + 1) / tables.length);
        }
      });
  } finally {
    target.close();
  }
}

async function copyTable(
  source: Transaction,
  target: DatabaseSync,
  table: string,
  signal: AbortSignal | undefined,
): Promise<void> {
  const columns = columnsOf(target, table);
  const names = sql.join(columns.map((column) => sql`${sql.ref(column)}::text`));
  await sql`declare rows no scroll cursor for select ${names} from ${sql.table(table)}`.execute(source);
  const insert = target.prepare(
    `insert into ${table} (${columns.join(', ')}) values (${columns.map(() => '?').join(', ')})`,
  );
  for (;;) {
    signal?.throwIfAborted();
    const { rows } = await sql<Record<string, SQLInputValue>>`fetch ${sql.lit(ROWS)} from rows`.execute(
      source,
    );
    if (rows.length === 0) break;
    target.exec('begin');
    for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null));
    target.exec('commit');
  }
  await sql`close rows`.execute(source);
}
