export function readJson(text: string): { value: unknown } | { error: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { error: `Invalid JSON: ${error instanceof Error ? error.message : 'cannot be parsed'}.` };
  }
}

/** Returns whether a JSON value is an object, and not null or an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Indents JSON by two spaces; invalid JSON is returned unchanged. */
export function indented(text: string): string {
  const read = readJson(text);
  return 'value' in read ? JSON.stringify(read.value, null, 2) : text;
}
