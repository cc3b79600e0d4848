import { randomBytes } from 'node:crypto';
import { betterAuth } from 'better-auth/minimal';
import { createAuthEndpoint } from 'better-auth/api';
import { setSessionCookie } from 'better-auth/cookies';
import { z } from 'zod';
import { MAX_NAME } from '../accounts/bounds.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../errors.ts';
import type { Log } from '../log.ts';
import type { Secret } from '../secret.ts';
import { authAdapter } from './auth-adapter.ts';
import type { PasswordHasher } from './password.ts';
import type { ProviderAuth } from './providers.ts';
import { ADDRESS_HEADER } from './browser-request.ts';
import { PENDING_MS, RESET_MS, SESSION_MS } from './lifetimes.ts';

export interface AuthOptions {
  database: Database;
  /** Signs the cookies. */
  secret: Secret;
  /** Origin of the service, to which providers redirect. */
  origin: string;
  /** Part of the cookie name before the dot. */
  cookiePrefix: string;
  secureCookies: boolean;
  providers: ProviderAuth;
  passwords: PasswordHasher;
  /** Sends a password reset link in the background. */
  sendResetToken(user: { email: string; name: string }, token: string): void;
  /** Called before `onCredential`, before the credential is stored. */
  beforeCredential(userId: string, provider: string): Promise<void>;
  /** Called when a user first signs in with a provider, or gets a password (`credential`). */
  onCredential(userId: string, provider: string): Promise<void>;
  /** Called when a user has set a new password with a reset link. */
  onPasswordReset(userId: string): Promise<void>;
  log: Log;
}

export type Auth = ReturnType<typeof openAuth>;

/**
 * Configures better-auth for our tables. It checks passwords, creates sessions and their cookies, and calls providers.
 * It is not reachable over HTTP: our endpoints call it, after counting attempts and checking origins.
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
    // `attempts.ts` counts by IP address and by user, for all instances.
    rateLimit: { enabled: false },
    logger: {
      level: 'warn',
      log: (level, message) =>
        level === 'error'
          ? log.warn('the sign-in library reported an error', { detail: message })
          : log.debug('the sign-in library reported a warning', { detail: message }),
    },
    emailAndPassword: {
      enabled: true,
      password: {
        hash: (password) => options.passwords.hash(password),
        verify: ({ hash, password }) => options.passwords.verify(hash, password),
      },
      disableSignUp: true,
      minPasswordLength: 10,
      // In UTF-16 code units. The API allows 128 characters of one or two code units each.
      maxPasswordLength: 256,
      revokeSessionsOnPasswordReset: true,
      resetPasswordTokenExpiresIn: RESET_MS / 1000,
      // Not awaited, because the response time would reveal whether a user exists.
      sendResetPassword: async ({ user, token }) => options.sendResetToken(user, token),
      onPasswordReset: ({ user }) => options.onPasswordReset(user.id),
    },
    session: {
      expiresIn: SESSION_MS / 1000,
      additionalFields: { pending: { type: 'boolean', required: false, input: false } },
    },
    // `deleteExpired` deletes expired verifications.
    verification: { storeIdentifier: 'hashed', disableCleanup: true },
    // Anyone can start a sign-in with a provider, so its state is in an encrypted cookie instead of the database.
    account: {
      updateAccountOnSignIn: false,
      storeStateStrategy: 'cookie',
      // `beforeCredential` removes what another person could sign in with.
      accountLinking: { requireLocalEmailVerified: false },
    },
    onAPIError: { errorURL: '/sign-in' },
    socialProviders: providers.social,
    plugins: [...providers.plugins, { id: 'sluice', endpoints: { startSession } }],
    user: { validateUserInfo: (data) => providers.validate(data) },
    databaseHooks: {
      user: {
        create: {
          before: async (user) => ({ data: { ...user, name: nameOf(user) } }),
          after: (user) => providers.onCreated(user),
        },
      },
      account: {
        create: {
          before: (account) => options.beforeCredential(account.userId, account.providerId),
          after: (account) => options.onCredential(account.userId, account.providerId),
        },
      },
      session: {
        create: {
          /** Makes a new session pending if the user has a second factor, unless `startSession` creates it. */
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
      // If true, better-auth would add the prefix `__Secure-`. Our prefix `__Host-` also binds the cookie to this
      // host.
      useSecureCookies: false,
      defaultCookieAttributes: {
        secure: options.secureCookies,
        httpOnly: true,
        sameSite: 'lax',
        path: '/',
      },
      ipAddress: { ipAddressHeaders: [ADDRESS_HEADER] },
      database: {
        generateId: ({ model }) =>
          `${model === 'account' ? 'credential' : model}_${randomBytes(12).toString('hex')}`,
      },
    },
  });
}

/** Makes a provider's user name valid by the rules of `checkedName`. */
function nameOf({ name, email }: { name: string; email: string }): string {
  const visible = name
    .replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '')
    .trim()
    .toWellFormed();
  return Array.from(visible || email)
    .slice(0, MAX_NAME)
    .join('')
    .trim();
}

/**
 * Creates a complete session with its cookie. Rejects with a `ServiceError` `sign_in_required` if there is no such user.
 * Not reachable over HTTP.
 */
const startSession = createAuthEndpoint.serverOnly(
  { method: 'POST', body: z.object({ userId: z.string() }) },
  async (context) => {
    const { internalAdapter } = context.context;
    const user = await internalAdapter.findUserById(context.body.userId);
    const session = user && (await internalAdapter.createSession(user.id, false, { pending: false }));
    if (!session) throw new ServiceError('sign_in_required', 'This user was deleted.');
    await setSessionCookie(context, { session, user });
    return {};
  },
);

async function hasSecondFactor({ kysely }: Database, userId: string): Promise<boolean> {
  const row = await kysely
    .selectFrom('users')
    .select('id')
    .where('id', '=', userId)
    .where('two_factor', '=', 1)
    .executeTakeFirst();
  return row !== undefined;
}
