import { sql, type Kysely } from 'kysely';
import { LEDGER, sqlName, type LedgerColumn, type RowOf } from '../../database/ledger-columns.ts';
import type { Schema } from '../../database/schema.ts';

/** A row of the ledger. Times are Unix milliseconds, money is pico-dollars. */
export type LedgerRecord = RowOf<typeof LEDGER>;

const COLUMNS = Object.entries<LedgerColumn>(LEDGER).map(([property, { kind }]) => ({
  property,
  name: sqlName(property),
  kind,
}));

const SELECTION = COLUMNS.map(({ name, kind }) =>
  (kind === 'pico' ? sql<unknown>`cast(${sql.ref(name)} as text)` : sql.ref(name)).as(name),
);

/** A row as the database returns it: flags as numbers, pico amounts as text. */
type SelectedRow = Readonly<Record<string, unknown>> & { readonly id: string };

/** Selects whole rows of the ledger; `toRecord` converts each. */
export function selectRecords(kysely: Kysely<Schema>) {
  return kysely.selectFrom('ledger').select(SELECTION).$castTo<SelectedRow>();
}

export function toRecord(row: SelectedRow): LedgerRecord {
  const record: Record<string, unknown> = {};
  for (const { property, name, kind } of COLUMNS) {
    const value = row[name] ?? null;
    if (value === null || kind === 'text' || kind === 'integer') record[property] = value;
    // Pico amounts are selected as text.
    else record[property] = kind === 'flag' ? value === 1 : BigInt(value as string);
  }
  // `COLUMNS` covers all properties of the record.
  return record as LedgerRecord;
}
