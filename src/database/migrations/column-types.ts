import { sql, type RawBuilder } from 'kysely';

export type DatabaseKind = 'sqlite' | 'postgres';

/** The SQL of column types on either database. */
export interface ColumnTypes {
  /** Text compared by bytes, as in SQLite, so that the order of rows is the same everywhere. */
  text: RawBuilder<unknown>;
  /** 64 bits: times, tokens, money. */
  integer: RawBuilder<unknown>;
  /** At least 32 bits: flags, days, statuses. */
  small: RawBuilder<unknown>;
  /** Table options. SQLite checks the types of values only in `strict` tables. */
  strict: RawBuilder<unknown>;
  /** Like `strict`, but the table is stored in the order of its primary key. */
  strictByKey: RawBuilder<unknown>;
}

export function columnTypes(kind: DatabaseKind): ColumnTypes {
  const postgres = kind === 'postgres';
  return {
    text: sql.raw(postgres ? 'text collate "C"' : 'text'),
    integer: sql.raw(postgres ? 'bigint' : 'integer'),
    small: sql.raw('integer'),
    strict: sql.raw(postgres ? '' : 'strict'),
    strictByKey: sql.raw(postgres ? '' : 'strict, without rowid'),
  };
}
