import type { ServiceError } from '../core/errors.ts';
import { isRawNumber, numberValue } from './exact-json.ts';
import type { JsonSchema } from '../core/generation.ts';
import type { Notes } from '../core/notes.ts';
import {
  asObject,
  asString,
  checkWellFormedJson,
  refuseUnknown,
  displayName,
  unsupported,
  wrongType,
  wrongValue,
} from './values.ts';

/** Maximum size of a schema, in characters of JSON. */
export const MAX_SCHEMA_CHARACTERS = 65_536;
/** Maximum nesting of schemas. Each nested schema takes two levels of JSON, and a body may have 64 levels. */
export const MAX_SCHEMA_DEPTH = 28;
/** Maximum number of schemas in a schema: properties, items and alternatives. */
export const MAX_SCHEMA_NODES = 2048;
/** Maximum of `minItems`, `maxItems`, `minLength` and `maxLength`. */
export const MAX_REPETITIONS = 10_000;
/**
 * Maximum sum of the values of these keywords in a schema. Grammars expand repetitions, so their size grows with it.
 */
const MAX_SCHEMA_REPETITIONS = 50_000;
/** Maximum size of the schemas of all strict functions of a request, in characters of JSON and in schemas. */
export const MAX_STRICT_CHARACTERS = 2 * MAX_SCHEMA_CHARACTERS;
export const MAX_STRICT_NODES = 2 * MAX_SCHEMA_NODES;
/** Maximum length of a `pattern` and a `format`, in characters. */
const MAX_PATTERN_CHARACTERS = 1000;

/** Keywords that constrain the text. */
export const SUPPORTED_KEYWORDS = [
  'type',
  'enum',
  'const',
  'properties',
  'required',
  'additionalProperties',
  'propertyNames',
  'items',
  'prefixItems',
  'minItems',
  'maxItems',
  'minLength',
  'maxLength',
  'pattern',
  'format',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'anyOf',
  'oneOf',
  'allOf',
  '$ref',
  '$defs',
  'definitions',
] as const;

/** Keywords that have no effect. */
export const ANNOTATIONS = [
  '$schema',
  '$id',
  '$comment',
  'title',
  'description',
  'default',
  'examples',
] as const;

/**
 * Checks that a caller's JSON Schema is valid and within the bounds for grammars. Returns it unchanged. Throws
 * `unsupported_parameter` with the path of an unsupported keyword, otherwise `invalid_value` or `invalid_type`. An engine
 * may still refuse a value, such as a `pattern` that has no grammar.
 */
export function checkJsonSchema(schema: unknown, path: string): JsonSchema {
  if (typeof schema !== 'boolean') asObject(schema, path);
  checkSchema(schema, JSON.stringify(schema), path);
  return schema as JsonSchema; // Checked: a boolean, or an object.
}

/**
 * Checks only the size of a schema that need not be enforced, so that it may have any keyword. Returns it unchanged. Throws
 * `invalid_value` or `invalid_type`.
 */
export function checkLooseSchema(schema: unknown, path: string): JsonSchema {
  if (schema !== true) asObject(schema, path);
  checkSize(JSON.stringify(schema), path);
  return schema as JsonSchema; // Checked: true, or an object.
}

/**
 * Returns a caller's schema without upper bounds of lengths and counts that exceed the bounds for grammars and, unless
 * `isStrict`, without unsupported keywords. Adds a note for each. `checkJsonSchema` may still refuse the result. `text`: the
 * JSON of the schema.
 */
export function reducedSchema<T>(
  schema: T,
  path: string,
  notes: Notes,
  isStrict: boolean,
  text = JSON.stringify(schema) ?? '',
): T {
  // A larger schema is refused, so its parts are not visited.
  if (text.length > MAX_SCHEMA_CHARACTERS || (isStrict && !UPPER_BOUND.test(text))) return schema;
  return new SchemaReducer(notes, isStrict).reduce(schema, path) as T; // An object remains an object.
}

/** Matches the JSON of schemas from which something may be left out even if they are strict. */
const UPPER_BOUND = /"max(?:Items|Length)":/;

/** Leaves out what grammars do not support. */
class SchemaReducer {
  readonly #notes: Notes;
  readonly #isStrict: boolean;
  #repetitions = MAX_SCHEMA_REPETITIONS;

