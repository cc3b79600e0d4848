import { sql, type RawBuilder } from 'kysely';

export type DatabaseKind = 'sqlite' | 'postgres';

/** How a migration says the same on either database. */
export interface ColumnTypes {
  /** Text that is compared byte by byte, as SQLite does anyway: one order of rows and pages everywhere. */
  text: RawBuilder<unknown>;
  /** 64 bits: times, tokens, money. */
  integer: RawBuilder<unknown>;
  /** At least 32 bits: flags, days, statuses. */
  small: RawBuilder<unknown>;
  /** Ends a table: SQLite checks the types of values only in those that are `strict`. */
  strict: RawBuilder<unknown>;
  /** The same for a table that is kept in the order of its primary key. */
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
