import { z } from 'zod';
import { ServiceError } from '../../core/errors.ts';
import { didYouMean } from '../../support/nearest.ts';
import { valueBounds } from '../../json/json-body.ts';

/** Maximum body size in bytes for operations with the access level `open`. */
export const OPEN_BODY_BYTES = 16_384;

/** Maximum body size in bytes for all other operations, unless `limits.bodyBytes` is less. */
export const BODY_BYTES = 524_288;

/** Maximum JSON values of a body. Checking a value against a schema takes several microseconds. */
export const BODY_VALUES = valueBounds(2000);

/**
 * Parses a body or a query. Throws a `ServiceError` for the first problem: `missing_required_parameter`,
 * `invalid_type`, `invalid_value`, or `unsupported_parameter` for an unknown field; `param` is the path of the field.
 */
export function parse<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  refusePrototype(value, []);
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  const [issue] = error.issues;
  if (issue === undefined) throw error;
  throw errorOf(issue, schema, value);
}

/** Refuses the name `__proto__` in any object, because schemas ignore it. */
function refusePrototype(value: unknown, path: readonly PropertyKey[]): void {
  if (typeof value !== 'object' || value === null) return;
  for (const [name, inner] of Object.entries(value)) {
    const innerPath = [...path, Array.isArray(value) ? Number(name) : name];
    if (name === '__proto__') throw unknownField(pathOf(innerPath));
    refusePrototype(inner, innerPath);
  }
}

function unknownField(param: string, advice = ''): ServiceError {
  return new ServiceError('unsupported_parameter', `Unknown field: \`${param}\`.${advice}`, { param });
}

function errorOf(issue: z.core.$ZodIssue, schema: z.core.$ZodType, value: unknown): ServiceError {
  if (issue.code === 'unrecognized_keys') {
    const name = issue.keys[0] ?? '';
    const param = pathOf([...issue.path, name]);
    return unknownField(param, didYouMean(name, fieldsAt(schema, issue.path)));
  }
  const param = pathOf(issue.path);
  if (issue.code === 'invalid_type' && valueAt(value, issue.path) === undefined) {
    return new ServiceError('missing_required_parameter', `\`${param}\` is required.`, { param });
  }
  const code = issue.code === 'invalid_type' ? 'invalid_type' : 'invalid_value';
  // Zod's messages start with the kind of problem: `Too small: expected number to be >=1`.
  const { message: reason } = issue.code === 'invalid_key' ? (issue.issues[0] ?? issue) : issue;
  const detail = reason.replace(/^[A-Z][a-z ]*: /, '');
  const message = reason.startsWith('expected ')
    ? `\`${param}\` must be ${reason.slice('expected '.length)}.`
    : `Invalid value for \`${param}\`: ${detail}.`;
  return new ServiceError(code, message, { param });
}

/** Formats a path, such as `limits.models.acme/small.usd_per_month` or `allowed_models[2]`. */
function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, '');
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, key) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, key) : undefined),
    value,
  );
}

/** Returns the names of the fields that a schema knows at a path. */
function fieldsAt(schema: z.core.$ZodType | undefined, path: readonly PropertyKey[]): string[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodNullable || schema instanceof z.ZodDefault) {
    return fieldsAt(schema.unwrap(), path);
  }
  const [key, ...rest] = path;
  if (schema instanceof z.ZodRecord) return fieldsAt(schema.valueType, rest);
  if (schema instanceof z.ZodArray) return fieldsAt(schema.element, rest);
  if (!(schema instanceof z.ZodObject)) return [];
  return key === undefined ? Object.keys(schema.shape) : fieldsAt(schema.shape[String(key)], rest);
}
