import { randomUUIDv7 } from 'node:crypto';
import { sql, type Selectable } from 'kysely';
import type { Database } from '../database/database.ts';
import { type Schema, AUDIT_KEEP_FROM, type Transaction } from '../database/schema.ts';
import { firstIdAt } from '../database/partitions.ts';
import { ServiceError } from '../core/errors.ts';
import type { Log } from '../support/log.ts';
import type { AuditAction } from './audit-actions.ts';
import { Hourly } from './hourly.ts';
import { readNewest, shortened, type Page, type PageQuery } from './page.ts';
import { steadyNow } from './clock.ts';

/** The author of a change. */
export interface Actor {
  /** `key:<id>`, `user:<id>`, `cli:<user name>`, `service`, or `visitor` for someone who is not signed in. */
  id: string;
  /** Null: unknown, or from this machine. */
  ip: string | null;
}

/** The service itself, for example when it records that plans in the configuration have changed. */
export const SERVICE: Actor = { id: 'service', ip: null };

/** An entry to append to the audit log. */
export interface AuditNote {
  action: AuditAction;
  /** Such as `key:key_12…`. */
  subject: string;
  /** Default: null, no account. */
  accountId?: string | null;
  /**
   * The changed fields, as `{from, to}` if a field had a value before. No secrets, and no names or addresses of users,
   * except the name of an account that was created for a user.
   */
  detail?: Readonly<Record<string, unknown>>;
}

export type AuditRow = Selectable<Schema['audit']>;

/** Appends entries, one or more, in the same transaction as the change. */
export async function appendAudit(
  transaction: Transaction,
  by: Actor,
  ...notes: readonly AuditNote[]
): Promise<void> {
  const at = Date.now();
  const rows = notes.map(({ action, subject, accountId = null, detail = {} }) => ({
    id: randomUUIDv7(),
    at,
    actor: by.id,
    ip: by.ip,
    action,
    subject,
    account_id: accountId,
    detail: JSON.stringify(detail),
  }));
  await transaction.insertInto('audit').values(rows).execute();
}

/**
 * Appends an entry in its own transaction, for actions without one, such as a sign-in. Rejects with a `DatabaseError`.
 */
export async function recordAudit({ kysely }: Database, by: Actor, note: AuditNote): Promise<void> {
  await kysely.transaction().execute((transaction) => appendAudit(transaction, by, note));
}

const HOUR_MS = 3_600_000;

/**
 * Rejects with 429 `too_many_changes` if an actor has made `max` changes within the last hour: each is an entry, and entries
 * are kept for a long time. `running`: other changes of the actor, without an entry yet. Reads at most `max` rows of an index.
 */
export async function assertChangeRate(
  { kysely }: Pick<Database, 'kysely'>,
  by: Actor,
  max: number,
  running: number,
): Promise<void> {
  const now = Date.now();
  const earlier = await kysely
    .selectFrom('audit')
    .select('at')
    .where('actor', '=', by.id)
    .where('id', '>=', firstIdAt(now - HOUR_MS))
    .orderBy('id', 'desc')
    .offset(Math.max(0, max - running - 1))
    .limit(1)
    .executeTakeFirst();
  if (earlier === undefined) return;
  throw new ServiceError(
    'too_many_changes',
    `At most ${max} changes can be made within an hour. Try again later.`,
    {
      retryAfterMs: Math.min(Math.max(earlier.at + HOUR_MS - now, 1), HOUR_MS),
    },
  );
}

/** Matches entries by every given field. */
export interface AuditFilter {
  accountId?: string | undefined;
  actor?: string | undefined;
  subject?: string | undefined;
  action?: string | undefined;
  /** Time in Unix milliseconds: from `fromMs`, before `toMs`. */
  fromMs?: number | undefined;
  toMs?: number | undefined;
}

/** Returns a page of the audit log, newest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
export async function listAudit(
  database: Database,
  { accountId, actor, subject, action, fromMs, toMs }: AuditFilter,
  page: PageQuery = {},
): Promise<Page<AuditRow>> {
  let rows = database.reports
    .selectFrom('audit')
    .select(['id', sql<number>`octet_length(detail)`.as('bytes')]);
  if (accountId !== undefined) rows = rows.where('account_id', '=', accountId);
  if (actor !== undefined) rows = rows.where('actor', '=', actor);
  if (subject !== undefined) rows = rows.where('subject', '=', subject);
  if (action !== undefined) rows = rows.where('action', '=', action);
  if (fromMs !== undefined) rows = rows.where('id', '>=', firstIdAt(fromMs));
  if (toMs !== undefined) rows = rows.where('id', '<', firstIdAt(toMs));
  const idOf = ({ id }: { id: string }) => id;
  const { items, nextCursor } = shortened(await readNewest(rows, page), idOf);
  if (items.length === 0) return { items: [], nextCursor };
  const found = await database.reports
    .selectFrom('audit')
    .selectAll()
    .where('id', 'in', items.map(idOf))
    .orderBy('id', 'desc')
    .execute();
  return { items: found, nextCursor };
}

const DAY_MS = 86_400_000;
/** Entries per statement, because a statement blocks the event loop on SQLite. */
const BATCH = 500;

/**
 * Deletes entries of the audit log that are older than `audit.keepDays`, every hour. Without this setting, makes the
 * database refuse to delete any entry. The first deletion is an hour later, because the clock of a machine that has just
 * started may not be set yet. `now` returns Unix milliseconds.
 */
export function auditRetention(
  database: Database,
  keepDays: number | undefined,
  log: Log,
  now: () => number = steadyNow,
): Hourly {
  const work = async (signal: AbortSignal) => {
    const keepFrom = keepDays === undefined ? 0 : now() - keepDays * DAY_MS;
    await allowDeletion(database, keepFrom);
    let deleted = 0;
    try {
      for (let rows = BATCH; rows === BATCH && !signal.aborted; deleted += rows)
        rows = await deleteBatch(database, keepFrom);
    } finally {
      const before = new Date(keepFrom).toISOString();
      if (deleted > 0) log.info('deleted old entries of the audit log', { entries: deleted, before });
    }
  };
  const retention = new Hourly(work, 'cannot delete old entries of the audit log', log);
  if (keepDays === undefined) void retention.run();
  return retention;
}

/** The database refuses to delete entries that are not older than this setting. */
async function allowDeletion({ background }: Database, keepFrom: number): Promise<void> {
  const value = String(keepFrom);
  await background
    .insertInto('settings')
    .values({ name: AUDIT_KEEP_FROM, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}

async function deleteBatch({ background }: Database, keepFrom: number): Promise<number> {
  const { numDeletedRows } = await background
    .deleteFrom('audit')
    .where('id', 'in', (old) =>
      old.selectFrom('audit').select('id').where('id', '<', firstIdAt(keepFrom)).orderBy('id').limit(BATCH),
    )
    .executeTakeFirst();
  return Number(numDeletedRows);
}
