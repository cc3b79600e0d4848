import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import type { DatabaseKind } from './column-types.ts';

/** Allows any protocol as the endpoint of a request. SQLite must copy the table to remove a constraint. */
export async function allowProtocols(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  if (kind === 'postgres') {
    // A partition keeps the constraint that it had before it was attached.
    const { rows } = await sql<{ name: string }>`
      select inhrelid::regclass::text as name from pg_inherits where inhparent = 'ledger'::regclass`.execute(
      database,
    );
    for (const name of ['ledger', ...rows.map((row) => row.name)]) {
      await sql`alter table ${sql.raw(name)} drop constraint if exists ledger_endpoint_check`.execute(
        database,
      );
    }
    return;
  }
  const { rows } = await sql<{ type: string; sql: string }>`
    select type, sql from sqlite_schema where tbl_name = 'ledger' and sql is not null`.execute(database);
  const table = rows.find(({ type }) => type === 'table')?.sql ?? '';
  await sql`alter table ledger rename to ledger_before`.execute(database);
  await sql.raw(table.replace(/ check \(endpoint in \([^)]*\)\)/, '')).execute(database);
  await sql`insert into ledger select * from ledger_before`.execute(database);
  await sql`drop table ledger_before`.execute(database);
  for (const { type, sql: text } of rows) if (type !== 'table') await sql.raw(text).execute(database);
}
