import type { Database } from '../database/database.ts';
import { appendAudit, type Actor } from './audit.ts';

/** A replica. Its name is not used, because it changes with the position in the configuration. */
export interface ReplicaReference {
  /** ID of the model. */
  model: string;
  /** URL of the server, or the name of an embedded engine. */
  server: string;
}

export interface DrainedReplica extends ReplicaReference {
  /** Unix milliseconds. */
  drainedAt: number;
}

/** Returns all drained replicas. No instance sends them new requests. */
export async function listDrainedReplicas({ kysely }: Database): Promise<DrainedReplica[]> {
  const rows = await kysely
    .selectFrom('drained_replicas')
    .selectAll()
    .orderBy('model')
    .orderBy('server')
    .execute();
  return rows.map(({ model, server, drained_at: drainedAt }) => ({ model, server, drainedAt }));
}

/** Drains a replica. Does nothing if it is already drained. */
export async function drainReplica(
  database: Database,
  { model, server }: ReplicaReference,
  by: Actor,
): Promise<void> {
  await database.kysely.transaction().execute(async (transaction) => {
    const { numInsertedOrUpdatedRows: count } = await transaction
      .insertInto('drained_replicas')
      .values({ model, server, drained_at: Date.now() })
      .onConflict((conflict) => conflict.columns(['model', 'server']).doNothing())
      .executeTakeFirst();
    if (!count) return;
    await appendAudit(transaction, by, {
      action: 'replica.drain',
      subject: `engine:${model}`,
      detail: { server },
    });
  });
}

/** Lets a drained replica get requests again. Returns whether it was drained. */
export async function resumeReplica(
  database: Database,
  { model, server }: ReplicaReference,
  by: Actor,
): Promise<boolean> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const { numDeletedRows: count } = await transaction
      .deleteFrom('drained_replicas')
      .where('model', '=', model)
      .where('server', '=', server)
      .executeTakeFirst();
    if (!count) return false;
    await appendAudit(transaction, by, {
      action: 'replica.resume',
      subject: `engine:${model}`,
      detail: { server },
    });
    return true;
  });
}
