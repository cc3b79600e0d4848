/** One line of a CSV file (RFC 4180), with its end; null is an empty field. */
export function csvLine(values: readonly (string | number | boolean | null)[]): string {
  return `${values.map((value) => (value === null ? '' : quoted(String(value)))).join(',')}\n`;
}

function quoted(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
