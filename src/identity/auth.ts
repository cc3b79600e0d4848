import { randomBytes } from 'node:crypto';
import { betterAuth } from 'better-auth/minimal';
import { APIError, createAuthEndpoint } from 'better-auth/api';
import { setSessionCookie } from 'better-auth/cookies';
import { z } from 'zod';
import type { Database } from '../database/database.ts';
import type { Log } from '../log.ts';
import type { Secret } from '../secret.ts';
import { authAdapter } from './auth-adapter.ts';
import type { PasswordHasher } from './password.ts';
import type { ProviderAuth } from './providers.ts';
import { ADDRESS_HEADER } from './visit.ts';
import { PENDING_MS, RESET_MS, SESSION_MS } from './lifetimes.ts';

export interface AuthOptions {
  database: Database;
  /** Signs the cookies. */
  secret: Secret;
  /** Address of the service, where providers send people back to. */
  origin: string;
  /** What cookies are called before the dot. */
  cookiePrefix: string;
  secureCookies: boolean;
  providers: ProviderAuth;
  passwords: PasswordHasher;
  /** Hands somebody the token of a link to a new password. Returns at once. */
  sendResetToken(person: { email: string; name: string }, token: string): void;
  /** Somebody can sign in with this provider from now on, or with a password (`credential`). */
  onCredential(personId: string, provider: string): Promise<void>;
  /** Somebody has set a new password with such a link. */
  onPasswordReset(personId: string): Promise<void>;
  log: Log;
}

export type Auth = ReturnType<typeof openAuth>;

/**
 * better-auth on our tables. It checks passwords, makes sessions and their cookies, and speaks with providers; what
 * it offers over HTTP is called by our own endpoints, which count attempts and check the origin of a request.
 */
export function openAuth(options: AuthOptions) {
  const { database, providers, log } = options;
  return betterAuth({
    appName: 'Sluice',
    baseURL: options.origin,
    basePath: '/api/auth',
    secret: options.secret.reveal(),
    database: authAdapter(database),
    telemetry: { enabled: false },
    // Ours count by address and by person, over all copies of the service: `attempts.ts`.
    rateLimit: { enabled: false },
    logger: {
      level: 'warn',
      log: (level, message) =>
        level === 'error' ? log.warn('sign-in', { told: message }) : log.debug('sign-in', { told: message }),
    },
    emailAndPassword: {
      enabled: true,
      password: {
        hash: (password) => options.passwords.hash(password),
        verify: ({ hash, password }) => options.passwords.verify(hash, password),
      },
      disableSignUp: true,
      minPasswordLength: 10,
      // In UTF-16 units; the interface bounds passwords to 128 characters, of one or two each.
      maxPasswordLength: 256,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: RESET_MS / 1000,
      // Not awaited: how long a message takes would tell who is known here.
      sendResetPassword: async ({ user, token }) => options.sendResetToken(user, token),
      onPasswordReset: ({ user }) => options.onPasswordReset(user.id),
    },
    session: {
      expiresIn: SESSION_MS / 1000,
      additionalFields: { pending: { type: 'boolean', required: false, input: false } },
    },
    verification: { storeIdentifier: 'hashed' },
    account: { updateAccountOnSignIn: false },
    onAPIError: { errorURL: '/sign-in' },
    socialProviders: providers.social,
    plugins: [...providers.plugins, { id: 'sluice', endpoints: { startSession } }],
    user: { validateUserInfo: (data) => providers.validate(data) },
    databaseHooks: {
      user: {
        create: {
          before: async (user) => ({ data: { ...user, name: nameOf(user) } }),
          after: (user) => providers.welcome(user),
        },
      },
      account: { create: { after: (account) => options.onCredential(account.userId, account.providerId) } },
      session: {
        create: {
          /** However somebody signs in: without the second factor that they have, they are not signed in yet. */
          async before(session, context) {
            const pending = session.pending !== false && (await hasSecondFactor(database, session.userId));
            const ipAddress = context?.headers?.get(ADDRESS_HEADER) ?? null;
            const expiresAt = pending ? new Date(Date.now() + PENDING_MS) : session.expiresAt;
            return { data: { ...session, pending, ipAddress, expiresAt } };
          },
        },
      },
    },
    advanced: {
      cookiePrefix: options.cookiePrefix,
      // Its own way would put `__Secure-` before the name; `__Host-` binds a cookie to this very host.
      useSecureCookies: false,
      defaultCookieAttributes: {
        secure: options.secureCookies,
        httpOnly: true,
        sameSite: 'lax',
        path: '/',
      },
      ipAddress: { ipAddressHeaders: [ADDRESS_HEADER] },
      database: {
        generateId: ({ model }) => `${PREFIXES[model] ?? model}_${randomBytes(12).toString('hex')}`,
      },
    },
  });
}

/** A provider's word for somebody as our own rules for names have it. */
function nameOf({ name, email }: { name: string; email: string }): string {
  const shown = name
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
    .trim()
    .toWellFormed()
    .slice(0, 100)
    .trim();
  return shown || email.slice(0, 100);
}

const PREFIXES: Readonly<Record<string, string>> = { user: 'person', account: 'credential' };

/** A session of somebody who has shown all that it takes, with its cookie. Over HTTP nobody can ask for it. */
const startSession = createAuthEndpoint.serverOnly(
  { method: 'POST', body: z.object({ personId: z.string() }) },
  async (context) => {
    const { internalAdapter } = context.context;
    const user = await internalAdapter.findUserById(context.body.personId);
    const session = user && (await internalAdapter.createSession(user.id, false, { pending: false }));
    if (!session) throw new APIError('NOT_FOUND');
    await setSessionCookie(context, { session, user });
    return {};
  },
);

async function hasSecondFactor({ kysely }: Database, personId: string): Promise<boolean> {
  const row = await kysely
    .selectFrom('people')
    .select('id')
    .where('id', '=', personId)
    .where('two_factor', '=', 1)
    .executeTakeFirst();
  return row !== undefined;
}
