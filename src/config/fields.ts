import { z } from 'zod';
import { configSchema } from './schema.ts';

/** One field of the configuration file as people read of it. */
export interface ConfigField {
  /** Such as `models[].engine.slots`; `*` stands for names that people choose, as in `plans.*.burst`. */
  path: string;
  /** What may stand there, as a noun phrase with its bounds: `a whole number from 1 to 64`. */
  type: string;
  required: boolean;
  /** The value when it is left out; undefined: none, or one that depends on other things, told in `description`. */
  default: unknown;
  description: string;
}

/** Every field of the file, parents before children, in the order of the schema. */
export function configFields(): readonly ConfigField[] {
  fields ??= childrenOf('', z.toJSONSchema(configSchema, { io: 'input' }));
  return fields;
}

/** The field at a path of keys and list positions; undefined: there is none. */
export function fieldAt(path: readonly PropertyKey[]): ConfigField | undefined {
  return configFields().find((field) => matches(segmentsOf(field), path));
}

/** The names of the fields that may stand at a path. */
export function fieldsBelow(path: readonly PropertyKey[]): string[] {
  return configFields().flatMap((field) => {
    const segments = segmentsOf(field);
    const name = segments.at(-1);
    return name !== undefined && /^\w/.test(name) && matches(segments.slice(0, -1), path) ? [name] : [];
  });
}

function segmentsOf({ path }: ConfigField): string[] {
  return path.split(/\.|(?=\[\])/);
}

function matches(segments: readonly string[], path: readonly PropertyKey[]): boolean {
  return (
    segments.length === path.length &&
    segments.every((segment, index) => {
      const found = path[index];
      if (segment === '[]') return typeof found === 'number';
      return typeof found === 'string' && (segment === '*' || segment === found);
    })
  );
}

/** A path as people write it: `models[0].engine.slots`. */
export function writePath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, segment) => {
    if (typeof segment === 'number') return `${text}[${segment}]`;
    if (segment === '[]') return `${text}[]`;
    return text === '' ? String(segment) : `${text}.${String(segment)}`;
  }, '');
}

type Json = z.core.JSONSchema.BaseSchema;

/** The walk costs some milliseconds, which only faults and documents need. */
let fields: readonly ConfigField[] | undefined;

function childrenOf(path: string, schema: Json): ConfigField[] {
  if (typeof schema.items === 'object' && !Array.isArray(schema.items)) {
    const item: Json = schema.items;
    if (item.properties !== undefined) return childrenOf(`${path}[]`, item);
    return [{ path: `${path}[]`, type: typeOf(item), required: false, default: undefined, description: '' }];
  }
  if (typeof schema.additionalProperties === 'object') {
    return childrenOf(`${path}.*`, schema.additionalProperties);
  }
  return Object.entries(schema.properties ?? {}).flatMap(([key, child]) => {
    if (typeof child === 'boolean') return [];
    const own = {
      path: path === '' ? key : `${path}.${key}`,
      type: typeOf(child),
      required: schema.required?.includes(key) ?? false,
      default: child.default,
      description: child.description ?? '',
    };
    return [own, ...childrenOf(own.path, child)];
  });
}

function typeOf(schema: Json): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map((one) => typeOf(one)).join(' or ');
  if (Array.isArray(schema.type)) return schema.type.map((type) => typeOf({ ...schema, type })).join(' or ');
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum !== undefined)
    return `one of ${schema.enum.map((value) => JSON.stringify(value)).join(', ')}`;
  switch (schema.type) {
    case 'integer':
      return `a whole number${bounds(schema)}`;
    case 'number':
      return `a number${bounds(schema)}`;
    case 'boolean':
      return 'true or false';
    case 'array':
      return schema.minItems === undefined
        ? 'a list'
        : `a list with at least ${schema.minItems} ${schema.minItems === 1 ? 'entry' : 'entries'}`;
    case 'object':
      return 'a mapping';
    case 'null':
      return 'null';
    default:
      return schema.format === 'uri' ? 'an http:// or https:// URL' : text(schema);
  }
}

function text(schema: Json): string {
  if (schema.maxLength !== undefined) return `text of at most ${schema.maxLength} characters`;
  return schema.minLength === undefined ? 'text' : 'text (not empty)';
}

/** The largest safe integer is the bound zod writes where the schema sets none. */
function bounds({ minimum, maximum }: Json): string {
  if (maximum === undefined || maximum === Number.MAX_SAFE_INTEGER) {
    return minimum === undefined ? '' : `, at least ${minimum}`;
  }
  return ` from ${minimum ?? 'any'} to ${maximum}`;
}
