import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import type { DatabaseKind } from './column-types.ts';

/** Renames the table `people` to `users`, and the word `person` in columns, the audit log and invitations to `user`. */
export async function renameUsers(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  await sql`alter table people rename to users`.execute(database);
  for (const table of ['memberships', 'credentials', 'sessions', 'second_factors', 'recovery_codes']) {
    await sql`alter table ${sql.table(table)} rename column person_id to user_id`.execute(database);
  }
  await sql`drop index memberships_person`.execute(database);
  await sql`drop index credentials_person`.execute(database);
  await sql`drop index sessions_person`.execute(database);
  await sql`create index memberships_user on memberships (user_id)`.execute(database);
  await sql`create index credentials_user on credentials (user_id)`.execute(database);
  await sql`create index sessions_user on sessions (user_id, created_at, id)`.execute(database);
  await rename(database, 'invitations', 'invited_by', 'person:');
  await (kind === 'postgres' ? withChangeableAuditOfPostgres : withChangeableAuditOfSqlite)(
    database,
    async () => {
      await rename(database, 'audit', 'actor', 'person:');
      await rename(database, 'audit', 'subject', 'person:');
      await rename(database, 'audit', 'action', 'person.');
      await sql`
        update audit set detail = replace(detail, '"person":', '"user":')
        where action = 'invitation.accept'`.execute(database);
    },
  );
}

/** Replaces `person` by `user` at the start of values that start with `prefix`. */
async function rename(
  database: Transaction<Schema>,
  table: string,
  column: string,
  prefix: string,
): Promise<void> {
  await sql`
    update ${sql.table(table)} set ${sql.ref(column)} = 'user' || substr(${sql.ref(column)}, 7)
    where ${sql.ref(column)} like ${sql.lit(`${prefix}%`)}`.execute(database);
}

async function withChangeableAuditOfPostgres(
  database: Transaction<Schema>,
  work: () => Promise<void>,
): Promise<void> {
  await sql`alter table audit disable trigger audit_append_only`.execute(database);
  await work();
  await sql`alter table audit enable trigger audit_append_only`.execute(database);
}

async function withChangeableAuditOfSqlite(
  database: Transaction<Schema>,
  work: () => Promise<void>,
): Promise<void> {
  await sql`drop trigger audit_no_update`.execute(database);
  await work();
  await sql`
    create trigger audit_no_update before update on audit begin
      select raise(abort, 'the audit log is append-only');
    end`.execute(database);
}
