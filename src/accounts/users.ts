import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import type { Database } from '../database/database.ts';
import type { MemberRole, Schema, Transaction } from '../database/schema.ts';
import { ServiceError } from '../core/errors.ts';
import { getAccount, lockAccount, type AccountRow } from './accounts.ts';
import { appendAudit, type Actor } from './audit.ts';
import { EMAIL, hasLength, MAX_EMAIL, MAX_MEMBERSHIPS, checkedName } from './bounds.ts';
import { revokeOrphanedPlaygroundKeys } from './key-table.ts';
import {
  readPage,
  pageLimit,
  pageOf,
  formatCursor,
  parsePosition,
  type Page,
  type PageQuery,
} from './page.ts';

export type UserRow = Selectable<Schema['users']>;

export interface MemberRow extends UserRow {
  account_id: string;
  role: MemberRole;
  /** When the user became a member, in Unix milliseconds. */
  since: number;
}

/**
 * Creates a user on behalf of an operator. Rejects with a `ServiceError` `invalid_value` (param `name` or `email`), or
 * `conflict` (param `email`) if the address is taken.
 */
export async function createUser(
  database: Database,
  values: { name: string; email: string },
  by: Actor,
): Promise<UserRow> {
  const name = checkedName(values.name, 'user');
  const email = checkedEmail(values.email);
  const id = `user_${randomBytes(12).toString('hex')}`;
  const now = Date.now();
  return await database.kysely.transaction().execute(async (transaction) => {
    const row = await transaction
      .insertInto('users')
      // The operator vouches for the address.
      .values({ id, name, email, email_verified: 1, created_at: now, updated_at: now })
      .onConflict((conflict) => conflict.column('email').doNothing())
      .returningAll()
      .executeTakeFirst();
    if (row === undefined) {
      throw new ServiceError('conflict', 'Another user already has this email address.', { param: 'email' });
    }
    await appendAudit(transaction, by, { action: 'user.create', subject: `user:${id}` });
    return row;
  });
}

/** Returns a user. Rejects with a `ServiceError` `not_found`. */
export async function getUser(database: Database, id: string): Promise<UserRow> {
  const row = await database.kysely.selectFrom('users').selectAll().where('id', '=', id).executeTakeFirst();
  if (row === undefined) throw noSuchUser();
  return row;
}

/** Returns the user with this ID or email address; null: none. */
export async function findUser({ kysely }: Database, named: string): Promise<UserRow | null> {
  const row = await kysely
    .selectFrom('users')
    .selectAll()
    .where((is) => is.or([is('id', '=', named), is('email', '=', named.trim().toLowerCase())]))
    .executeTakeFirst();
  return row ?? null;
}

/** Returns a page of all users, oldest first. Rejects with `invalid_value` (param `limit` or `cursor`). */
export async function listUsers(database: Database, page: PageQuery = {}): Promise<Page<UserRow>> {
  return await readPage(database.kysely.selectFrom('users').selectAll(), page);
}

/**
 * Deletes a user with all memberships. Rejects with a `ServiceError` `not_found`, `last_operator`, or `last_owner` if
 * an account would have members but no owner.
 */
export async function deleteUser(database: Database, id: string, by: Actor): Promise<void> {
  await database.kysely.transaction().execute(async (transaction) => {
    await refuseLastOperator(transaction, id);
    // Locks the user before the accounts, as `setMember` does, to avoid deadlocks.
    const user = await transaction
      .selectFrom('users')
      .select('id')
      .where('id', '=', id)
      .forUpdate()
      .executeTakeFirst();
    if (user === undefined) throw noSuchUser();
    await refuseOwnersOfMembers(transaction, id);
    const memberships = await transaction
      .deleteFrom('memberships')
      .where('user_id', '=', id)
      .returning('account_id')
      .execute();
    await transaction.deleteFrom('users').where('id', '=', id).execute();
    const subject = `user:${id}`;
    await revokeOrphanedPlaygroundKeys(transaction, subject, by);
    for (const { account_id: accountId } of memberships) {
      await appendAudit(transaction, by, { action: 'member.remove', subject, accountId });
    }
    await appendAudit(transaction, by, { action: 'user.delete', subject });
  });
}

