import type { Dialect } from '../generation.ts';
import { asString, isLongerThan, wrongType, wrongValue } from './values.ts';

export type GenerationKind = 'chat' | 'text';

/** Which dialects give a field its meaning; 'all' also where the service itself does, or the field changes nothing. */
type HonouredBy = readonly Dialect[] | 'all';

/** The JSON Schema words that describe a field; validation, docs and OpenAPI all read these. */
export interface FieldSchema {
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly exclusiveMinimum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly maxProperties?: number;
  readonly enum?: readonly unknown[];
  readonly items?: FieldSchema;
  readonly pattern?: string;
  readonly propertyNames?: FieldSchema;
  readonly additionalProperties?: FieldSchema;
  readonly oneOf?: readonly FieldSchema[];
  readonly $ref?: string;
}

/** What a field is for: `generation` changes the answer, `hint` is taken and changes nothing, `refused` must be neutral. */
type FieldUse = 'generation' | 'hint' | 'refused';

/** One row of the table of request fields. */
export interface Field {
  /** Where it stands in the body; `[]` is any element: `messages[].role`. */
  readonly path: string;
  readonly kinds: readonly GenerationKind[];
  /** Only between the service and its own engine processes; unknown to callers. */
  readonly internal: boolean;
  readonly required: boolean;
  readonly use: FieldUse;
  readonly schema: FieldSchema;
  /** The type in words, such as `number`. */
  readonly type: string;
  /** The bounds in words, such as `0 to 2`; empty where there are none. */
  readonly bounds: string;
  /** What holds when the field is absent or null, in words. */
  readonly default: string;
  /** Values, besides null, that change nothing and pass whatever the engine. */
  readonly neutral: readonly unknown[];
  readonly honouredBy: HonouredBy;
  readonly description: string;
}

/** What a row says of itself; the rest follows from it. */
export interface FieldOptions {
  kinds?: readonly GenerationKind[];
  internal?: boolean;
  required?: boolean;
  neutral?: readonly unknown[];
  honouredBy?: HonouredBy;
  bounds?: string;
  default?: string;
  description: string;
}

/** A row whose value is one number, boolean or string, with what it becomes when absent. */
export interface ScalarField<T> extends Field {
  readonly fallback: T;
  readonly read: (value: unknown, path: string) => T;
}

/** A row that a parser of its own reads. `type` is its type in words. */
export function structured(path: string, type: string, schema: FieldSchema, options: FieldOptions): Field {
  return rowOf(path, 'generation', type, schema, options);
}

/** A row that is taken whatever it holds and changes nothing. */
export function hint(path: string, options: FieldOptions): Field {
  return rowOf(path, 'hint', 'any', {}, options);
}

/** A row that is refused by name unless its value is null or one of `neutral`. */
export function refused(path: string, options: FieldOptions): Field {
  const neutral = options.neutral ?? [];
  const bounds = neutral.length === 0 ? 'null only' : `null or ${neutral.map(quoted).join(' or ')}`;
  return rowOf(path, 'refused', 'any', {}, { ...options, neutral, bounds });
}

/** A number or integer within the bounds of `schema`. */
export function number<T extends number | null>(
  path: string,
  schema: FieldSchema & { type: 'number' | 'integer' },
  fallback: T,
  options: FieldOptions,
): ScalarField<number | T> {
  const words = boundsText(schema);
  const expected = `${schema.type === 'integer' ? 'an integer' : 'a number'}${words === '' ? '' : ` (${words})`}`;
  const read = (value: unknown, at: string): number => {
    const integral = schema.type !== 'integer' || Number.isInteger(value);
    if (typeof value !== 'number' || !integral) throw wrongType(at, expected, value);
    if (!within(value, schema)) throw wrongValue(at, rangeText(schema), value);
    return value;
  };
  return { ...rowOf(path, 'generation', schema.type, schema, options, fallback), fallback, read };
}

/** True or false. */
export function boolean<T extends boolean | null>(
  path: string,
  fallback: T,
  options: FieldOptions,
): ScalarField<boolean | T> {
  const row = rowOf(path, 'generation', 'boolean', { type: 'boolean' }, options, fallback);
  return { ...row, fallback, read: readBoolean };
}

/** A string of `minLength` to `maxLength` Unicode code points. */
export function string<T extends string | null>(
  path: string,
  schema: { minLength: number; maxLength: number },
  fallback: T,
  options: FieldOptions,
): ScalarField<string | T> {
  const full = { type: 'string', ...schema };
  const read = (value: unknown, at: string): string => {
    const text = asString(value, at);
    if (text.length < schema.minLength || isLongerThan(text, schema.maxLength))
      throw wrongValue(at, `${boundsText(full)} long`);
    return text;
  };
  return { ...rowOf(path, 'generation', 'string', full, options, fallback), fallback, read };
}

function rowOf(
  path: string,
  use: FieldUse,
  type: string,
  schema: FieldSchema,
  options: FieldOptions,
  fallback: unknown = null,
): Field {
  return {
    path,
    use,
    type,
    schema,
    kinds: options.kinds ?? ['chat', 'text'],
    internal: options.internal ?? false,
    required: options.required ?? false,
    bounds: options.bounds ?? boundsText(schema),
    default: options.default ?? (options.required === true ? 'required' : quoted(fallback)),
    neutral: options.neutral ?? [],
    honouredBy: options.honouredBy ?? 'all',
    description: options.description,
  };
}

function readBoolean(value: unknown, path: string): boolean {
  if (typeof value !== 'boolean') throw wrongType(path, 'a boolean', value);
  return value;
}

function within(value: number, schema: FieldSchema): boolean {
  return (
    value >= (schema.minimum ?? -Infinity) &&
    value <= (schema.maximum ?? Infinity) &&
    value > (schema.exclusiveMinimum ?? -Infinity)
  );
}

/** The bounds of a schema in words, such as `0 to 2` or `1 to 64 characters`. */
function boundsText(schema: FieldSchema): string {
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength } = schema;
  if (exclusiveMinimum !== undefined && maximum !== undefined)
    return `above ${exclusiveMinimum}, at most ${maximum}`;
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  if (minimum !== undefined) return `at least ${minimum}`;
  if (minLength !== undefined && maxLength !== undefined) return `${minLength} to ${maxLength} characters`;
  return '';
}

/** The bounds of a number, as they read on from "must be". */
function rangeText(schema: FieldSchema): string {
  const { minimum, maximum, exclusiveMinimum } = schema;
  if (exclusiveMinimum !== undefined) return `above ${exclusiveMinimum} and at most ${maximum}`;
  return maximum === undefined ? `at least ${minimum}` : `between ${minimum} and ${maximum}`;
}

function quoted(value: unknown): string {
  return value === null ? 'none' : `\`${JSON.stringify(value)}\``;
}
