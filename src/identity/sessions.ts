import type { IncomingHttpHeaders } from 'node:http';
import type { Database } from '../database/database.ts';
import type { SignedIn } from './signed-in.ts';
import { IDLE_MS } from './lifetimes.ts';
import { hashToken } from './token.ts';

/** How exactly it is known when a session was last used, in milliseconds. */
const ACTIVE_WITHIN_MS = 60_000;

/** What a browser has shown: a session that is whole, or one whose second factor is still to be given. */
interface Presented {
  pending: boolean;
  who: SignedIn;
}

/**
 * Whose session a request carries; null: nobody's that lives. What the cookie says is a secret of 190 random bits,
 * so it is looked up by its hash, and its signature, which better-auth adds, is not needed.
 */
export async function presentedSession(
  database: Database,
  headers: IncomingHttpHeaders,
  cookieName: string,
): Promise<Presented | null> {
  const token = sessionToken(headers.cookie, cookieName);
  if (token === null) return null;
  const now = Date.now();
  const row = await database.kysely
    .selectFrom('sessions')
    .innerJoin('people', 'people.id', 'sessions.person_id')
    .select(['people.id', 'people.name', 'people.email', 'people.operator', 'people.two_factor'])
    .select([
      'sessions.id as session_id',
      'sessions.pending',
      'sessions.created_at',
      'sessions.last_active_at',
    ])
    .where('token_hash', '=', hashToken(token))
    .where('expires_at', '>', now)
    .where('last_active_at', '>', now - IDLE_MS)
    .executeTakeFirst();
  if (row === undefined) return null;
  const pending = row.pending === 1;
  if (!pending && row.last_active_at < now - ACTIVE_WITHIN_MS) await touch(database, row.session_id, now);
  const memberships = await database.kysely
    .selectFrom('memberships')
    .select(['account_id', 'role'])
    .where('person_id', '=', row.id)
    .execute();
  return {
    pending,
    who: {
      sessionId: row.session_id,
      since: row.created_at,
      person: {
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

/** One session as its person sees it. Times in Unix milliseconds. */
export interface SessionRecord {
  id: string;
  createdAt: number;
  lastActiveAt: number;
  /** If nothing is done with it. */
  expiresAt: number;
  ip: string | null;
  userAgent: string | null;
}

/** Where a person is signed in, the newest first. */
export async function listSessions(database: Database, personId: string): Promise<SessionRecord[]> {
  const now = Date.now();
  const rows = await database.kysely
    .selectFrom('sessions')
    .selectAll()
    .where('person_id', '=', personId)
    .where('pending', '=', 0)
    .where('expires_at', '>', now)
    .where('last_active_at', '>', now - IDLE_MS)
    .orderBy('created_at', 'desc')
    .orderBy('id', 'desc')
    .limit(1000)
    .execute();
  return rows.map((row) => ({
    id: row.id,
    createdAt: row.created_at,
    lastActiveAt: row.last_active_at,
    expiresAt: Math.min(row.expires_at, row.last_active_at + IDLE_MS),
    ip: row.ip,
    userAgent: row.user_agent,
  }));
}

/** Ends sessions of a person; `but` lives on. Whether any has ended. */
export async function endSessions(
  database: Pick<Database, 'kysely'>,
  personId: string,
  which: { id: string } | { but: string } | 'all',
): Promise<boolean> {
  let rows = database.kysely.deleteFrom('sessions').where('person_id', '=', personId);
  if (which !== 'all') {
    rows = 'id' in which ? rows.where('id', '=', which.id) : rows.where('id', '<>', which.but);
  }
  const { numDeletedRows } = await rows.executeTakeFirst();
  return numDeletedRows > 0n;
}

/** Ends the session that a request carries, whatever state it is in. */
export async function endPresented(
  database: Database,
  headers: IncomingHttpHeaders,
  cookieName: string,
): Promise<void> {
  const token = sessionToken(headers.cookie, cookieName);
  if (token === null) return;
  await database.kysely.deleteFrom('sessions').where('token_hash', '=', hashToken(token)).execute();
}

/** Sweeps up sessions and what else has run out. */
export async function forgetExpired(database: Database): Promise<void> {
  const now = Date.now();
  await database.kysely
    .deleteFrom('sessions')
    .where((is) => is.or([is('expires_at', '<=', now), is('last_active_at', '<=', now - IDLE_MS)]))
    .execute();
  await database.kysely.deleteFrom('verifications').where('expires_at', '<=', now).execute();
}

/** The token of a session cookie, `<token>.<signature>`; null: there is none. */
export function sessionToken(cookies: string | undefined, cookieName: string): string | null {
  for (const cookie of cookies?.split(';') ?? []) {
    const [name, value = ''] = cookie.trim().split('=', 2);
    if (name === cookieName) return /^([A-Za-z0-9]{32})\./.exec(value)?.[1] ?? null;
  }
  return null;
}

async function touch(database: Database, sessionId: string, now: number): Promise<void> {
  await database.kysely
    .updateTable('sessions')
    .set({ last_active_at: now })
    .where('id', '=', sessionId)
    .execute();
}