interface NewMember {
  accountId: string;
  userId: string;
  role: MemberRole;
  /** Whether a user who is not a member may be added. Default: true. */
  mayAdd?: boolean;
}

/**
 * Sets the role of a user in an account, adding them if necessary. Rejects with `not_found`, `last_owner`, or `conflict`
 * if the user is a member of too many accounts.
 */
export async function setMember(
  database: Database,
  { accountId, userId, role, mayAdd = true }: NewMember,
  by: Actor,
): Promise<MemberRow> {
  return await database.kysely.transaction().execute(async (transaction) => {
    const user = await transaction
      .selectFrom('users')
      .selectAll()
      .where('id', '=', userId)
      // Prevents deletion until the transaction ends, without blocking other readers.
      .forShare()
      .executeTakeFirst();
    await lockAccount(transaction, accountId);
    if (!mayAdd && !(await isMember(transaction, accountId, userId))) throw notInAccount();
    if (user === undefined) throw noSuchUser();
    if (role !== 'owner') await refuseLastOwner(transaction, accountId, userId);
    await refuseOneAccountTooMany(transaction, accountId, userId);
    const since = await putMember(transaction, { accountId, userId, role }, by);
    return { ...user, account_id: accountId, role, since };
  });
}

/**
 * Rejects with a `ServiceError` `conflict` (param `user_id`) if the user is a member of `MAX_MEMBERSHIPS` accounts and
 * not of this one.
 */
export async function refuseOneAccountTooMany(
  transaction: Transaction,
  accountId: string,
  userId: string,
): Promise<void> {
  const last = await transaction
    .selectFrom('memberships')
    .select('account_id')
    .where('user_id', '=', userId)
    .offset(MAX_MEMBERSHIPS - 1)
    .limit(1)
    .executeTakeFirst();
  if (last === undefined || (await isMember(transaction, accountId, userId))) return;
  throw new ServiceError('conflict', `A user can be a member of at most ${MAX_MEMBERSHIPS} accounts.`, {
    param: 'user_id',
  });
}

/** Like `setMember`, in a transaction of the caller and without its checks. Returns when the user became a member. */
export async function putMember(
  transaction: Transaction,
  { accountId, userId, role }: Omit<NewMember, 'mayAdd'>,
  by: Actor,
): Promise<number> {
  const { created_at: since } = await transaction
    .insertInto('memberships')
    .values({ account_id: accountId, user_id: userId, role, created_at: Date.now() })
    .onConflict((conflict) => conflict.columns(['account_id', 'user_id']).doUpdateSet({ role }))
    .returning('created_at')
    .executeTakeFirstOrThrow();
  await appendAudit(transaction, by, {
    action: 'member.set',
    subject: `user:${userId}`,
    accountId,
    detail: { role },
  });
  return since;
}

/** Removes a user from an account. Rejects with a `ServiceError` `not_found` if they are not a member, or `last_owner`. */
export async function removeMember(
  database: Database,
  { accountId, userId }: { accountId: string; userId: string },
  by: Actor,
): Promise<void> {
  await database.kysely.transaction().execute(async (transaction) => {
    await lockAccount(transaction, accountId);
    await refuseLastOwner(transaction, accountId, userId);
    const { numDeletedRows } = await transaction
      .deleteFrom('memberships')
      .where('account_id', '=', accountId)
      .where('user_id', '=', userId)
      .executeTakeFirst();
    if (numDeletedRows === 0n) {
      throw notInAccount();
    }
    await revokeOrphanedPlaygroundKeys(transaction, `user:${userId}`, by);
    await appendAudit(transaction, by, { action: 'member.remove', subject: `user:${userId}`, accountId });
  });
}

