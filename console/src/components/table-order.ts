import { compareTexts } from '../format/locale.ts';

export interface Order {
  column: string;
  descending: boolean;
}

/** Reads an order from the URL: `cost`, or `-cost` if it is descending. Null: the order of the list. */
export function orderOf(text: string | null): Order | null {
  if (text === null || text === '') return null;
  return text.startsWith('-')
    ? { column: text.slice(1), descending: true }
    : { column: text, descending: false };
}

/** Returns the order after a click on the heading of a column. The first one puts the largest numbers first. */
export function nextOrder(column: string, numeric: boolean, now: Order | null): string | null {
  const first = numeric ? `-${column}` : column;
  const second = numeric ? column : `-${column}`;
  if (now?.column !== column) return first;
  return now.descending === numeric ? second : null;
}

/** Compares two values of a column in ascending order. Missing values are last in both orders. */
export function compareValues(
  a: string | number | null,
  b: string | number | null,
  descending: boolean,
): number {
  if (a === null || b === null) return (a === null ? 1 : 0) - (b === null ? 1 : 0);
  const [one, other] = [Number(a), Number(b)];
  const isNumeric = a !== '' && b !== '' && !Number.isNaN(one) && !Number.isNaN(other);
  const order = isNumeric ? one - other : compareTexts(String(a), String(b));
  return descending ? -order : order;
}
