import { type ErrorCode, ServiceError } from '../../errors.ts';
import type { JsonSchema } from '../../generation.ts';
import type { JsonType } from '../../openai/json-schema.ts';

/** A schema that `checkJsonSchema` has checked, so that its keywords have the right types. */
export type SchemaObject = Exclude<JsonSchema, boolean>;

/** Keywords that refer to other schemas. */
export const COMBINING_KEYWORDS = ['$ref', 'anyOf', 'oneOf', 'allOf'] as const;

/** The keywords of each type. They determine the types of a schema without `type`. */
export const KEYWORDS_OF_TYPE: Readonly<Partial<Record<JsonType, readonly string[]>>> = {
  object: ['properties', 'required', 'additionalProperties', 'propertyNames'],
  array: ['items', 'prefixItems', 'minItems', 'maxItems'],
  string: ['minLength', 'maxLength', 'pattern', 'format'],
  number: ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
};

/**
 * Maximum number of members of a union, values of an `enum`, or properties of an object. Each one costs time per token.
 */
export const MAX_BRANCHES = 250;

export function unsatisfiable(path: string) {
  return schemaError('invalid_value', path, 'No value can satisfy this schema.');
}

export function schemaError(code: ErrorCode, path: string, message: string): ServiceError {
  return new ServiceError(code, message, { param: path.slice(0, MAX_PATH_LENGTH) });
}

/** Maximum length of a path in an error, in UTF-16 code units. Paths contain property names from the request. */
const MAX_PATH_LENGTH = 300;
