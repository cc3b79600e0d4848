import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Creates the tables of alerts, of their messages, and of what is silenced. */
export async function createAlerts(database: Transaction<Schema>, kind: DatabaseKind): Promise<void> {
  const { text, integer, small, strictByKey } = columnTypes(kind);
  await sql`
    create table alerts (
      id ${text} not null primary key,
      dedupe_key ${text} not null unique,
      condition ${text} not null,
      type ${text} not null,
      title ${text} not null,
      body ${text} not null,
      fired_at ${integer} not null,
      seen_at ${integer} not null,
      resolved_at ${integer}
    ) ${strictByKey}`.execute(database);
  await sql`create index alerts_firing on alerts (seen_at) where resolved_at is null`.execute(database);
  await sql`
    create table alert_messages (
      id ${text} not null primary key,
      alert_id ${text} not null references alerts (id) on delete cascade,
      event ${text} not null check (event in ('firing', 'resolved')),
      channel ${text} not null,
      state ${text} not null check (state in ('pending', 'sent', 'failed', 'silenced')),
      attempts ${small} not null,
      created_at ${integer} not null,
      next_at ${integer} not null,
      sent_at ${integer},
      error ${text},
      unique (alert_id, event, channel)
    ) ${strictByKey}`.execute(database);
  await sql`create index alert_messages_pending on alert_messages (next_at) where state = 'pending'`.execute(
    database,
  );
  await sql`
    create table alert_silences (
      target ${text} not null primary key,
      until ${integer} not null,
      created_at ${integer} not null,
      created_by ${text} not null
    ) ${strictByKey}`.execute(database);
}
