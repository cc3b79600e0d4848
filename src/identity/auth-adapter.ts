import { createAdapterFactory } from 'better-auth/adapters';
import { sql, type Kysely, type RawBuilder, type SqlBool } from 'kysely';
import type { Database } from '../database/database.ts';
import type { Schema } from '../database/schema.ts';
import { hashToken } from './token.ts';

/** What better-auth calls a table and its columns, and what we do. */
interface Table {
  name: keyof Schema;
  columns: Readonly<Record<string, string>>;
}

/**
 * The tables of better-auth among ours: people are its users, credentials its accounts. What has no column is not
 * kept: a picture, and the tokens of providers, since nobody is called in a person's name.
 */
const TABLES: Readonly<Record<string, Table>> = {
  user: {
    name: 'people',
    columns: {
      id: 'id',
      name: 'name',
      email: 'email',
      emailVerified: 'email_verified',
      createdAt: 'created_at',
      updatedAt: 'updated_at',
    },
  },
  session: {
    name: 'sessions',
    columns: {
      id: 'id',
      token: 'token_hash',
      userId: 'person_id',
      pending: 'pending',
      ipAddress: 'ip',
      userAgent: 'user_agent',
      createdAt: 'created_at',
      updatedAt: 'last_active_at',
      expiresAt: 'expires_at',
    },
  },
  account: {
    name: 'credentials',
    columns: {
      id: 'id',
      userId: 'person_id',
      providerId: 'provider',
      accountId: 'subject',
      password: 'password_hash',
      createdAt: 'created_at',
      updatedAt: 'updated_at',
    },
  },
  verification: {
    name: 'verifications',
    columns: {
      id: 'id',
      identifier: 'identifier',
      value: 'value',
      createdAt: 'created_at',
      updatedAt: 'updated_at',
      expiresAt: 'expires_at',
    },
  },
};

/** Fields that better-auth has as booleans, and we as 0 or 1. */
const FLAGS: ReadonlySet<string> = new Set(['emailVerified', 'pending']);

interface Where {
  operator: string;
  connector: string;
  field: string;
  value: unknown;
}

type Row = Record<string, unknown>;

/**
 * Our tables as better-auth works on them. Never in a transaction: it would hold one open while it hashes a
 * password, and on SQLite every other write with it.
 */
export function authAdapter({ kysely }: Database) {
  // better-auth knows what it asks for by type, and asks by name: hence `as T` below.
  // Which tables and columns it asks for is known when it does; `TABLES` holds none that there is not.
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
      async findMany<T>({ model, where = [], limit, sortBy, offset }: Wanted): Promise<T[]> {
        let rows = matching(model, where).selectAll().limit(limit);
        if (sortBy) rows = rows.orderBy(columnOf(model, sortBy.field), sortBy.direction);
        if (offset !== undefined) rows = rows.offset(offset);
        return (await rows.execute()).map((row) => fromRow(model, row, where) as T);
      },
      async update<T>({ model, where, update }: Update<T>): Promise<T | null> {
        const row = await updating(model, where, update).returningAll().executeTakeFirst();
        return row === undefined ? null : (fromRow(model, row, where) as T);
      },
      async updateMany({ model, where, update }: Update<Row>): Promise<number> {
        return Number((await updating(model, where, update).executeTakeFirst()).numUpdatedRows);
      },
      async delete({ model, where }: { model: string; where: Where[] }): Promise<void> {
        await deleting(model, where).execute();
      },
      async deleteMany({ model, where }: { model: string; where: Where[] }): Promise<number> {
        return Number((await deleting(model, where).executeTakeFirst()).numDeletedRows);
      },
      /** Who takes it has it for himself: of two that ask at once, one gets nothing. */
      async consumeOne<T>({ model, where }: { model: string; where: Where[] }): Promise<T | null> {
        const row = await deleting(model, where).returningAll().executeTakeFirst();
        return row === undefined ? null : (fromRow(model, row, where) as T);
      },
      async count({ model, where = [] }: { model: string; where?: Where[] }): Promise<number> {
        const counted = matching(model, where).select((select) => select.fn.countAll<number>().as('count'));
        return (await counted.executeTakeFirstOrThrow()).count;
      },
    }),
  });

  function matching(model: string, where: readonly Where[]) {
    let rows = database.selectFrom(tableOf(model).name);
    for (const one of where) rows = rows.where(condition(model, one));
    return rows;
  }

  function updating(model: string, where: readonly Where[], update: unknown) {
    // What better-auth wants changed is an object.
    let rows = database.updateTable(tableOf(model).name).set(toRow(model, update as Row));
    for (const one of where) rows = rows.where(condition(model, one));
    return rows;
  }

  function deleting(model: string, where: readonly Where[]) {
    let rows = database.deleteFrom(tableOf(model).name);
    for (const one of where) rows = rows.where(condition(model, one));
    return rows;
  }
}

interface Wanted {
  model: string;
  where?: Where[] | undefined;
  limit: number;
  sortBy?: { field: string; direction: 'asc' | 'desc' } | undefined;
  offset?: number | undefined;
}

interface Update<T> {
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

function condition(model: string, { operator, connector, field, value }: Where): RawBuilder<SqlBool> {
  const word = OPERATORS[operator];
  if (word === undefined || connector !== 'AND') {
    throw new TypeError(`better-auth asks for ${operator} with ${connector} of ${model}.${field}`);
  }
  const column = sql.ref(columnOf(model, field));
  if (value === null) return sql`${column} ${sql.raw(operator === 'eq' ? 'is null' : 'is not null')}`;
  if (Array.isArray(value)) {
    return sql`${column} in (${sql.join(value.map((one) => toColumn(model, field, one)))})`;
  }
  return sql`${column} ${sql.raw(word)} ${toColumn(model, field, value)}`;
}

function tableOf(model: string): Table {
  const table = TABLES[model];
  if (table === undefined) throw new TypeError(`better-auth asks for the table ${model}`);
  return table;
}

function columnOf(model: string, field: string): string {
  const column = tableOf(model).columns[field];
  if (column === undefined) throw new TypeError(`better-auth asks for ${model}.${field}`);
  return column;
}

/** A value as its column has it. Of a session's token only the hash is kept. */
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

/** A row with the names of better-auth; the token of a session is the one that it was found by. */
function fromRow(model: string, row: Row, where: readonly Where[]): Row {
  const found = Object.fromEntries(
    Object.entries(tableOf(model).columns).map(([field, column]) => {
      const value = row[column];
      if (column.endsWith('_at') && typeof value === 'number') return [field, new Date(value)];
      return [field, FLAGS.has(field) ? value === 1 : value];
    }),
  );
  const token = model === 'session' && where.find(({ field }) => field === 'token')?.value;
  return typeof token === 'string' ? { ...found, token } : found;
}
