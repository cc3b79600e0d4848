import { z } from 'zod';
import { nearest } from '../support/nearest.ts';
import type { ConfigIssue } from './errors.ts';
import type { YamlFile } from './yaml.ts';
import { configSchema } from './schema.ts';

/** Converts zod's errors to issues with positions in the file. */
export function issuesOf(error: z.ZodError, file: YamlFile): ConfigIssue[] {
  return error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => unknownField([...issue.path, key], file))
      : [invalidField(issue, file)],
  );
}

function invalidField(issue: z.core.$ZodIssue, file: YamlFile): ConfigIssue {
  const isName = issue.code === 'invalid_key';
  const { message: reason } = isName ? (issue.issues[0] ?? issue) : issue;
  const own = reason.startsWith('expected ') ? reason.slice('expected '.length) : null;
  const expected = own ?? (issue.path.length === 0 ? 'a mapping' : (fieldAt(issue.path)?.type ?? reason));
  const found = isName ? issue.path.at(-1) : valueAt(file.value, issue.path);
  const message =
    found === undefined
      ? `missing; expected ${expected}`
      : `expected ${expected}${describeFound(found, issue.path)}${needsQuotes(expected, found) ? '; put it in quotes' : ''}`;
  return {
    path: formatPath(issue.path),
    ...file.locate(issue.path, isName ? 'key' : 'value'),
    expected,
    message,
  };
}

/** YAML parses `0.15` as a number and `true` as a boolean, even if text was intended. */
const needsQuotes = (expected: string, found: unknown): boolean =>
  expected.startsWith('text') && (typeof found === 'number' || typeof found === 'boolean');

/** Names of settings that are environment variables instead of fields. */
const VARIABLES: ReadonlyMap<string, string> = new Map([
  ['host', 'SLUICE_HOST'],
  ['port', 'SLUICE_PORT'],
  ['home', 'SLUICE_HOME'],
  ['dataDirectory', 'SLUICE_HOME'],
  ['databaseUrl', 'SLUICE_DATABASE_URL'],
  ['valkeyUrl', 'SLUICE_VALKEY_URL'],
  ['redisUrl', 'SLUICE_VALKEY_URL'],
  ['secretKey', 'SLUICE_SECRET_KEY'],
]);

function unknownField(path: readonly PropertyKey[], file: YamlFile): ConfigIssue {
  const known = fieldsBelow(path.slice(0, -1));
  const name = String(path.at(-1));
  const near = nearest(name, known);
  const variable = path.length === 1 ? nearest(name, VARIABLES.keys()) : null;
  const elsewhere = configFields().find((field) => field.path.endsWith(`.${name}`) || field.path === name);
  let advice = `known fields: ${known.join(', ')}`;
  if (near !== null) advice = `did you mean ${near}?`;
  else if (variable !== null) advice = `set the environment variable ${VARIABLES.get(variable)} instead`;
  else if (elsewhere !== undefined) advice = `set ${elsewhere.path} instead`;
  return {
    path: formatPath(path),
    ...file.locate(path, 'key'),
    expected: `one of ${known.join(', ')}`,
    message: `unknown field; ${advice}`,
  };
}

function valueAt(value: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (inner, segment) =>
      typeof inner === 'object' && inner !== null ? Reflect.get(inner, segment) : undefined,
    value,
  );
}

/** Maximum length of a value in an error message, in characters. */
const MAX_FOUND = 60;

/**
 * Fields that may contain a secret by mistake, such as a key instead of the name of its environment variable. Messages
 * omit the values of these fields.
 */
const POSSIBLY_SECRET: ReadonlySet<PropertyKey> = new Set([
  'apiKeyEnv',
  'clientSecretEnv',
  'headers',
  'headersEnv',
  'issuer',
  'passwordEnv',
  'url',
  'publicUrl',
]);

function describeFound(found: unknown, path: readonly PropertyKey[]): string {
  if (path.some((segment) => POSSIBLY_SECRET.has(segment))) return '';
  if (found === null) return ', got null (remove the field, or give it a value)';
  if (Array.isArray(found)) return `, got a list of ${found.length}`;
  if (typeof found === 'object') return ', got a mapping';
  const text = typeof found === 'number' ? String(found) : (JSON.stringify(found) ?? typeof found);
  return `, got ${text.length > MAX_FOUND ? `${text.slice(0, MAX_FOUND)}…` : text}`;
}

/** A field of the configuration file, for error messages and documentation. */
export interface ConfigField {
  /** Such as `models[].engine.slots`; `*` is a name chosen by the operator, as in `plans.*.burst`. */
  path: string;
  /** The accepted values, such as `a whole number from 1 to 64`. */
  type: string;
  required: boolean;
  /** Undefined if there is no default, or if the default depends on other settings (see `description`). */
  default: unknown;
  description: string;
}

/** Returns all fields in the order of the schema, parents before children. */
export function configFields(): readonly ConfigField[] {
  fields ??= childrenOf('', z.toJSONSchema(configSchema, { io: 'input' }));
  return fields;
}

/** Returns the field at a path of keys and list indices. */
export function fieldAt(path: readonly PropertyKey[]): ConfigField | undefined {
  return configFields().find((field) => matches(segmentsOf(field), path));
}

/** Returns the names of the fields below a path. */
function fieldsBelow(path: readonly PropertyKey[]): string[] {
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

/** Formats a path as `models[0].engine.slots`. */
export function formatPath(path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, segment) => {
    if (typeof segment === 'number') return `${text}[${segment}]`;
    if (segment === '[]') return `${text}[]`;
    return text === '' ? String(segment) : `${text}.${String(segment)}`;
  }, '');
}

type Json = z.core.JSONSchema.BaseSchema;

/** Computed on first use, because it takes a few milliseconds and only error messages need it. */
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
  if (schema.anyOf !== undefined) return schema.anyOf.map((option) => typeOf(option)).join(' or ');
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

/** If the schema has no maximum, zod reports the largest safe integer. */
function bounds({ minimum, maximum }: Json): string {
  if (maximum === undefined || maximum === Number.MAX_SAFE_INTEGER) {
    return minimum === undefined ? '' : `, at least ${minimum}`;
  }
  return ` from ${minimum ?? 'any'} to ${maximum}`;
}
