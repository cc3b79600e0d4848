import type { ConfigFile } from '../config/schema.ts';
import type { Database } from '../database/database.ts';
import { AUTH_SECRET } from '../database/schema.ts';
import type { Log } from '../log.ts';
import { Secret } from '../secret.ts';
import type { Auth } from './auth.ts';
import { Mailer } from './mailer.ts';
import { resetMessage } from './messages.ts';
import { noteCredential, notePasswordReset } from './notes.ts';
import { endPresented, forgetExpired, presentedSession } from './sessions.ts';
import { SCRYPT, type PasswordHasher } from './password.ts';
import type { SignedIn } from './signed-in.ts';
import { authHeaders, type Visit } from './visit.ts';

export interface IdentityOptions {
  database: Database;
  config: Pick<ConfigFile, 'signIn' | 'smtp'>;
  secrets: ReadonlyMap<string, Secret>;
  /** The address callers use, without `/v1`; asked late. */
  publicUrl: () => string;
  log: Log;
  /** `SCRYPT` by default. Tests pass a cheaper one. */
  passwords?: PasswordHasher;
}

/**
 * People's accounts on the console: who they are, how they show it. better-auth is behind it, which is loaded when
 * somebody signs in: that takes half a second and 55 MB. To know who has signed in takes no more than the database.
 */
export class Identity implements AsyncDisposable {
  readonly database: Database;
  readonly settings: ConfigFile['signIn'];
  /** Null: the configuration has no mail server. */
  readonly mailer: Mailer | null;
  readonly publicUrl: () => string;
  readonly log: Log;
  readonly passwords: PasswordHasher;
  readonly #secrets: ReadonlyMap<string, Secret>;
  #opened: Promise<Auth> | null = null;

  constructor({ database, config, secrets, publicUrl, log, passwords = SCRYPT }: IdentityOptions) {
    const { smtp } = config;
    const password = smtp?.passwordEnv === undefined ? undefined : secrets.get(smtp.passwordEnv);
    this.database = database;
    this.settings = config.signIn;
    this.mailer = smtp === undefined ? null : new Mailer(smtp, password, log);
    this.publicUrl = publicUrl;
    this.log = log;
    this.passwords = passwords;
    this.#secrets = secrets;
  }

  /** Whose session a request carries; null: nobody's. */
  async signedIn(visit: Pick<Visit, 'headers'>): Promise<SignedIn | null> {
    const presented = await this.presented(visit);
    return presented === null || presented.pending ? null : presented.who;
  }

  /** The same, or whose sign-in lacks the second factor. */
  async presented({ headers }: Pick<Visit, 'headers'>): ReturnType<typeof presentedSession> {
    return await presentedSession(this.database, headers, this.cookieName);
  }

  /** Of the session. Under https it is bound to this very host, whatever other hosts of the domain set. */
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
    this.#opened ??= this.#load().catch((error: unknown) => {
      this.#opened = null;
      throw error;
    });
    return this.#opened;
  }

  /** Begins a session of somebody who has shown all that it takes, in place of the one before: the cookies to set. */
  async startSession(visit: Visit, personId: string): Promise<string[]> {
    await endPresented(this.database, visit.headers, this.cookieName);
    await forgetExpired(this.database);
    const auth = await this.auth();
    const { headers } = await auth.api.startSession({
      body: { personId },
      headers: authHeaders(visit),
      returnHeaders: true,
    });
    return headers.getSetCookie();
  }

  /** Waits for messages that are on their way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.mailer?.[Symbol.asyncDispose]();
  }

  async #load(): Promise<Auth> {
    const { database, log } = this;
    const { openAuth } = await import('./auth.ts');
    const { providerAuth } = await import('./providers.ts');
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
        letInUnknown: this.settings.letInUnknown,
      }),
      sendResetToken: ({ email, name }, token) =>
        this.mailer?.send(resetMessage({ email, name }, `${this.publicUrl()}/reset-password#${token}`)),
      onCredential: (personId, provider) => noteCredential(database, personId, provider),
      onPasswordReset: (personId) => notePasswordReset(database, personId),
      log,
    });
  }

  #secretOf(variable: string): Secret {
    const secret = this.#secrets.get(variable);
    if (secret === undefined) throw new TypeError(`the secret ${variable} was not loaded`);
    return secret;
  }
}
