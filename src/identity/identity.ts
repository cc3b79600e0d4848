import { setImmediate } from 'node:timers/promises';
import { appendAudit } from '../accounts/audit.ts';
import type { ConfigFile } from '../config/schema.ts';
import type { Database } from '../database/database.ts';
import { AUTH_SECRET, type Transaction } from '../database/schema.ts';
import type { SecretKeys } from '../database/secret-keys.ts';
import type { Log } from '../support/log.ts';
import { Secret } from '../support/secret.ts';
import { Attempts } from './attempts.ts';
import type { Auth } from './auth.ts';
import { Mailer, resetEmail } from './mailer.ts';
import { endPresentedSession, endSessions, presentedSession, type UserSession } from './sessions.ts';
import { confirmAddress } from './confirm-address.ts';
import { PASSWORD, SCRYPT, type PasswordHasher } from './password.ts';
import { authHeaders, type BrowserRequest } from './browser-request.ts';

export interface IdentityOptions {
  database: Database;
  config: Pick<ConfigFile, 'signIn' | 'smtp'>;
  secrets: ReadonlyMap<string, Secret>;
  /** Encrypts the secrets of second factors. */
  secretKeys: SecretKeys;
  /** Returns the URL that callers use, without `/v1`. A function, because the port may be assigned later. */
  publicUrl: () => string;
  log: Log;
  /** Default: `SCRYPT`. Tests pass a cheaper one. */
  passwords?: PasswordHasher;
}

/**
 * Users of the console and their sessions. better-auth is loaded at the first sign-in, because it takes half a second
 * and 55 MB. Reading a session needs only the database.
 */
export class Identity implements AsyncDisposable {
  readonly database: Database;
  readonly attempts: Attempts;
  readonly settings: ConfigFile['signIn'];
  /** Null: SMTP is not configured. */
  readonly mailer: Mailer | null;
  readonly publicUrl: () => string;
  readonly log: Log;
  readonly passwords: PasswordHasher;
  readonly secretKeys: SecretKeys;
  readonly #secrets: ReadonlyMap<string, Secret>;
  #auth: Promise<Auth> | null = null;

  constructor(options: IdentityOptions) {
    const { database, config, secrets, publicUrl, log, passwords = SCRYPT } = options;
    const { smtp } = config;
    const password = smtp?.passwordEnv === undefined ? undefined : secrets.get(smtp.passwordEnv);
    this.database = database;
    this.attempts = new Attempts(database);
    this.settings = config.signIn;
    this.mailer = smtp === undefined ? null : new Mailer(smtp, password, log);
    this.publicUrl = publicUrl;
    this.log = log;
    this.passwords = passwords;
    this.secretKeys = options.secretKeys;
    this.#secrets = secrets;
  }

  /** Returns the session of a signed-in user; null: none. */
  async session(request: Pick<BrowserRequest, 'headers'>): Promise<UserSession | null> {
    const presented = await this.presentedSession(request);
    return presented === null || presented.pending ? null : presented.session;
  }

  /** Returns a session that may wait for its second factor; null: none. */
  async presentedSession({ headers }: Pick<BrowserRequest, 'headers'>): ReturnType<typeof presentedSession> {
    return await presentedSession(this.database, headers, this.cookieName);
  }

  /**
   * Name of the session cookie. With https, the prefix `__Host-` prevents other hosts of the domain from setting it.
   */
  get cookieName(): string {
    return `${this.#cookiePrefix}.session_token`;
  }

  get #cookiePrefix(): string {
    return this.#isSecure ? '__Host-sluice' : 'sluice';
  }

  get #isSecure(): boolean {
    return new URL(this.publicUrl()).protocol === 'https:';
  }

  auth(): Promise<Auth> {
    this.#auth ??= this.#load().catch((error: unknown) => {
      this.#auth = null;
      throw error;
    });
    return this.#auth;
  }

  /** Starts a session in place of the browser's previous one, and returns the cookies to set. */
  async startSession(request: BrowserRequest, userId: string): Promise<string[]> {
    await endPresentedSession(this.database, request, this.cookieName);
    const auth = await this.auth();
    const { headers } = await auth.api.startSession({
      body: { userId },
      headers: authHeaders(request),
      returnHeaders: true,
    });
    return headers.getSetCookie();
  }

  /** Waits for emails that are being sent. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.mailer?.[Symbol.asyncDispose]();
  }

  async #load(): Promise<Auth> {
    const { database, log } = this;
    const { openAuth, providerAuth } = await loadAuth();
    const { value } = await database.kysely
      .selectFrom('settings')
      .select('value')
      .where('name', '=', AUTH_SECRET)
      .executeTakeFirstOrThrow();
    return openAuth({
      database,
      secret: new Secret(value),
      origin: new URL(this.publicUrl()).origin,
      cookiePrefix: this.#cookiePrefix,
      secureCookies: this.#isSecure,
      passwords: this.passwords,
      providers: providerAuth({
        database,
        providers: this.settings.providers,
        secretOf: (variable) => this.#secretOf(variable),
        allowUnknownUsers: this.settings.allowUnknownUsers,
      }),
      sendResetToken: ({ email, name }, token) =>
        this.mailer?.send(resetEmail({ email, name }, `${this.publicUrl()}/reset-password#${token}`)),
      onCredential: recordProvider,
      onPasswordReset: (userId) => recordPasswordReset(database, userId),
      log,
    });
  }

  #secretOf(variable: string): Secret {
    const secret = this.#secrets.get(variable);
    if (secret === undefined) throw new TypeError(`the secret ${variable} was not loaded`);
    return secret;
  }
}

/**
 * Records that the user signs in with a provider for the first time, which has verified their address. New passwords are
 * recorded by the code that sets them.
 */
async function recordProvider(transaction: Transaction, userId: string, provider: string): Promise<void> {
  if (provider === PASSWORD) return;
  const by = { id: `user:${userId}`, ip: null };
  await confirmAddress(transaction, userId, provider, by);
  await appendAudit(transaction, by, { action: 'user.add_provider', subject: by.id, detail: { provider } });
}

/** Records that the user has set a password by a reset link, which verifies the email address and ends all sessions. */
async function recordPasswordReset(database: Database, userId: string): Promise<void> {
  const subject = `user:${userId}`;
  const by = { id: subject, ip: null };
  await database.kysely.transaction().execute(async (transaction) => {
    await confirmAddress(transaction, userId, PASSWORD, by);
    await endSessions(transaction, userId, 'all', by);
    await appendAudit(transaction, by, {
      action: 'user.change_password',
      subject,
      detail: { by_link: true },
    });
  });
}

/**
 * Parts of better-auth, each of which takes at most about 30 ms to compile and run. Imported at once, they block the
 * event loop, and with it every stream, for more than 100 ms.
 */
const PARTS: readonly (() => Promise<unknown>)[] = [
  () => import('better-auth/crypto'),
  () => import('better-auth/adapters'),
  () => import('better-auth/social-providers'),
  () => import('better-auth/oauth2'),
  () => import('better-auth/db'),
  () => import('better-auth/api'),
  () => import('better-auth/minimal'),
  () => import('better-auth/plugins/generic-oauth'),
];

/** Imports better-auth part by part, and returns the modules that use it. Other work runs between two parts. */
export async function loadAuth() {
  for (const part of PARTS) {
    await part();
    await setImmediate();
  }
  const { openAuth } = await import('./auth.ts');
  const { providerAuth } = await import('./providers.ts');
  return { openAuth, providerAuth };
}
