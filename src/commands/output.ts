/**
 * What commands print. Listings go to standard output, as a table for people or as JSON for programs; everything
 * about how it went goes to standard error.
 */

/** One line to standard output. */
export function print(text: string): void {
  process.stdout.write(`${text}\n`);
}

/** One line to standard error. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Any value as indented JSON. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2));
}

/** Rows under their headings, columns as wide as what is in them. */
export function printTable(headings: readonly string[], rows: readonly (readonly string[])[]): void {
  const widths = headings.map((heading, column) =>
    Math.max(heading.length, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of [headings, ...rows]) {
    print(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}

/** Unix milliseconds as ISO 8601 in UTC, to the second; a dash for never. */
export function shortTime(unixMs: number | null): string {
  return unixMs === null ? '-' : new Date(unixMs).toISOString().replace(/\.\d{3}Z$/, 'Z');
}

/** Unix milliseconds as ISO 8601 in UTC; null stays null. */
export function isoTime(unixMs: number | null): string | null {
  return unixMs === null ? null : new Date(unixMs).toISOString();
}
