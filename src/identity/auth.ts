import { randomBytes } from 'node:crypto';
import { betterAuth } from 'better-auth/minimal';
import { createAuthEndpoint } from 'better-auth/api';
import { setSessionCookie } from 'better-auth/cookies';
import { z } from 'zod';
import { createAdapterFactory } from 'better-auth/adapters';
import { expressionBuilder, sql, type Expression, type Kysely, type RawBuilder, type SqlBool } from 'kysely';
import { MAX_NAME } from '../accounts/bounds.ts';
import type { Database } from '../database/database.ts';
import { ServiceError } from '../core/errors.ts';
import type { Log } from '../support/log.ts';
import type { Secret } from '../support/secret.ts';
import type { Schema, Transaction } from '../database/schema.ts';
import type { PasswordHasher } from './password.ts';
import type { NewUser, ProviderAuth } from './providers.ts';
import { hasSecondFactor } from './second-factor.ts';
import { ADDRESS_HEADER } from './browser-request.ts';
import { PENDING_MS, RESET_MS, SESSION_MS, hashToken } from './token.ts';

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
  /** Called in the transaction that adds a provider or a password (`credential`) to a user. */
  onCredential(transaction: Transaction, userId: string, provider: string): Promise<void>;
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
    database: authAdapter(options),
    telemetry: { enabled: false },
    // `attempts.ts` counts by IP address and by user, for all instances.
    rateLimit: { enabled: false },
    logger: {
      level: 'warn',
      log: (level, message, detail: unknown) =>
        level === 'error'
          ? log.warn('the sign-in library reported an error', { detail: message, error: errorIn(detail) })
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
      // `onPasswordReset` ends the sessions with their playground keys.
      revokeSessionsOnPasswordReset: false,
      resetPasswordTokenExpiresIn: RESET_MS / 1000,
      // Not awaited, because the response time would reveal whether a user exists.
      sendResetPassword: async ({ user, token }) => options.sendResetToken(user, token),
      onPasswordReset: ({ user }) => options.onPasswordReset(user.id),
    },
    session: {
      expiresIn: SESSION_MS / 1000,
      additionalFields: { pending: { type: 'boolean', required: false, input: false } },
    },
    // `expiredSignIns` deletes expired verifications.
    verification: { storeIdentifier: 'hashed', disableCleanup: true },
    // Anyone can start a sign-in with a provider, so its state is in an encrypted cookie instead of the database.
    account: {
      updateAccountOnSignIn: false,
      storeStateStrategy: 'cookie',
      // `onCredential` removes what another person could sign in with.
      accountLinking: { requireLocalEmailVerified: false },
    },
    // Otherwise, better-auth would print errors to the console.
    onAPIError: { errorURL: '/sign-in', throw: true },
    socialProviders: providers.social,
    plugins: [...providers.plugins, { id: 'sluice', endpoints: { startSession } }],
    user: { validateUserInfo: (data) => providers.validate(data) },
    databaseHooks: {
      user: {
        create: {
          before: async (user) => ({ data: { ...user, name: nameOf(user) } }),
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

/** Returns the error that better-auth logs with a message, alone or in an object. */
function errorIn(detail: unknown): Error | undefined {
  if (detail instanceof Error) return detail;
  const isObject = typeof detail === 'object' && detail !== null;
  return isObject && 'error' in detail && detail.error instanceof Error ? detail.error : undefined;
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

/** A table, and its columns by better-auth's field names. */
interface MappedTable {
  name: keyof Schema;
  columns: Readonly<Record<string, string>>;
}

const COMMON = { id: 'id', createdAt: 'created_at', updatedAt: 'updated_at' };

/**
 * Our tables by better-auth's model names. Fields without a column, such as pictures and the tokens of providers, are
 * not stored.
 */
const TABLES: Readonly<Record<string, MappedTable>> = {
  user: {
    name: 'users',
    columns: { ...COMMON, name: 'name', email: 'email', emailVerified: 'email_verified' },
  },
  session: {
    name: 'sessions',
    columns: {
      ...COMMON,
      token: 'token_hash',
      userId: 'user_id',
      pending: 'pending',
      ipAddress: 'ip',
      userAgent: 'user_agent',
      updatedAt: 'last_active_at',
      expiresAt: 'expires_at',
    },
  },
  account: {
    name: 'credentials',
    columns: {
      ...COMMON,
      userId: 'user_id',
      providerId: 'provider',
      accountId: 'subject',
      password: 'password_hash',
    },
  },
  verification: {
    name: 'verifications',
    columns: { ...COMMON, identifier: 'identifier', value: 'value', expiresAt: 'expires_at' },
  },
};

/** Booleans in better-auth; 0 or 1 in the database. */
const FLAGS: ReadonlySet<string> = new Set(['emailVerified', 'pending']);

interface Where {
  operator: string;
  connector: string;
  field: string;
  value: unknown;
}

type Row = Record<string, unknown>;

/**
 * Returns the database adapter for better-auth. It does not support transactions: better-auth would keep one open
 * while it hashes a password, which blocks all other writes on SQLite. Only what belongs to a new row is stored in the
 * same transaction, which better-auth's own hooks would not be.
 */
function authAdapter(options: AuthOptions) {
  const { kysely } = options.database;
  // Table and column names are dynamic; `TABLES` contains only existing ones. better-auth chooses `T` based on the
  // model name, hence `as T` below.
  const database = kysely as unknown as Kysely<Record<string, Row>>;
  return createAdapterFactory({
    config: { adapterId: 'sluice', supportsBooleans: true, supportsDates: true, transaction: false },
    adapter: () => ({
      async create<T extends Row>({ model, data }: { model: string; data: T }): Promise<T> {
        await kysely.transaction().execute(async (transaction) => {
          const tables = transaction as unknown as typeof database;
          await tables.insertInto(tableOf(model).name).values(toRow(model, data)).execute();
          // better-auth's fields of these models.
          if (model === 'user') await options.providers.onCreated(transaction, data as unknown as NewUser);
          if (model === 'account') {
            const { userId, providerId } = data as unknown as { userId: string; providerId: string };
            await options.onCredential(transaction, userId, providerId);
          }
        });
        return data;
      },
      async findOne<T>({ model, where }: { model: string; where: Where[] }): Promise<T | null> {
        const row = await matching(model, where).selectAll().limit(1).executeTakeFirst();
        return row === undefined ? null : (fromRow(model, row, where) as T);
      },
      async findMany<T>({ model, where = [], limit, sortBy, offset }: FindManyQuery): Promise<T[]> {
        let rows = matching(model, where).selectAll().limit(limit);
        if (sortBy) rows = rows.orderBy(columnOf(model, sortBy.field), sortBy.direction);
        if (offset !== undefined) rows = rows.offset(offset);
        return (await rows.execute()).map((row) => fromRow(model, row, where) as T);
      },
      async update<T>({ model, where, update }: UpdateQuery<T>): Promise<T | null> {
        const row = await updating(model, where, update).returningAll().executeTakeFirst();
        return row === undefined ? null : (fromRow(model, row, where) as T);
      },
      async updateMany({ model, where, update }: UpdateQuery<Row>): Promise<number> {
        return Number((await updating(model, where, update).executeTakeFirst()).numUpdatedRows);
      },
      async delete({ model, where }: { model: string; where: Where[] }): Promise<void> {
        await deleting(model, where).execute();
      },
      async deleteMany({ model, where }: { model: string; where: Where[] }): Promise<number> {
        return Number((await deleting(model, where).executeTakeFirst()).numDeletedRows);
      },
      /** Only one of concurrent calls gets the row. */
      async consumeOne<T>({ model, where }: { model: string; where: Where[] }): Promise<T | null> {
        const row = await deleting(model, where).returningAll().executeTakeFirst();
        return row === undefined ? null : (fromRow(model, row, where) as T);
      },
      async count({ model, where = [] }: { model: string; where?: Where[] }): Promise<number> {
        const rows = matching(model, where).select((select) => select.fn.countAll<number>().as('count'));
        return (await rows.executeTakeFirstOrThrow()).count;
      },
    }),
  });

  function matching(model: string, where: readonly Where[]) {
    return database.selectFrom(tableOf(model).name).where(condition(model, where));
  }

  function updating(model: string, where: readonly Where[], update: unknown) {
    // `update` is an object of fields.
    const values = toRow(model, update as Row);
    return database.updateTable(tableOf(model).name).set(values).where(condition(model, where));
  }

  function deleting(model: string, where: readonly Where[]) {
    return database.deleteFrom(tableOf(model).name).where(condition(model, where));
  }
}

interface FindManyQuery {
  model: string;
  where?: Where[] | undefined;
  limit: number;
  sortBy?: { field: string; direction: 'asc' | 'desc' } | undefined;
  offset?: number | undefined;
}

interface UpdateQuery<T> {
  model: string;
  where: Where[];
  update: T;
}

const OPERATORS: Readonly<Record<string, string>> = {
  eq: '=',
  ne: '<>',
  lt: '<',
  lte: '<=',
  gt: '>',
  gte: '>=',
  in: 'in',
};

function condition(model: string, where: readonly Where[]): Expression<SqlBool> {
  return expressionBuilder().and(where.map((clause) => comparison(model, clause)));
}

function comparison(model: string, { operator, connector, field, value }: Where): RawBuilder<SqlBool> {
  const sqlOperator = OPERATORS[operator];
  if (sqlOperator === undefined || connector !== 'AND') {
    throw new TypeError(`better-auth used ${operator} with ${connector} on ${model}.${field}`);
  }
  const column = sql.ref(columnOf(model, field));
  if (value === null) return sql`${column} ${sql.raw(operator === 'eq' ? 'is null' : 'is not null')}`;
  if (Array.isArray(value)) {
    return sql`${column} in (${sql.join(value.map((item) => toColumn(model, field, item)))})`;
  }
  return sql`${column} ${sql.raw(sqlOperator)} ${toColumn(model, field, value)}`;
}

function tableOf(model: string): MappedTable {
  const table = TABLES[model];
  if (table === undefined) throw new TypeError(`better-auth used the unknown table ${model}`);
  return table;
}

function columnOf(model: string, field: string): string {
  const column = tableOf(model).columns[field];
  if (column === undefined) throw new TypeError(`better-auth used the unknown field ${model}.${field}`);
  return column;
}

/** Converts a value for its column. Session tokens are stored as hashes. */
function toColumn(model: string, field: string, value: unknown): unknown {
  if (value instanceof Date) return value.getTime();
  if (typeof value === 'boolean') return value ? 1 : 0;
  if (model === 'session' && field === 'token') return hashToken(String(value));
  return value;
}

function toRow(model: string, data: Row): Row {
  const { columns } = tableOf(model);
  return Object.fromEntries(
    Object.entries(data).flatMap(([field, value]) => {
      const column = columns[field];
      return column === undefined ? [] : [[column, toColumn(model, field, value)]];
    }),
  );
}

/** Converts a row to better-auth's fields. The token of a session is taken from the query. */
function fromRow(model: string, row: Row, where: readonly Where[]): Row {
  const fields = Object.fromEntries(
    Object.entries(tableOf(model).columns).map(([field, column]) => {
      const value = row[column];
      if (column.endsWith('_at') && typeof value === 'number') return [field, new Date(value)];
      return [field, FLAGS.has(field) ? value === 1 : value];
    }),
  );
  const token = model === 'session' && where.find(({ field }) => field === 'token')?.value;
  return typeof token === 'string' ? { ...fields, token } : fields;
}