/** Of the owners of one account. Mail servers accept at least 100 recipients (RFC 5321, 4.5.3.1.8). */
const MAX_ADDRESSES = 100;

/** Returns the confirmed email addresses of the owners of an account. Rejects with a `DatabaseError`. */
export async function ownerAddresses({ kysely }: Database, accountId: string): Promise<string[]> {
  const owners = await kysely
    .selectFrom('memberships')
    .innerJoin('users', 'users.id', 'memberships.user_id')
    .select('users.email')
    .where('memberships.account_id', '=', accountId)
    .where('memberships.role', '=', 'owner')
    .where('users.email_verified', '=', 1)
    .orderBy('users.email')
    .limit(MAX_ADDRESSES)
    .execute();
  return owners.map(({ email }) => email);
}

/** Returns a page of an account's members, oldest membership first. Rejects with `not_found` or `invalid_value`. */
export async function listMembers(
  database: Database,
  accountId: string,
  page: PageQuery = {},
): Promise<Page<MemberRow>> {
  const limit = pageLimit(page);
  const after = parsePosition(page);
  await getAccount(database, accountId);
  let rows = database.kysely
    .selectFrom('memberships')
    .innerJoin('users', 'users.id', 'memberships.user_id')
    .selectAll('users')
    .select(['memberships.account_id', 'memberships.role', 'memberships.created_at as since'])
    .where('memberships.account_id', '=', accountId)
    .orderBy('memberships.created_at')
    .orderBy('memberships.user_id')
    .limit(limit + 1);
  if (after !== null) {
    rows = rows.where((is) =>
      is(
        is.refTuple('memberships.created_at', 'memberships.user_id'),
        '>',
        is.tuple(after.created_at, after.id),
      ),
    );
  }
  return pageOf(await rows.execute(), limit, ({ since, id }) => formatCursor({ created_at: since, id }));
}

/** An account of a user, with their role. */
interface MembershipRow extends Pick<AccountRow, 'id' | 'name' | 'plan' | 'status'> {
  role: MemberRole;
}

/** Returns the accounts of a user, in the order in which they joined. */
export async function accountsOf({ kysely }: Database, userId: string): Promise<MembershipRow[]> {
  return await kysely
    .selectFrom('memberships')
    .innerJoin('accounts', 'accounts.id', 'memberships.account_id')
    .select(['accounts.id', 'accounts.name', 'accounts.plan', 'accounts.status', 'memberships.role'])
    .where('user_id', '=', userId)
    .orderBy('memberships.created_at')
    .orderBy('accounts.id')
    .execute();
}

/**
 * Trims an email address and converts it to lowercase. Checks only its format. Throws a `ServiceError`
 * `invalid_value` (param `email`).
 */
export function checkedEmail(text: string): string {
  if (isEmail(text)) return text.trim().toLowerCase();
  throw new ServiceError(
    'invalid_value',
    `\`email\` must be an email address of at most ${MAX_EMAIL} characters, such as zoe@example.com.`,
    { param: 'email' },
  );
}

/** Whether text has the format of an email address, with or without spaces around it. */
export function isEmail(text: string): boolean {
  return hasLength(text, 3, MAX_EMAIL) && EMAIL.test(text);
}

/** Rejects with a `ServiceError` `last_owner` if the user is the only owner of the account, which must be locked. */
async function refuseLastOwner(transaction: Transaction, accountId: string, userId: string): Promise<void> {
  const owners = await transaction
    .selectFrom('memberships')
    .select('user_id')
    .where('account_id', '=', accountId)
    .where('role', '=', 'owner')
    .limit(2)
    .execute();
  if (owners.length !== 1 || owners[0]?.user_id !== userId) return;
  throw new ServiceError(
    'last_owner',
    `The last owner of the account \`${accountId}\` must stay an owner. Make another member an owner first.`,
  );
}

/**
 * Rejects with `last_owner` if the user is the last owner of an account with other members. An account without members
 * needs no owner: operators can invite one.
 */
