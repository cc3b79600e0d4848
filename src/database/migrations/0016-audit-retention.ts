import { sql, type Transaction } from 'kysely';
import { AUDIT_KEEP_FROM, type Schema } from '../schema.ts';
import type { DatabaseKind } from './column-types.ts';

/** Allows entries of the audit log to be deleted if they are older than the setting `AUDIT_KEEP_FROM`. */
export async function allowAuditRetention(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  await (kind === 'postgres' ? triggersOfPostgres : triggersOfSqlite)(database);
}

async function triggersOfSqlite(database: Transaction<Schema>): Promise<void> {
  await sql`drop trigger audit_no_delete`.execute(database);
  await sql`
    create trigger audit_no_delete before delete on audit
    when old.at >= (
      select coalesce(max(cast(value as integer)), 0) from settings where name = ${sql.lit(AUDIT_KEEP_FROM)}
    )
    begin
      select raise(abort, 'the audit log is append-only');
    end`.execute(database);
}

async function triggersOfPostgres(database: Transaction<Schema>): Promise<void> {
  await sql`drop trigger audit_append_only on audit`.execute(database);
  await sql`
    create trigger audit_append_only before update or truncate on audit
    for each statement execute function refuse_change()`.execute(database);
  await sql`
    create function refuse_audit_deletion() returns trigger language plpgsql as $$
    begin
      if old.at >= coalesce((select value::bigint from settings where name = ${sql.lit(AUDIT_KEEP_FROM)}), 0) then
        raise exception 'the audit log is append-only';
      end if;
      return old;
    end $$`.execute(database);
  await sql`
    create trigger audit_no_delete before delete on audit
    for each row execute function refuse_audit_deletion()`.execute(database);
}
