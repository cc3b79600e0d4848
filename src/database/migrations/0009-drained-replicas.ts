import { sql, type Transaction } from 'kysely';
import type { Schema } from '../schema.ts';
import { columnTypes, type DatabaseKind } from './column-types.ts';

/** Creates the table of replicas that get no new requests. */
export async function createDrainedReplicas(
  database: Transaction<Schema>,
  kind: DatabaseKind,
): Promise<void> {
  const { text, integer, strictByKey } = columnTypes(kind);
  await sql`
    create table drained_replicas (
      model ${text} not null,
      server ${text} not null,
      drained_at ${integer} not null,
      primary key (model, server)
    ) ${strictByKey}`.execute(database);
}
