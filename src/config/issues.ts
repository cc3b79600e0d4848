import type { z } from 'zod';
import type { ConfigIssue } from './errors.ts';
import { configFields, fieldAt, fieldsBelow, formatPath } from './fields.ts';
import { nearest } from '../nearest.ts';
import type { YamlFile } from './yaml.ts';

/** Converts zod's errors to issues with positions in the file. */
export function issuesOf(error: z.ZodError, file: YamlFile): ConfigIssue[] {
  return error.issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys'
      ? issue.keys.map((key) => unknownField([...issue.path, key], file))
      : [invalidField(issue, file)],
  );
}

function invalidField(issue: z.core.$ZodIssue, file: YamlFile): ConfigIssue {
  const own = issue.message.startsWith('expected ') ? issue.message.slice('expected '.length) : null;
  const expected =
    own ?? (issue.path.length === 0 ? 'a mapping' : (fieldAt(issue.path)?.type ?? issue.message));
  const found = valueAt(file.value, issue.path);
  const message =
    found === undefined
      ? `missing; expected ${expected}`
      : `expected ${expected}${describeFound(found, issue.path)}${needsQuotes(expected, found) ? '; put it in quotes' : ''}`;
  return { path: formatPath(issue.path), ...file.locate(issue.path), expected, message };
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
