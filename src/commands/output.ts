/** Output of commands: results go to standard output as tables or JSON, messages to standard error. */

/** Writes text and a line break to standard output, without control characters. */
export function print(text: string): void {
  process.stdout.write(`${printable(text)}\n`);
}

/** Writes a line to standard error. */
export function note(text: string): void {
  process.stderr.write(`${text}\n`);
}

/** Writes indented JSON to standard output. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2).replaceAll(/[\u007f-\u009f]/g, escaped));
}

/** Returns a character as JSON escapes it. `JSON.stringify` escapes only the control characters below U+0020. */
function escaped(character: string): string {
  return `\\u00${character.charCodeAt(0).toString(16)}`;
}

/**
 * Removes control characters except line breaks and tabs. Callers, models and servers could change the terminal with
 * them.
 */
export function printable(text: string): string {
  return text.replaceAll(/[^\P{Cc}\n\t]/gu, '');
}

/** Writes a table with aligned columns to standard output. A row has its cells by their headings. */
export function printTable(rows: readonly Readonly<Record<string, string>>[]): void {
  const headings = Object.keys(rows[0] ?? {});
  const widths = headings.map((heading) =>
    rows.reduce((width, row) => Math.max(width, row[heading]?.length ?? 0), heading.length),
  );
  for (const cells of [headings, ...rows.map((row) => Object.values(row))]) {
    print(
      cells
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
  }
}

/**
 * Formats a line of CSV (RFC 4180), including its line end; null becomes an empty field, a list its names with spaces.
 * Texts have no control characters, as in `print`. Those that a spreadsheet would run as formulas begin with an apostrophe,
 * as in the CSV files of the console.
 */
export function csvLine(values: readonly (string | number | boolean | null | string[])[]): string {
  return `${values.map(csvField).join(',')}\n`;
}

function csvField(value: string | number | boolean | null | string[]): string {
  const text = printable(Array.isArray(value) ? value.join(' ') : String(value ?? ''));
  const isFormula = /^[=+\-@\t]/.test(text) && !/^-?\d+(\.\d+)?$/.test(text);
  const plain = isFormula ? `'${text}` : text;
  return /[",\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}

/** Formats Unix milliseconds as ISO 8601 in UTC, to the second; null becomes a dash. */
export function shortTime(unixMs: number | null): string {
  return unixMs === null ? '-' : new Date(unixMs).toISOString().replace(/\.\d{3}Z$/, 'Z');
}
