import { ServiceError } from '../core/errors.ts';
import { isRawNumber, numberValue } from './exact-json.ts';
import { misspelled } from '../support/nearest.ts';
import type { Notes } from '../core/notes.ts';

export type JsonObject = Readonly<Record<string, unknown>>;

/** Returns `{}` for anything but a JSON object. */
export function jsonObject(value: unknown): JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonObject) : {};
}

/** Returns `[]` for anything but an array. */
export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Returns `''` for anything but a string. */
export function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

/** Returns a whole number, or null for any other value. */
export function readCount(value: unknown): number | null {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 ? value : null;
}

/** Encodes a text for a JSON string, without the quotes. */
export function escapeJson(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Parses a JSON object. Returns `{}` for any other text. */
export function parseJsonObject(text: string): JsonObject {
  try {
    return jsonObject(JSON.parse(text));
  } catch {
    return {};
  }
}

/** The error for a value of the wrong JSON type. `expected` continues "must be". */
export function wrongType(path: string, expected: string, value: unknown): ServiceError {
  return new ServiceError('invalid_type', `\`${path}\` must be ${expected}; got ${describeValue(value)}.`, {
    param: path,
  });
}

/** The error for a value of the right type that is out of bounds. `expected` continues "must be". */
export function wrongValue(path: string, expected: string, got?: number): ServiceError {
  const found = got === undefined ? '' : `; got ${got}`;
  return new ServiceError('invalid_value', `\`${path}\` must be ${expected}${found}.`, { param: path });
}

export function missing(path: string): ServiceError {
  return new ServiceError('missing_required_parameter', `\`${path}\` is required.`, { param: path });
}

/** The error for a field, or a use of a field, that is not supported. */
export function unsupported(path: string, why = 'is not supported'): ServiceError {
  return new ServiceError('unsupported_parameter', `\`${path}\` ${why}.`, { param: path });
}

/** Checks that a value is a well-formed string. Throws `invalid_type`, or `invalid_value` for a lone surrogate. */
export function asString(value: unknown, path: string): string {
  if (typeof value !== 'string') throw wrongType(path, 'a string', value);
  checkWellFormed(value, path);
  return value;
}

/** Checks that a value is a well-formed string, and not empty. Throws `invalid_type` or `invalid_value`. */
export function nonEmptyString(value: unknown, path: string): string {
  const text = asString(value, path);
  if (text === '') throw wrongValue(path, 'text that is not empty');
  return text;
}

/** Whether the texts and names in a JSON value have no lone surrogates. */
export function isWellFormed(value: unknown): boolean {
  if (typeof value === 'string') return value.isWellFormed();
  if (typeof value !== 'object' || value === null) return true;
  if (Array.isArray(value)) return value.every(isWellFormed);
  return Object.entries(value).every(([name, member]) => name.isWellFormed() && isWellFormed(member));
}

/** Checks that a JSON value has no lone surrogates. Throws `invalid_value`. */
export function checkWellFormed(value: unknown, path: string): void {
  if (!isWellFormed(value)) throw wrongValue(path, 'well-formed Unicode text, without lone surrogates');
}

/** Checks the same of a value by its JSON text from `JSON.stringify`, which is faster if the text is there anyway. */
export function checkWellFormedJson(text: string, path: string): void {
  if (ESCAPED_SURROGATE.test(text))
    throw wrongValue(path, 'well-formed Unicode text, without lone surrogates');
}

/** `JSON.stringify` escapes only lone surrogates so. An even number of backslashes before it are escaped ones. */
const ESCAPED_SURROGATE = /(?<!\\)(?:\\\\)*\\ud[89a-f]/;

/** Whether a string has more than `max` Unicode code points, the unit of JSON Schema's `maxLength`. */
export function isLongerThan(text: string, max: number): boolean {
  if (text.length <= max) return false;
  return text.length > 2 * max || Array.from(text).length > max;
}

/** Checks that a value is an object and not an array. Throws `invalid_type`. */
export function asObject(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value) || isRawNumber(value)) {
    throw wrongType(path, 'an object', value);
  }
  return value as Readonly<Record<string, unknown>>; // Parsed JSON has string keys.
}

/**
 * Throws `unsupported_parameter` for the first field of `object` that is not in `known` and not null. Suggests the
 * known field that is probably meant.
 */
export function refuseUnknown(
  object: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string> | ReadonlyMap<string, unknown>,
  parent = '',
): void {
  for (const name of Object.keys(object)) {
    if (!known.has(name) && object[name] !== null) {
      const param = parent + displayName(name);
      throw unknownField(param, misspelled(name, known.keys()));
    }
  }
}

/**
 * Notes each field of `object` that is not in `known` and not null. A field whose name is `misspelled` is an error:
 * throws `unsupported_parameter` with the known name, unless the notes are full.
 */
export function noteUnknown(
  object: Readonly<Record<string, unknown>>,
  known: ReadonlySet<string> | ReadonlyMap<string, unknown>,
  notes: Notes,
  parent = '',
): void {
  for (const name of Object.keys(object)) {
    if (!known.has(name)) noteUnknownField(object, name, known, notes, parent);
  }
}

/** Like `noteUnknown`, for the field `name`, which is not known. */
export function noteUnknownField(
  object: Readonly<Record<string, unknown>>,
  name: string,
  known: ReadonlySet<string> | ReadonlyMap<string, unknown>,
  notes: Notes,
  parent: string,
): void {
  // A request can have tens of thousands of unknown fields.
  // Reading their values takes as long as listing their names.
  if (notes.isFull) return notes.addUnnamed();
  if (object[name] === null) return;
  const param = parent + displayName(name);
  const meant = misspelled(name, known.keys());
  if (meant !== null) throw unknownField(param, meant);
  notes.add(param, 'ignored (unknown field)');
}

function unknownField(param: string, meant: string | null): ServiceError {
  const suggestion = meant === null ? '' : ` Did you mean \`${meant}\`?`;
  return new ServiceError('unsupported_parameter', `Unknown field: \`${param}\`.${suggestion}`, { param });
}

/** Shortens a field name for messages and `param`, and replaces lone surrogates. */
export function displayName(name: string): string {
  const text = name.toWellFormed();
  return text.length > 64 ? `${text.slice(0, 64).toWellFormed()}…` : text;
}

/** Describes a value for messages: its JSON type, or the value itself if it is a number or a boolean. */
function describeValue(json: unknown): string {
  const value = numberValue(json);
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return 'a string';
}
