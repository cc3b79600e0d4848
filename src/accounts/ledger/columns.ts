import {
  LEDGER,
  OPENED,
  sqlName,
  type LedgerColumn,
  type LedgerColumns,
} from '../../database/ledger-columns.ts';

/** Returns the SQL names of the columns, in the order of their values. */
export function namesOf(columns: LedgerColumns): string[] {
  return Object.keys(columns).map((property) => sqlName(property));
}

const initial = Object.entries<LedgerColumn>(LEDGER).filter(([property]) => !(property in OPENED));
const withValue = initial.filter(([, column]) => column.initial !== null);

/** SQL for the columns of a new row that have an initial value; the others are null. */
export const INITIAL = {
  names: withValue.map(([property]) => sqlName(property)).join(', '),
  values: withValue.map(([, column]) => column.initial).join(', '),
};
