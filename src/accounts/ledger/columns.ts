import { LEDGER, OPENED, sqlName, type Column, type Columns } from '../../database/ledger-columns.ts';

/** The names of columns in SQL, in the order of their values. */
export function namesOf(columns: Columns): string[] {
  return Object.keys(columns).map((property) => sqlName(property));
}

const initial = Object.entries<Column>(LEDGER).filter(([property]) => !(property in OPENED));
const set = initial.filter(([, column]) => column.initial !== null);

/** What a new row holds besides what it is opened with, in SQL; the other columns are null. */
export const INITIAL = {
  names: set.map(([property]) => sqlName(property)).join(', '),
  values: set.map(([, column]) => column.initial).join(', '),
};
