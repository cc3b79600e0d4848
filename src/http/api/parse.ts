import type { z } from 'zod';
import { ServiceError } from '../../errors.ts';

/** Most bytes of a body from a caller without a key or a session. */
export const OPEN_BODY_BYTES = 16_384;

/**
 * What a schema makes of a body or a query. Throws a `ServiceError` for the first thing that is wrong with it:
 * `missing_required_parameter`, `invalid_type`, `invalid_value`, or `unsupported_parameter` for a field that is not
 * known; `param` is its path.
 */
export function parse<T extends z.ZodType>(schema: T, value: unknown): z.output<T> {
  const { data, error } = schema.safeParse(value);
  if (error === undefined) return data;
  const [issue] = error.issues;
  if (issue === undefined) throw error;
  throw faultOf(issue, value);
}

function faultOf(issue: z.core.$ZodIssue, value: unknown): ServiceError {
  if (issue.code === 'unrecognized_keys') {
    const param = pathOf([...issue.path, issue.keys[0] ?? '']);
    return new ServiceError('unsupported_parameter', `Unknown field: \`${param}\`.`, { param });
  }
  const param = pathOf(issue.path);
  if (issue.code === 'invalid_type' && valueAt(value, issue.path) === undefined) {
    return new ServiceError('missing_required_parameter', `\`${param}\` is required.`, { param });
  }
  const code = issue.code === 'invalid_type' ? 'invalid_type' : 'invalid_value';
  // Zod begins with a word or two for the kind of fault: `Too small: expected number to be >=1`.
  const words = issue.message.replace(/^[A-Z][a-z ]*: /, '');
  const message = issue.message.startsWith('expected ')
    ? `\`${param}\` must be ${issue.message.slice('expected '.length)}.`
    : `Invalid value for \`${param}\`: ${words}.`;
  return new ServiceError(code, message, { param });
}

/** Such as `limits.models.acme/small.usd_per_month` or `allowed_models[2]`. */
function pathOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    return text === '' ? String(step) : `${text}.${String(step)}`;
  }, '');
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, step) => (typeof inner === 'object' && inner !== null ? Reflect.get(inner, step) : undefined),
    value,
  );
}
