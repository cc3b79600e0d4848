import { createAdapterFactory } from 'better-auth/adapters';
import { expressionBuilder, sql, type Expression, type Kysely, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { hashToken } from './token.ts';

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
 * while it hashes a password, which blocks all other writes on SQLite.
 */
export function authAdapter({ kysely }: Database) {
  // Table and column names are dynamic; `TABLES` contains only existing ones. better-auth chooses `T` based on the
  // model name, hence `as T` below.
  const database = kysely as unknown as Kysely<Record<string, Row>>;
  return createAdapterFactory({
    config: { adapterId: 'sluice', supportsBooleans: true, supportsDates: true, transaction: false },
    adapter: () => ({
      async create<T extends Row>({ model, data }: { model: string; data: T }): Promise<T> {
        const table = tableOf(model);
        await database.insertInto(table.name).values(toRow(model, data)).execute();
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
