import type { ApiDocument, Schema } from '../../api/document.ts';

export interface SchemaField {
  name: string;
  schema: Schema;
  required: boolean;
}

/** One level of a schema, prepared for display. */
export interface Shape {
  /** Type as text, such as `string`, `array of objects` or `integer or null`. */
  type: string;
  description: string | null;
  constraints: readonly string[];
  /** Allowed values as JSON; empty: any. */
  values: readonly string[];
  /** Fields of the object, or of the elements of the array or map. */
  fields: readonly SchemaField[];
  variants: readonly Schema[];
}

export type Schemas = ApiDocument['components']['schemas'];

/** Prepares a schema for display: follows references and separates `null` from the alternatives. */
export function shapeOf(schema: Schema, schemas: Schemas): Shape {
  const { inner, nullable, description } = peel(schema, schemas);
  const options = (inner.anyOf ?? inner.oneOf ?? []).map((option) => resolve(option, schemas));
  const held = elementsOf(inner, schemas);
  const parts = options.length > 0 ? options : (held?.options ?? []);
  const carrier = held?.schema ?? inner;
  return {
    type: `${typeText(inner, schemas)}${nullable ? ' or null' : ''}`,
    description,
    constraints: constraintsOf(inner),
    values: valuesOf(inner),
    fields: Object.entries(carrier.properties ?? {}).map(([name, field]) => ({
      name,
      schema: field,
      required: carrier.required?.includes(name) ?? false,
    })),
    // If an object has its own fields, its alternatives only restrict how those fields can be combined.
    variants:
      carrier.properties === undefined &&
      parts.some((part) => part.properties !== undefined || elementsOf(part, schemas) !== null)
        ? parts
        : [],
  };
}

export function resolve(schema: Schema, schemas: Schemas): Schema {
  const { $ref: reference } = schema;
  if (reference === undefined) return schema;
  const found = schemas[reference.slice(reference.lastIndexOf('/') + 1)] ?? {};
  return { ...resolve(found, schemas), ...(schema.description && { description: schema.description }) };
}

function peel(schema: Schema, schemas: Schemas) {
  const whole = resolve(schema, schemas);
  const options = whole.anyOf ?? whole.oneOf;
  if (options === undefined) {
    const types = typesOf(whole);
    const nullable = types.length > 1 && types.includes('null');
    const inner = nullable ? { ...whole, type: types.filter((type) => type !== 'null') } : whole;
    return { inner, nullable, description: whole.description ?? null };
  }
  const others = options.filter((option) => option.type !== 'null');
  const nullable = others.length < options.length;
  const [only] = others;
  const inner =
    others.length === 1 && only !== undefined
      ? { ...only, ...resolve(only, schemas), default: whole.default ?? only.default }
      : { ...whole, anyOf: others, oneOf: undefined };
  return { inner, nullable, description: whole.description ?? inner.description ?? null };
}

/** Returns the element schema of an array or map; null: neither. */
function elementsOf(schema: Schema, schemas: Schemas): { schema: Schema; options: readonly Schema[] } | null {
  const { additionalProperties } = schema;
  const content = schema.items ?? (typeof additionalProperties === 'object' ? additionalProperties : null);
  if (content === null || content === undefined) return null;
  const held = resolve(content, schemas);
  return { schema: held, options: (held.anyOf ?? held.oneOf ?? []).map((one) => resolve(one, schemas)) };
}

function typesOf({ type }: Schema): readonly string[] {
  return type === undefined ? [] : typeof type === 'string' ? [type] : type;
}

/** Maximum depth of a type description, because schemas may be recursive. */
const DEEP = 4;

function typeText(schema: Schema, schemas: Schemas, plural = false, depth = 0): string {
  if (depth > DEEP) return 'anything';
  const options = schema.anyOf ?? schema.oneOf;
  if (options !== undefined) {
    const words = options.map((option) => typeText(resolve(option, schemas), schemas, plural, depth + 1));
    return [...new Set(words)].join(' or ');
  }
  const s = plural ? 's' : '';
  if (schema.items !== undefined) {
    return `array${s} of ${typeText(resolve(schema.items, schemas), schemas, true, depth + 1)}`;
  }
  if (typeof schema.additionalProperties === 'object') {
    return `map${s} of ${typeText(resolve(schema.additionalProperties, schemas), schemas, true, depth + 1)}`;
  }
  const types = typesOf(schema).filter((type) => type !== 'null' || typesOf(schema).length === 1);
  if (types.length > 0) return types.map((type) => (type === 'null' ? type : `${type}${s}`)).join(' or ');
  if (schema.properties !== undefined) return `object${s}`;
  const values = schema.enum ?? (schema.const === undefined ? [] : [schema.const]);
  const kinds = new Set(values.map((value) => (value === null ? 'null' : typeof value)));
  return kinds.size === 0 ? 'anything' : [...kinds].map((kind) => `${kind}${s}`).join(' or ');
}

function valuesOf(schema: Schema): string[] {
  const values = schema.enum ?? (schema.const === undefined ? [] : [schema.const]);
  return values.map((value) => JSON.stringify(value));
}

/** The largest exact integer in JSON; not shown as a bound. */
const EXACT = Number.MAX_SAFE_INTEGER;

/** Maximum length of a pattern that is shown, in characters. */
const MAX_PATTERN = 40;

function constraintsOf(schema: Schema): string[] {
  const { minimum, maximum, exclusiveMinimum, minLength, maxLength, minItems, maxItems } = schema;
  const said = [
    schema.default === undefined ? null : `default ${JSON.stringify(schema.default)}`,
    schema.format === undefined ? null : schema.format,
    minimum === undefined || minimum <= -EXACT ? null : `at least ${minimum}`,
    exclusiveMinimum === undefined ? null : `more than ${exclusiveMinimum}`,
    maximum === undefined || maximum >= EXACT ? null : `at most ${maximum}`,
    spanOf(minLength, maxLength, 'character', 'characters'),
    spanOf(minItems, maxItems, 'item', 'items'),
    spanOf(undefined, schema.maxProperties, 'entry', 'entries'),
    // A format implies the pattern, and the description explains more than a long pattern.
    schema.pattern === undefined || schema.format !== undefined || schema.pattern.length > MAX_PATTERN
      ? null
      : `matches ${schema.pattern}`,
  ];
  return said.filter((one) => one !== null);
}

function spanOf(
  least: number | undefined,
  most: number | undefined,
  one: string,
  many: string,
): string | null {
  const words = (count: number) => `${count} ${count === 1 ? one : many}`;
  if (least !== undefined && most !== undefined) {
    return least === most ? words(least) : `${least} to ${words(most)}`;
  }
  if (least !== undefined && least > 0) return `at least ${words(least)}`;
  return most === undefined ? null : `at most ${words(most)}`;
}
