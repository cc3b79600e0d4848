/** Value of a cell; money is the exact decimal string of the API. */
export type Cell = string | number | null;

/** Formats rows as CSV (RFC 4180). The first row is the header. */
export function csv(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => `${row.map(formatted).join(',')}\r\n`).join('');
}

/** User-chosen names that look like formulas are escaped for spreadsheets. */
function formatted(value: Cell): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const plain = /^[=+\-@\t\r]/.test(value) && !/^-?\d+(\.\d+)?$/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
