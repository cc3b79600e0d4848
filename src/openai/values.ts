import { ServiceError } from '../errors.ts';

/** JSON values checked one at a time; each error names the path of the value. */

/** The error for a value of the wrong JSON type; `expected` reads on from "must be". */
export function wrongType(path: string, expected: string, value: unknown): ServiceError {
  return new ServiceError('invalid_type', `\`${path}\` must be ${expected}; got ${typeName(value)}.`, {
    param: path,
  });
}

/** The error for a value of the right type and outside its bounds; `expected` reads on from "must be". */
export function wrongValue(path: string, expected: string, got?: number): ServiceError {
  const found = got === undefined ? '' : `; got ${got}`;
  return new ServiceError('invalid_value', `\`${path}\` must be ${expected}${found}.`, { param: path });
}

/** The error for a field that must be there and is not. */
export function missing(path: string): ServiceError {
  return new ServiceError('missing_required_parameter', `\`${path}\` is required.`, { param: path });
}

/** The error for a field, or a use of a field, that is not honoured here. */
export function unsupported(path: string, why = 'is not supported'): ServiceError {
  return new ServiceError('unsupported_parameter', `\`${path}\` ${why}.`, { param: path });
}

/** A string that can be written as UTF-8. Throws `invalid_type`, or `invalid_value` for a lone surrogate. */
export function asString(value: unknown, path: string): string {
  if (typeof value !== 'string') throw wrongType(path, 'a string', value);
  if (!value.isWellFormed()) throw wrongValue(path, 'well-formed Unicode text, without lone surrogates');
  return value;
}

/** Whether a text has more than `most` Unicode code points, the unit of JSON Schema's `maxLength`. */
export function isLongerThan(text: string, most: number): boolean {
  if (text.length <= most) return false;
  return text.length > 2 * most || Array.from(text).length > most;
}

/** An object that is no array. Throws `invalid_type`. */
export function asObject(value: unknown, path: string): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrongType(path, 'an object', value);
  }
  return value as Readonly<Record<string, unknown>>; // Parsed JSON: an object that is no array has string keys.
}

/** Throws `unsupported_parameter` for the first field of `object` that `known` does not hold. */
export function refuseUnknown(
  object: Readonly<Record<string, unknown>>,
  known: { has(name: string): boolean },
  parent = '',
): void {
  for (const name of Object.keys(object)) {
    if (!known.has(name) && object[name] !== null) {
      const param = parent + shown(name);
      throw new ServiceError('unsupported_parameter', `Unknown field: \`${param}\`.`, { param });
    }
  }
}

/** The name of a field as a message and `param` may hold it: bounded, and writable as UTF-8. */
export function shown(name: string): string {
  const text = name.toWellFormed();
  return text.length > 64 ? `${text.slice(0, 64).toWellFormed()}…` : text;
}

/** A value's JSON type, as messages say it. */
function typeName(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value === 'object') return 'an object';
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return 'a string';
}
