import { type ErrorCode, ServiceError } from '../../errors.ts';
import type { JsonSchema } from '../../generation.ts';
import { ANNOTATIONS as WORDS, MAX_REPETITIONS } from '../../openai/json-schema.ts';

/** A schema that is neither true nor false. */
export type SchemaObject = Exclude<JsonSchema, boolean>;

export const JSON_TYPES = ['object', 'array', 'string', 'number', 'integer', 'boolean', 'null'] as const;
export type JsonType = (typeof JSON_TYPES)[number];

/** Keywords whose schema only points at other schemas. */
export const COMBINING = ['$ref', 'anyOf', 'oneOf', 'allOf'] as const;

/** Keywords that say nothing about values here: definitions are read where they are referred to. */
export const ANNOTATIONS: ReadonlySet<string> = new Set([...WORDS, '$defs', 'definitions']);

/** The keywords that speak of one type; a schema without `type` is about the types that its keywords speak of. */
export const KEYWORDS_OF_TYPE: Readonly<Partial<Record<JsonType, readonly string[]>>> = {
  object: ['properties', 'required', 'additionalProperties', 'propertyNames'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
};

/** Every keyword that the grammars hold, or that says nothing about values. */
export const GRAMMAR_KEYWORDS: ReadonlySet<string> = new Set([
  ...ANNOTATIONS,
  ...COMBINING,
  'type',
  'enum',
  'const',
  ...Object.values(KEYWORDS_OF_TYPE).flat(),
]);

/** Ways to go on from one point: members of a union, values of an `enum`, properties. Each costs time at every token there. */
export const MAX_BRANCHES = 250;

/** Asserts that a member of a schema is a schema. */
export function schemaObject(schema: unknown, path: string): SchemaObject {
  if (typeof schema === 'object' && schema !== null && !Array.isArray(schema)) return schema as SchemaObject;
  throw refuseSchema('invalid_type', path, 'A schema must be an object, true or false.');
}

/** Asserts that a keyword's value is a list of schemas, one at least. */
export function schemaList(value: unknown, path: string): readonly unknown[] {
  if (Array.isArray(value) && value.length > 0) return value;
  throw refuseSchema('invalid_type', path, 'The value must be a list with at least one schema.');
}

/** The error for a schema that no value satisfies. */
export function nothingMatches(path: string) {
  return refuseSchema('invalid_value', path, 'No value can satisfy this schema.');
}

/** Reads a bound on a number of repetitions; null where it is absent. */
export function bound(value: unknown, path: string): number | null {
  if (value === undefined) return null;
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0) {
    throw refuseSchema('invalid_value', path, 'The value must be a whole number, 0 or more.');
  }
  if (value > MAX_REPETITIONS) {
    throw refuseSchema('invalid_value', path, `The value must be at most ${MAX_REPETITIONS}.`);
  }
  return value;
}

/** The error for a part of a schema that cannot be honoured. */
export function refuseSchema(code: ErrorCode, path: string, message: string): ServiceError {
  return new ServiceError(code, message, { param: path.slice(0, LONGEST_PATH) });
}

/** Property names in a path are the caller's own and may be long; UTF-16 code units. */
const LONGEST_PATH = 300;
