import { isObject, readJson } from './json.ts';

/** The bounds of the API: see `docs/api.md`. */
export const MAX_VARIABLES = 64;
/** Maximum size of all variables, in characters of JSON. */
export const MAX_VARIABLES_LENGTH = 65_536;
const NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** Validates template variables; null: valid or empty. The service refuses the names that it sets itself. */
export function variablesError(text: string): string | null {
  if (text.trim() === '') return null;
  const read = readJson(text);
  if ('error' in read) return read.error;
  if (!isObject(read.value)) return 'Enter a JSON object, such as { "enable_thinking": false }.';
  const names = Object.keys(read.value);
  if (names.length > MAX_VARIABLES) return `Use at most ${MAX_VARIABLES} variables.`;
  const invalid = names.find((name) => !NAME.test(name));
  if (invalid !== undefined) {
    return `${JSON.stringify(invalid)} must be a letter and up to 63 letters, digits or _.`;
  }
  return JSON.stringify(read.value).length > MAX_VARIABLES_LENGTH
    ? `Use at most ${MAX_VARIABLES_LENGTH} characters of JSON.`
    : null;
}
