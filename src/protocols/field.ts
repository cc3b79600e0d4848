import type { Feature } from '../core/features.ts';
import type { GenerationKind } from '../core/generation.ts';
import type { Protocol } from '../core/protocol.ts';
import { asString, isLongerThan, wrongType, wrongValue } from '../json/values.ts';

/** JSON Schema keywords of a field, for validation, docs and OpenAPI. */
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
  readonly not?: FieldSchema;
  readonly additionalProperties?: FieldSchema;
  readonly oneOf?: readonly FieldSchema[];
  readonly $ref?: string;
}

/**
 * `hint`: accepted and ignored, because no caller would miss it. `noted`: ignored with a note unless its value is neutral.
 * `refused`: only neutral values are accepted, because the response would mean something else.
 */
type FieldUse = 'generation' | 'hint' | 'noted' | 'refused';

export interface Field {
  /** Path in the body, such as `messages[].role`. */
  readonly path: string;
  /** The last part of the path. */
  readonly name: string;
  readonly kinds: readonly GenerationKind[];
  readonly required: boolean;
  readonly use: FieldUse;
  readonly schema: FieldSchema;
  /** The type, for docs. */
  readonly type: string;
  /** The bounds, for docs, such as `0 to 2`. May be empty. */
  readonly bounds: string;
  /** The default, for docs. */
  readonly default: string;
  /** Of a noted or refused field: the values besides null that are accepted, because they have no effect. */
  readonly neutral: readonly unknown[];
  /** The feature that it asks for; null: every engine supports it, or none needs to. */
  readonly feature: Feature | null;
  /** The fields to use instead of a refused one. */
  readonly instead: readonly string[];
  readonly description: string;
}

export type FieldOptions = Pick<Field, 'description'> &
  Partial<Pick<Field, 'kinds' | 'required' | 'neutral' | 'feature' | 'instead' | 'bounds' | 'default'>>;

/** A field whose value is a number, boolean or string. */
export interface ScalarField<T> extends Field {
  /** The value if the field is absent. */
  readonly fallback: T;
  readonly read: (value: unknown, path: string) => T;
}

/** A field with a separate parser. `type`: default is that of the schema. */
export function structured(
  path: string,
  { type, schema, ...options }: FieldOptions & { type?: string; schema: FieldSchema },
): Field {
  return createField(path, 'generation', type ?? schema.type ?? '', schema, options);
}

/** A field that is accepted with any value and ignored. */
export function hint(path: string, options: FieldOptions): Field {
  return createField(path, 'hint', 'any', {}, options);
}

/** A field that is ignored with a note unless its value is null or one of `neutral`. */
export function noted(path: string, options: FieldOptions): Field {
  return createField(path, 'noted', 'any', {}, options);
}

/** A field that is refused unless its value is null or one of `neutral`. */
export function refused(path: string, options: FieldOptions): Field {
  const neutral = options.neutral ?? [];
  const bounds = neutral.length === 0 ? 'null only' : `null or ${neutral.map(quoted).join(' or ')}`;
  return createField(path, 'refused', 'any', {}, { ...options, neutral, bounds });
}

export function number<T extends number | null>(
  path: string,
  schema: FieldSchema & { type: 'number' | 'integer' },
  fallback: T,
  options: FieldOptions,
): ScalarField<number | T> {
  const bounds = boundsText(schema);
  const expected = `${schema.type === 'integer' ? 'an integer' : 'a number'}${bounds === '' ? '' : ` (${bounds})`}`;
  const read = (value: unknown, at: string): number => {
    const integral = schema.type !== 'integer' || Number.isInteger(value);
    if (typeof value !== 'number' || !integral) throw wrongType(at, expected, value);
    if (!within(value, schema)) throw wrongValue(at, rangeText(schema), value);
    return value;
  };
  return { ...createField(path, 'generation', schema.type, schema, options, fallback), fallback, read };
}

export function boolean<T extends boolean | null>(
  path: string,
  fallback: T,
  options: FieldOptions,
): ScalarField<boolean | T> {
  const field = createField(path, 'generation', 'boolean', { type: 'boolean' }, options, fallback);
  const read = (value: unknown, at: string): boolean => {
    if (typeof value !== 'boolean') throw wrongType(at, 'a boolean', value);
    return value;
  };
  return { ...field, fallback, read };
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
  return { ...createField(path, 'generation', 'string', full, options, fallback), fallback, read };
}

/** One of these strings, or null if the field is absent. */
export function choice<T extends string>(
  path: string,
  values: readonly T[],
  options: FieldOptions,
): ScalarField<T | null> {
  const bounds = values.map((value) => `\`${value}\``).join(', ');
  const field = createField(
    path,
    'generation',
    'string',
    { type: 'string', enum: values },
    { bounds, ...options },
  );
  const read = (value: unknown, at: string): T => {
    const found = values.find((one) => one === value);
    if (found !== undefined) return found;
    if (typeof value !== 'string') throw wrongType(at, 'a string', value);
    throw wrongValue(at, `one of ${values.join(', ')}`);
  };
  return { ...field, fallback: null, read };
}

function createField(
  path: string,
  use: FieldUse,
  type: string,
  schema: FieldSchema,
  options: FieldOptions,
  fallback: unknown = null,
): Field {
  return {
    path,
    name: path.slice(path.lastIndexOf('.') + 1),
    use,
    type,
    schema,
    kinds: ['chat', 'text'],
    required: false,
    bounds: boundsText(schema),
    default: options.required === true ? 'required' : quoted(fallback),
    neutral: [],
    feature: null,
    instead: [],
    ...options,
  };
}

function within(value: number, schema: FieldSchema): boolean {
  return (
    value >= (schema.minimum ?? -Infinity) &&
    value <= (schema.maximum ?? Infinity) &&
    value > (schema.exclusiveMinimum ?? -Infinity)
  );
}

/** Describes the bounds of a schema, such as `0 to 2` or `1 to 64 characters`. */
function boundsText(schema: FieldSchema): string {
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength } = schema;
  if (exclusiveMinimum !== undefined && maximum !== undefined)
    return `above ${exclusiveMinimum}, at most ${maximum}`;
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  if (minimum !== undefined) return `at least ${minimum}`;
  if (minLength !== undefined && maxLength !== undefined) return `${minLength} to ${maxLength} characters`;
  return '';
}

/** Describes the bounds of a number, to continue "must be". */
function rangeText(schema: FieldSchema): string {
  const { minimum, maximum, exclusiveMinimum } = schema;
  if (exclusiveMinimum !== undefined) return `above ${exclusiveMinimum} and at most ${maximum}`;
  return maximum === undefined ? `at least ${minimum}` : `between ${minimum} and ${maximum}`;
}

function quoted(value: unknown): string {
  return value === null ? 'none' : `\`${JSON.stringify(value)}\``;
}

/** Returns `paramOf` of a protocol with these fields. `others`: the paths of features that no field asks for. */
export function paramsOf(
  fields: readonly Field[],
  others: Partial<Record<Feature, string>> = {},
): Protocol['paramOf'] {
  const paths = new Map<string | null, string>(Object.entries(others));
  for (const { feature, path } of fields) paths.set(feature, path);
  return (feature) => paths.get(feature) ?? feature;
}
