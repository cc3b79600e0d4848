import type { IncomingHttpHeaders } from 'node:http';
import type { Database } from '../database/database.ts';
import type { Selectable } from 'kysely';
import type { Actor } from '../accounts/audit.ts';
import { revokePlaygroundKeysOf } from '../accounts/key-table.ts';
import type { MemberRole, Schema, Transaction } from '../database/schema.ts';
import { userActor, type BrowserRequest } from './browser-request.ts';
import { IDLE_MS, hashToken } from './token.ts';

/** Precision of `last_active_at`, in milliseconds. */
const ACTIVITY_PRECISION_MS = 60_000;

/** The session of a signed-in user. */
export interface UserSession {
  /** Not the token in the cookie. */
  id: string;
  /** Unix milliseconds. */
  signedInAt: number;
  /** Unix milliseconds, if it is used until then. */
  expiresAt: number;
  user: {
    id: string;
    name: string;
    email: string;
    /** Manages the whole service. */
    operator: boolean;
    /** Has enabled two-factor authentication. */
    twoFactor: boolean;
  };
  /** The user's roles by account ID. */
  roles: ReadonlyMap<string, MemberRole>;
}

/** The session of a cookie. The user is not signed in while it waits for the second factor. */
interface PresentedSession {
  pending: boolean;
  session: UserSession;
}

/**
 * Returns the session of a cookie; null: none, or expired. The token has 190 random bits and is looked up by its hash,
 * so the signature that better-auth adds is not checked.
 */
export async function presentedSession(
  database: Database,
  headers: IncomingHttpHeaders,
  cookieName: string,
): Promise<PresentedSession | null> {
  const token = sessionToken(headers.cookie, cookieName);
  if (token === null) return null;
  const now = Date.now();
  const row = await database.kysely
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .select(['users.id', 'users.name', 'users.email', 'users.operator', 'users.two_factor'])
    .select([
      'sessions.id as session_id',
      'sessions.pending',
      'sessions.created_at',
      'sessions.last_active_at',
      'sessions.expires_at',
    ])
    .where('token_hash', '=', hashToken(token))
    .where('expires_at', '>', now)
    .where('last_active_at', '>', now - IDLE_MS)
    .executeTakeFirst();
  if (row === undefined) return null;
  const pending = row.pending === 1;
  if (!pending && row.last_active_at < now - ACTIVITY_PRECISION_MS) {
    const active = database.kysely.updateTable('sessions').set({ last_active_at: now });
    await active.where('id', '=', row.session_id).execute();
  }
  const memberships = await database.kysely
    .selectFrom('memberships')
    .select(['account_id', 'role'])
    .where('user_id', '=', row.id)
    .execute();
  return {
    pending,
    session: {
      id: row.session_id,
      signedInAt: row.created_at,
      expiresAt: row.expires_at,
      user: {
        id: row.id,
        name: row.name,
        email: row.email,
        operator: row.operator === 1,
        twoFactor: row.two_factor === 1,
      },
      roles: new Map(memberships.map(({ account_id: accountId, role }) => [accountId, role])),
    },
  };
}

/** A session in the user's list. */
export type SessionRow = Omit<Selectable<Schema['sessions']>, 'token_hash' | 'user_id' | 'pending'>;

/**
 * Returns the sessions of a user, newest first. They expire after `IDLE_MS` without use, but at most `SESSION_MS` after
 * sign-in.
 */
export async function listSessions(database: Database, userId: string): Promise<SessionRow[]> {
  const now = Date.now();
  const rows = await database.kysely
    .selectFrom('sessions')
    .select(['id', 'ip', 'user_agent', 'created_at', 'last_active_at', 'expires_at'])
    .where('user_id', '=', userId)
    .where('pending', '=', 0)
    .where('expires_at', '>', now)
    .where('last_active_at', '>', now - IDLE_MS)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1000)
    .execute();
  return rows.map((row) => ({
    ...row,
    expires_at: Math.min(row.expires_at, row.last_active_at + IDLE_MS),
  }));
}

/** Ends sessions of a user with their playground keys, and returns whether there were any. */
export async function endSessions(
  transaction: Transaction,
  userId: string,
  which: { id: string } | { except: string } | 'all',
  by: Actor,
): Promise<boolean> {
  let rows = transaction.deleteFrom('sessions').where('user_id', '=', userId).returning('id');
  if (which !== 'all') {
    rows = 'id' in which ? rows.where('id', '=', which.id) : rows.where('id', '<>', which.except);
  }
  const ended = await rows.execute();
  const ids = ended.map(({ id }) => id);
  await revokePlaygroundKeysOf(transaction, ids, by);
  return ids.length > 0;
}

/** Ends the session of a cookie with its playground keys, even if it is pending. */
export async function endPresentedSession(
  database: Database,
  request: BrowserRequest,
  cookieName: string,
): Promise<void> {
  const token = sessionToken(request.headers.cookie, cookieName);
  if (token === null) return;
  const session = await database.kysely
    .selectFrom('sessions')
    .select(['id', 'user_id'])
    .where('token_hash', '=', hashToken(token))
    .executeTakeFirst();
  // Even a `delete` without rows waits for the write lock of SQLite, and anyone can send a cookie.
  if (session === undefined) return;
  const { id, user_id: userId } = session;
  await database.kysely
    .transaction()
    .execute((transaction) => endSessions(transaction, userId, { id }, userActor(userId, request)));
}

/** Returns the token of the session cookie, `<token>.<signature>`; null: none. */
export function sessionToken(cookies: string | undefined, cookieName: string): string | null {
  for (const cookie of cookies?.split(';') ?? []) {
    const [name, value = ''] = cookie.trim().split('=', 2);
    if (name === cookieName) return /^([A-Za-z0-9]{32})\./.exec(value)?.[1] ?? null;
  }
  return null;
}