async function refuseOwnersOfMembers(transaction: Transaction, userId: string): Promise<void> {
  const owned = await transaction
    .selectFrom('memberships')
    .select('account_id')
    .where('user_id', '=', userId)
    .where('role', '=', 'owner')
    // Always in the same order, to avoid deadlocks.
    .orderBy('account_id')
    .execute();
  for (const { account_id: accountId } of owned) {
    await lockAccount(transaction, accountId);
    const other = await transaction
      .selectFrom('memberships')
      .select('user_id')
      .where('account_id', '=', accountId)
      .where('user_id', '<>', userId)
      .executeTakeFirst();
    if (other !== undefined) await refuseLastOwner(transaction, accountId, userId);
  }
}

async function isMember(transaction: Transaction, accountId: string, userId: string): Promise<boolean> {
  const row = await transaction
    .selectFrom('memberships')
    .select('role')
    .where('account_id', '=', accountId)
    .where('user_id', '=', userId)
    .executeTakeFirst();
  return row !== undefined;
}

function notInAccount(): ServiceError {
  return new ServiceError('not_found', 'This user is not a member of this account.', { param: 'user_id' });
}

function noSuchUser(): ServiceError {
  return new ServiceError('not_found', 'This user does not exist.', { param: 'user_id' });
}

/** Whether the service has an operator. */
export async function hasOperator({ kysely }: Pick<Database, 'kysely'>): Promise<boolean> {
  const row = await kysely.selectFrom('users').select('id').where('operator', '=', 1).executeTakeFirst();
  return row !== undefined;
}

/**
 * Grants or revokes operator rights. Idempotent. Rejects with a `ServiceError` `not_found`, `last_operator`, or
 * `email_not_verified` if the user has not confirmed their address, unless `allowUnverified` is true: an owner of any
 * account could have invited the address and chosen the password.
 */
export async function setOperator(
  database: Database,
  userId: string,
  { operator, allowUnverified = false }: { operator: boolean; allowUnverified?: boolean | undefined },
  by: Actor,
): Promise<void> {
  await database.kysely.transaction().execute(async (transaction) => {
    if (!operator) await refuseLastOperator(transaction, userId);
    const wanted = operator ? 1 : 0;
    const changed = await transaction
      .updateTable('users')
      .set({ operator: wanted, updated_at: Date.now() })
      .where('id', '=', userId)
      .where('operator', '<>', wanted)
      .returning('email_verified')
      .executeTakeFirst();
    if (changed === undefined) {
      const known = await transaction.selectFrom('users').select('id').where('id', '=', userId).execute();
      if (known.length > 0) return;
      throw new ServiceError('not_found', 'This user does not exist.', { param: 'id' });
    }
    if (operator && changed.email_verified === 0 && !allowUnverified) throw emailNotVerified();
    if (!operator) await revokeOrphanedPlaygroundKeys(transaction, `user:${userId}`, by);
    await appendAudit(transaction, by, {
      action: operator ? 'user.make_operator' : 'user.unmake_operator',
      subject: `user:${userId}`,
    });
  });
}

function emailNotVerified(): ServiceError {
  return new ServiceError(
    'email_not_verified',
    'This user has not confirmed their email address, so it may belong to someone else. Ask them to reset their password or to sign in with a provider, or allow it with `allow_unverified` (`--allow-unverified`).',
    { param: 'allow_unverified' },
  );
}

/** Rejects with a `ServiceError` `last_operator` if the user is the only operator. */
async function refuseLastOperator(transaction: Transaction, userId: string): Promise<void> {
  const operators = await transaction
    .selectFrom('users')
    .select('id')
    .where('operator', '=', 1)
    .orderBy('id')
    // Locks the rows, so that the second of two concurrent removals waits and sees that only one operator is left.
    .forUpdate()
    .execute();
  if (operators.length !== 1 || operators[0]?.id !== userId) return;
  throw new ServiceError(
    'last_operator',
    'The last operator cannot be removed. Make another user an operator first.',
  );
}
