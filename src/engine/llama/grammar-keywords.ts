import { type ErrorCode, ServiceError } from '../../errors.ts';
import type { JsonSchema } from '../../generation.ts';
import { ANNOTATIONS as STANDARD_ANNOTATIONS, MAX_REPETITIONS } from '../../openai/json-schema.ts';

export type SchemaObject = Exclude<JsonSchema, boolean>;

export const JSON_TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
export type JsonType = (typeof JSON_TYPES)[number];

/** Keywords that refer to other schemas. */
export const COMBINING_KEYWORDS = ['$ref', 'anyOf', 'oneOf', 'allOf'] as const;

/** Keywords that do not constrain values. Definitions are processed where they are referenced. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([...STANDARD_ANNOTATIONS, '$defs', 'definitions']);

/** The keywords of each type. They determine the types of a schema without `type`. */
export const KEYWORDS_OF_TYPE: Readonly<Partial<Record<JsonType, readonly string[]>>> = {
  object: ['properties', 'required', 'additionalProperties', 'propertyNames'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
};

/** All supported keywords. */
export const GRAMMAR_KEYWORDS: ReadonlySet<string> = new Set([
  ...ANNOTATIONS,
  ...COMBINING_KEYWORDS,
  'type',
  'enum',
  'const',
  ...Object.values(KEYWORDS_OF_TYPE).flat(),
]);

/** Maximum members of a union, values of an `enum` or properties, because each costs time per token. */
export const MAX_BRANCHES = 250;

/** Throws 400 if the value is not a schema object. */
export function schemaObject(schema: unknown, path: string): SchemaObject {
  if (typeof schema === 'object' && schema !== null && !Array.isArray(schema)) return schema as SchemaObject;
  throw schemaError('invalid_type', path, 'A schema must be an object, true or false.');
}

/** Throws 400 if the value is not a list with at least one schema. */
export function schemaList(value: unknown, path: string): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  throw schemaError('invalid_type', path, 'The value must be a list with at least one schema.');
}

export function unsatisfiable(path: string) {
  return schemaError('invalid_value', path, 'No value can satisfy this schema.');
}

/** Validates a bound such as `minItems`; null: not set. */
export function repetitionBound(value: unknown, path: string): number | null {
  if (value === undefined) return null;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw schemaError('invalid_value', path, 'The value must be a whole number, 0 or more.');
  }
  if (value > MAX_REPETITIONS) {
    throw schemaError('invalid_value', path, `The value must be at most ${MAX_REPETITIONS}.`);
  }
  return value;
}

export function schemaError(code: ErrorCode, path: string, message: string): ServiceError {
  return new ServiceError(code, message, { param: path.slice(0, MAX_PATH_LENGTH) });
}

/** In UTF-16 code units. Paths contain property names of the caller. */
const MAX_PATH_LENGTH = 300;