  constructor(notes: Notes, isStrict: boolean) {
    this.#notes = notes;
    this.#isStrict = isStrict;
  }

  /** Returns the reduced schema. Values that are not objects are unchanged. */
  reduce(schema: unknown, path: string, depth = 0): unknown {
    if (!isNode(schema) || depth > MAX_SCHEMA_DEPTH) return schema;
    const members = Object.entries(schema).filter(([keyword, value]) => {
      const why = this.#obstacle(schema, keyword, value, depth);
      if (why !== null) this.#notes.add(`${path}.${displayName(keyword)}`, `ignored (${why})`);
      return why === null;
    });
    return mapSchemas(members, path, (nested, at) => this.reduce(nested, at, depth + 1));
  }

  /** Returns why a keyword is left out; null if it is not. */
  #obstacle(schema: Node, keyword: string, value: unknown, depth: number): string | null {
    const count = REPETITIONS.has(keyword) ? numberValue(value) : null;
    if (typeof count === 'number') {
      const isUpper = keyword.startsWith('max');
      if (isUpper && count > Math.min(MAX_REPETITIONS, this.#repetitions))
        return `no bound above ${MAX_REPETITIONS}, or ${MAX_SCHEMA_REPETITIONS} in total, is enforced`;
      this.#repetitions -= count;
    }
    if (this.#isStrict) return null;
    if (!KNOWN_KEYWORDS.has(keyword)) return 'unsupported keyword';
    const conflict = conflictOf(schema, keyword);
    if (conflict !== null) return `cannot be combined with ${conflict}`;
    if (depth > 0 && DEFINITIONS.has(keyword)) return 'only supported at the root';
    if (keyword === 'propertyNames' && !hasSimpleNames(value)) return 'unsupported constraint';
    return null;
  }
}

/** Returns the schema with these keywords, after `map` has been applied to each schema that is directly in them. */
export function mapSchemas(
  members: readonly (readonly [keyword: string, value: unknown])[],
  path: string,
  map: (schema: unknown, path: string) => unknown,
): Node {
  const mapped = members.map(([keyword, value]) => {
    const at = `${path}.${keyword}`;
    if (Array.isArray(value) && SCHEMA_LISTS.has(keyword))
      return [keyword, value.map((each, index) => map(each, `${at}[${index}]`))];
    if (isNode(value) && SCHEMA_MAPS.has(keyword)) {
      const entries = Object.entries(value).map(([name, each]) => [
        name,
        map(each, `${at}.${displayName(name)}`),
      ]);
      return [keyword, Object.fromEntries(entries)];
    }
    return [keyword, SCHEMAS.has(keyword) ? map(value, at) : value];
  });
  return Object.fromEntries(mapped) as Node;
}

const SCHEMAS: ReadonlySet<string> = new Set(['items', 'additionalProperties']);
const SCHEMA_LISTS: ReadonlySet<string> = new Set(['prefixItems', 'anyOf', 'oneOf', 'allOf']);
const DEFINITIONS: ReadonlySet<string> = new Set(['$defs', 'definitions']);
const SCHEMA_MAPS: ReadonlySet<string> = new Set(['properties', ...DEFINITIONS]);
const REPETITIONS: ReadonlySet<string> = new Set(['minItems', 'maxItems', 'minLength', 'maxLength']);

function isNode(value: unknown): value is Node {
  return JSON_TYPES.object(value);
}

function hasSimpleNames(value: unknown): boolean {
  try {
    checkPropertyNames(value, '');
    return true;
  } catch {
    return false;
  }
}

/**
 * Checks the parameters of the strict functions of a request, like `checkJsonSchema`, and their common bounds. Returns them
 * reduced, like `reducedSchema`, by the schema of the caller.
 */
export function checkStrictSchemas(
  schemas: readonly { path: string; schema: Node }[],
  notes: Notes,
): ReadonlyMap<Node, Node> {
  const texts = schemas.map(({ schema }) => JSON.stringify(schema));
  // Before the first schema is visited, because this takes much less time.
  if (texts.reduce((sum, { length }) => sum + length, 0) > MAX_STRICT_CHARACTERS) {
    throw tooManyStrict(`${MAX_STRICT_CHARACTERS} characters of JSON`);
  }
  const results = new Map<Node, Node>();
  let nodes = 0;
  for (const [index, { path, schema }] of schemas.entries()) {
    const text = texts[index] ?? '';
    const reduced = reducedSchema(schema, path, notes, true, text);
    nodes += checkSchema(reduced, reduced === schema ? text : JSON.stringify(reduced), path);
    if (nodes > MAX_STRICT_NODES) throw tooManyStrict(`${MAX_STRICT_NODES} schemas`);
    results.set(schema, reduced);
  }
  return results;
}

function tooManyStrict(most: string): ServiceError {
  return wrongValue('tools', `an array whose strict functions have parameters of at most ${most} in total`);
}

/** `text`: the schema as JSON. Returns the number of schemas in it. */
function checkSchema(schema: unknown, text: string, path: string): number {
  checkSize(text, path);
  const references = new Map<unknown, string>();
  const budget: Budget = {
    nodes: MAX_SCHEMA_NODES,
    repetitions: MAX_SCHEMA_REPETITIONS,
    root: schema,
    path,
    references,
  };
  checkNode(schema, path, 0, budget);
  checkCycles(references, schema);
  return MAX_SCHEMA_NODES - budget.nodes;
}

function checkSize(text: string, path: string): void {
  if (text.length > MAX_SCHEMA_CHARACTERS) {
    throw wrongValue(path, `at most ${MAX_SCHEMA_CHARACTERS} characters of JSON`);
  }
  checkWellFormedJson(text, path);
}

interface Budget {
  nodes: number;
  repetitions: number;
  /** The whole schema, for references. */
  root: unknown;
  path: string;
  /** The paths of the schemas with a `$ref`, in document order. */
  references: Map<unknown, string>;
}

type Node = Readonly<Record<string, unknown>>;

export const KNOWN_KEYWORDS: ReadonlySet<string> = new Set([...SUPPORTED_KEYWORDS, ...ANNOTATIONS]);

function checkNode(value: unknown, path: string, depth: number, budget: Budget): void {
  if (--budget.nodes < 0) throw wrongValue(budget.path, `at most ${MAX_SCHEMA_NODES} schemas`);
  if (depth > MAX_SCHEMA_DEPTH) throw wrongValue(path, `nested at most ${MAX_SCHEMA_DEPTH} schemas deep`);
  if (value === true) return;
  if (value === false) throw unsupported(path, 'is false, which no text can satisfy');
  const node = asObject(value, path);
  refuseUnknown(node, KNOWN_KEYWORDS, `${path}.`);
  checkCombinations(node, path, depth);
  if ('$ref' in node) {
    resolveReference(node['$ref'], `${path}.$ref`, budget.root);
    budget.references.set(node, path);
  }
  checkTypes(node, path);
  checkLiterals(node, path);
  checkRepetitions(node, path, budget);
  checkScalars(node, path);
  checkNames(node, path);
  checkNested(node, path, depth, budget);
}

/** Keywords that grammars cannot combine with others. */
const EXCLUSIVE = ['$ref', 'anyOf', 'oneOf', 'allOf', 'enum', 'const'];
const COMBINABLE: ReadonlySet<string> = new Set([...ANNOTATIONS, '$defs', 'definitions']);

function checkCombinations(node: Node, path: string, depth: number): void {
  for (const keyword of Object.keys(node)) {
    const conflict = conflictOf(node, keyword);
    if (conflict !== null) throw unsupported(`${path}.${keyword}`, `cannot be combined with \`${conflict}\``);
    if (depth > 0 && DEFINITIONS.has(keyword)) {
      throw unsupported(`${path}.${keyword}`, 'is only supported at the root of the schema');
    }
  }
}

/** Returns the keyword that a keyword of the schema cannot be combined with; null if there is none. */
function conflictOf(node: Node, keyword: string): string | null {
  const exclusive = EXCLUSIVE.find((name) => name in node);
  if (exclusive === undefined || keyword === exclusive || COMBINABLE.has(keyword)) return null;
  // `type` only narrows the list of values.
  return keyword === 'type' && (exclusive === 'enum' || exclusive === 'const') ? null : exclusive;
}

/** For each type, whether a JSON value has it. */
export const JSON_TYPES = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof numberValue(value) === 'number',
  integer: (value) => Number.isInteger(numberValue(value)),
  boolean: (value) => typeof value === 'boolean',
  null: (value) => value === null,
  array: (value) => Array.isArray(value),
  object: (value) =>
    typeof value === 'object' && value !== null && !Array.isArray(value) && !isRawNumber(value),
} as const satisfies Readonly<Record<string, (value: unknown) => boolean>>;

export type JsonType = keyof typeof JSON_TYPES;

function checkTypes(node: Node, path: string): void {
  if (!('type' in node)) return;
  const type = node['type'];
  const list: readonly unknown[] = Array.isArray(type) ? type : [type];
  if (list.length === 0) throw wrongValue(`${path}.type`, 'a type or an array with at least 1 type');
  list.forEach((name, index) => {
    const at = Array.isArray(type) ? `${path}.type[${index}]` : `${path}.type`;
    if (typeof name !== 'string') throw wrongType(at, 'the name of a type', name);
    if (!Object.hasOwn(JSON_TYPES, name)) {
      throw wrongValue(at, `one of ${Object.keys(JSON_TYPES).join(', ')}`);
    }
  });
}

function checkLiterals(node: Node, path: string): void {
  if (!('enum' in node)) return;
  const values = node['enum'];
  if (!Array.isArray(values)) throw wrongType(`${path}.enum`, 'an array', values);
  if (values.length === 0) throw wrongValue(`${path}.enum`, 'an array with at least 1 value');
}

function checkRepetitions(node: Node, path: string, budget: Budget): void {
  for (const [low, high] of [
    ['minItems', 'maxItems'],
    ['minLength', 'maxLength'],
  ] as const) {
    const min = readRepetitions(node, low, path, budget) ?? 0;
    const max = readRepetitions(node, high, path, budget) ?? Infinity;
    if (max < min) throw wrongValue(`${path}.${high}`, `at least \`${low}\``);
  }
}

function readRepetitions(node: Node, keyword: string, path: string, budget: Budget): number | null {
  if (!(keyword in node)) return null;
  const value = numberValue(node[keyword]);
  const at = `${path}.${keyword}`;
  if (typeof value !== 'number' || !Number.isInteger(value)) throw wrongType(at, 'an integer', value);
  if (value < 0 || value > MAX_REPETITIONS) throw wrongValue(at, `between 0 and ${MAX_REPETITIONS}`);
  budget.repetitions -= value;
  if (budget.repetitions < 0) {
    throw wrongValue(
      at,
      `smaller: all lengths and counts of the schema may add up to at most ${MAX_SCHEMA_REPETITIONS}`,
    );
  }
  return value;
}

function checkScalars(node: Node, path: string): void {
  for (const keyword of ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum']) {
    if (keyword in node && !JSON_TYPES.number(node[keyword])) {
      throw wrongType(`${path}.${keyword}`, 'a number', node[keyword]);
    }
  }
  checkBounds(node, path);
  for (const keyword of ['pattern', 'format']) {
    if (!(keyword in node)) continue;
    if (asString(node[keyword], `${path}.${keyword}`).length > MAX_PATTERN_CHARACTERS) {
      throw wrongValue(`${path}.${keyword}`, `at most ${MAX_PATTERN_CHARACTERS} characters long`);
    }
  }
}

/** Refuses bounds that no number satisfies, for which llama-server responds with a 500. */
function checkBounds(node: Node, path: string): void {
  const integer = node['type'] === 'integer';
  for (const low of ['minimum', 'exclusiveMinimum']) {
    for (const high of ['maximum', 'exclusiveMaximum']) {
      const [min, max] = [numberValue(node[low]), numberValue(node[high])];
      if (typeof min !== 'number' || typeof max !== 'number') continue;
      const exclusive = low === 'exclusiveMinimum' || high === 'exclusiveMaximum';
      const first = low === 'minimum' ? Math.ceil(min) : Math.floor(min) + 1;
      const last = high === 'maximum' ? Math.floor(max) : Math.ceil(max) - 1;
      if (max < min || (exclusive && max === min) || (integer && last < first)) {
        const kind = integer ? 'an integer' : 'a number';
        throw wrongValue(`${path}.${high}`, `high enough to allow ${kind} that \`${low}\` also allows`);
      }
    }
  }
}

function checkNames(node: Node, path: string): void {
  if ('required' in node) {
    const required = node['required'];
    if (!Array.isArray(required)) throw wrongType(`${path}.required`, 'an array', required);
    required.forEach((name, index) => asString(name, `${path}.required[${index}]`));
  }
  if ('propertyNames' in node) checkPropertyNames(node['propertyNames'], `${path}.propertyNames`);
}

/** Checks `propertyNames`, which libraries add to every map. Grammars support only strings and enumerations. */
function checkPropertyNames(value: unknown, path: string): void {
  if (value === true) return;
  const node = asObject(value, path);
  for (const [keyword, child] of Object.entries(node)) {
    if (ANNOTATIONS.some((name) => name === keyword) || keyword === 'enum') continue;
    if (keyword !== 'type' || child !== 'string') throw unsupported(`${path}.${displayName(keyword)}`);
  }
  checkLiterals(node, path);
  if (Array.isArray(node['enum']))
    node['enum'].forEach((name, index) => asString(name, `${path}.enum[${index}]`));
}

/** Checks the schemas in a schema. */
function checkNested(node: Node, path: string, depth: number, budget: Budget): void {
  const check = (schema: unknown, at: string): void => checkNode(schema, at, depth + 1, budget);
  for (const [keyword, value] of Object.entries(node)) {
    const at = `${path}.${keyword}`;
    if (SCHEMA_MAPS.has(keyword)) {
      for (const [name, schema] of Object.entries(asObject(value, at)))
        check(schema, `${at}.${displayName(name)}`);
    } else if (SCHEMA_LISTS.has(keyword)) {
      if (!Array.isArray(value)) throw wrongType(at, 'an array', value);
      if (value.length === 0) throw wrongValue(at, 'an array with at least 1 schema');
      value.forEach((schema, index) => check(schema, `${at}[${index}]`));
    } else if (SCHEMAS.has(keyword) && !allowsNoOther(node, keyword)) check(value, at);
  }
}

/** Whether a keyword only allows no other properties or elements than those with their own schemas. */
function allowsNoOther(node: Node, keyword: string): boolean {
  return node[keyword] === false && (keyword === 'additionalProperties' || 'prefixItems' in node);
}

/**
 * Refuses references that lead back to themselves through references and alternatives alone, because such a cycle
 * generates no text. `references` has the path of each schema with a `$ref`. Visits each schema once.
 */
function checkCycles(references: ReadonlyMap<unknown, string>, root: unknown): void {
  const open = new Set<unknown>();
  const done = new Set<unknown>();
  const visit = (schema: unknown, reference: string): void => {
    if (typeof schema !== 'object' || schema === null || done.has(schema)) return;
    const path = references.get(schema) ?? reference;
    if (open.has(schema)) throw wrongValue(`${path}.$ref`, 'a reference without a cycle');
    open.add(schema);
    if ('$ref' in schema) visit(resolveReference(schema.$ref, `${path}.$ref`, root), path);
    for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
      const members = child(schema, keyword);
      if (Array.isArray(members)) for (const member of members) visit(member, path);
    }
    open.delete(schema);
    done.add(schema);
  };
  for (const [schema, path] of references) visit(schema, path);
}

const LOCAL = /^#\/(\$defs|definitions)\/([^/]+)$/;

/** Parses `#/$defs/<name>` or `#/definitions/<name>`. Returns null for other references. */
export function parseReference(reference: string): { group: string; name: string } | null {
  const [, group, escaped] = LOCAL.exec(reference) ?? [];
  if (group === undefined || escaped === undefined) return null;
  // RFC 6901: "~1" is "/", then "~0" is "~".
  return { group, name: escaped.replaceAll('~1', '/').replaceAll('~0', '~') };
}

/**
 * Returns the schema that a reference refers to: the root, or an entry of the root's `$defs` or `definitions`. Throws
 * `unsupported_parameter` or `invalid_value`.
 */
function resolveReference(reference: unknown, path: string, root: unknown): unknown {
  const text = asString(reference, path);
  if (text === '#') return root;
  const local = parseReference(text);
  if (local === null) throw unsupported(path, 'must be `#`, `#/$defs/<name>` or `#/definitions/<name>`');
  const target = child(child(root, local.group), local.name);
  if (target === undefined) throw wrongValue(path, 'a reference to an existing schema');
  return target;
}

function child(value: unknown, name: string): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, name)?.value;
}
