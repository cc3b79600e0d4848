import { randomUUIDv7 } from 'node:crypto';
import type { Selectable, Transaction } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { UUID } from './bounds.ts';
import { invalidCursor, pageLimit, pageOf, type Page, type PageQuery } from './page.ts';

/** The author of a change. */
export interface Actor {
  /** `key:<id>`, `user:<id>`, `cli:<user name>`, `service`, or `visitor` for someone who is not signed in. */
  id: string;
  /** Null: unknown, or from this machine. */
  ip: string | null;
}

/** The service itself, for example when it records that plans in the configuration have changed. */
export const SERVICE: Actor = { id: 'service', ip: null };

export type AuditAction =
  | 'account.create'
  | 'account.rename'
  | 'account.set_plan'
  | 'account.suspend'
  | 'account.resume'
  | 'account.close'
  | 'key.create'
  | 'key.update'
  | 'key.revoke'
  | 'user.create'
  | 'user.delete'
  | 'user.rename'
  | 'user.make_operator'
  | 'user.unmake_operator'
  | 'user.sign_in'
  | 'user.sign_in_refused'
  | 'user.change_password'
  | 'user.confirm_email'
  | 'user.make_password_link'
  | 'user.add_provider'
  | 'user.begin_two_factor'
  | 'user.end_two_factor'
  | 'user.renew_recovery_codes'
  | 'user.end_sessions'
  | 'invitation.create'
  | 'invitation.withdraw'
  | 'invitation.accept'
  | 'member.set'
  | 'member.remove'
  | 'plan.create'
  | 'plan.change'
  | 'plan.remove'
  | 'plan.make_default'
  | 'engine.restart'
  | 'model.add'
  | 'model.update'
  | 'model.load'
  | 'model.unload'
  | 'model.remove'
  | 'model.set_default'
  | 'replica.add'
  | 'replica.remove'
  | 'replica.drain'
  | 'replica.resume';

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

/** Appends an entry in the same transaction as the change. */
export async function appendAudit(
  transaction: Transaction<Schema>,
  by: Actor,
  { action, subject, accountId = null, detail = {} }: AuditNote,
): Promise<void> {
  await transaction
    .insertInto('audit')
    .values({
      id: randomUUIDv7(),
      at: Date.now(),
      actor: by.id,
      ip: by.ip,
      action,
      subject,
      account_id: accountId,
      detail: JSON.stringify(detail),
    })
    .execute();
}

/**
 * Appends an entry in its own transaction, for actions without one, such as a sign-in. Rejects with a `DatabaseError`.
 */
export async function recordAudit({ kysely }: Database, by: Actor, note: AuditNote): Promise<void> {
  await kysely.transaction().execute((transaction) => appendAudit(transaction, by, note));
}

/** Matches entries by every given field. */
export interface AuditFilter {
  accountId?: string | undefined;
  actor?: string | undefined;
  subject?: string | undefined;
  action?: string | undefined;
}

/** Returns a page of the audit log, newest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
export async function listAudit(
  database: Database,
  { accountId, actor, subject, action }: AuditFilter,
  page: PageQuery = {},
): Promise<Page<AuditRow>> {
  const limit = pageLimit(page);
  const before = page.cursor ?? null;
  if (before !== null && !UUID.test(before)) throw invalidCursor();
  let rows = database.reports
    .selectFrom('audit')
    .selectAll()
    .orderBy('id', 'desc')
    .limit(limit + 1);
  if (accountId !== undefined) rows = rows.where('account_id', '=', accountId);
  if (actor !== undefined) rows = rows.where('actor', '=', actor);
  if (subject !== undefined) rows = rows.where('subject', '=', subject);
  if (action !== undefined) rows = rows.where('action', '=', action);
  if (before !== null) rows = rows.where('id', '<', before);
  return pageOf(await rows.execute(), limit, (last) => last.id);
}
