import { appendAudit, type Actor } from '../accounts/audit.ts';
import { ServiceError } from '../errors.ts';
import { countAttempt, forgetAttempts } from './attempts.ts';
import type { Identity } from './identity.ts';
import { takeRecoveryCode, takeTotp } from './second-factor.ts';
import { endPresented, sessionToken } from './sessions.ts';
import { authHeaders, personActor, type Visit } from './visit.ts';

/** How far a sign-in has come. `second_factor`: nobody is signed in until it is given. */
export interface SignInAnswer {
  status: 'signed_in' | 'second_factor';
  /** To be set in the browser. */
  cookies: string[];
}

/**
 * Signs in with a password. An address that nobody has is answered as a wrong password is, after as much work.
 * Rejects with a `ServiceError` `wrong_credentials` or `too_many_attempts`.
 */
export async function signIn(
  identity: Identity,
  visit: Visit,
  wanted: { email: string; password: string },
): Promise<SignInAnswer> {
  const { database } = identity;
  const email = wanted.email.trim().toLowerCase();
  const by = { ip: visit.ip, person: email };
  await countAttempt(database, 'signIn', by);
  const auth = await identity.auth();
  const answer = await auth.api
    .signInEmail({
      body: { email, password: wanted.password },
      headers: authHeaders(visit),
      returnHeaders: true,
    })
    .catch((error: unknown) => {
      // The library's own class is not loaded before it is; its name is.
      if (error instanceof Error && error.name === 'APIError') return null;
      throw error;
    });
  if (answer === null) {
    await noteRefusal(identity, visit, await personOf(identity, email), 'password');
    throw wrong('password', 'Incorrect email or password.');
  }
  await endPresented(database, visit.headers, identity.cookieName);
  await forgetAttempts(database, 'signIn', by);
  return await begun(identity, visit, answer.headers.getSetCookie(), answer.response.user.id, 'password');
}

/**
 * Completes a sign-in with a code of the authenticator app or a recovery code, each of which is taken once: the
 * cookies of a new session. Rejects with a `ServiceError` `sign_in_required` where none was begun within 10 minutes,
 * `wrong_credentials` or `too_many_attempts`.
 */
export async function signInSecondFactor(
  identity: Identity,
  visit: Visit,
  { code, kind }: { code: string; kind: 'totp' | 'recovery' },
): Promise<string[]> {
  const { database } = identity;
  const presented = await identity.presented(visit);
  if (!presented?.pending) {
    throw new ServiceError('sign_in_required', 'This sign-in has expired. Start again with your password.');
  }
  const personId = presented.who.person.id;
  const by = { ip: visit.ip, person: personId };
  await countAttempt(database, 'secondFactor', by);
  const right =
    kind === 'totp'
      ? await takeTotp(database, personId, code, true)
      : await takeRecoveryCode(database, personId, code);
  if (!right) {
    await noteRefusal(identity, visit, personId, kind);
    throw wrong('code', 'This code is incorrect or was already used.');
  }
  await forgetAttempts(database, 'secondFactor', by);
  const cookies = await identity.startSession(visit, personId);
  await noteSignIn(identity, personActor(personId, visit), kind);
  return cookies;
}

/** Ends the session of a browser: the cookies to set. */
export async function signOut(identity: Identity, visit: Visit): Promise<string[]> {
  await endPresented(identity.database, visit.headers, identity.cookieName);
  if (sessionToken(visit.headers.cookie, identity.cookieName) === null) return [];
  const secure = identity.cookieName.startsWith('__Host-') ? '; Secure' : '';
  return [`${identity.cookieName}=; Max-Age=0; Path=/; HttpOnly; SameSite=Lax${secure}`];
}

/** What to tell the browser of a session that better-auth has made, whose second factor may be due. */
export async function begun(
  identity: Identity,
  visit: Visit,
  cookies: string[],
  personId: string,
  way: string,
): Promise<SignInAnswer> {
  const row = await identity.database.kysely
    .selectFrom('people')
    .select('two_factor')
    .where('id', '=', personId)
    .executeTakeFirst();
  if (row?.two_factor === 1) return { status: 'second_factor', cookies };
  await noteSignIn(identity, personActor(personId, visit), way);
  return { status: 'signed_in', cookies };
}

async function noteSignIn({ database }: Identity, by: Actor, way: string): Promise<void> {
  await database.kysely.transaction().execute((transaction) =>
    appendAudit(transaction, by, {
      action: 'person.sign_in',
      subject: by.id,
      accountId: null,
      detail: { with: way },
    }),
  );
}

/** Written down whether somebody has the address or not: the time that it takes tells nothing of that. */
async function noteRefusal(
  { database }: Identity,
  { ip }: Visit,
  personId: string | null,
  at: string,
): Promise<void> {
  await database.kysely.transaction().execute((transaction) =>
    appendAudit(
      transaction,
      { id: 'visitor', ip },
      {
        action: 'person.sign_in_refused',
        subject: `person:${personId ?? 'unknown'}`,
        accountId: null,
        detail: { at },
      },
    ),
  );
}

async function personOf({ database }: Identity, email: string): Promise<string | null> {
  const row = await database.kysely
    .selectFrom('people')
    .select('id')
    .where('email', '=', email)
    .executeTakeFirst();
  return row?.id ?? null;
}

function wrong(param: string, message: string): ServiceError {
  return new ServiceError('wrong_credentials', message, { param });
}
