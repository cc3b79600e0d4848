import type { JsonSchema } from '../../generation.ts';
import { type Container, type Place, refuseAmbiguity } from './grammar-ambiguity.ts';
import { arrayExpression, objectExpression } from './grammar-container.ts';
import {
  ANNOTATIONS,
  COMBINING,
  GRAMMAR_KEYWORDS,
  JSON_TYPES,
  type JsonType,
  KEYWORDS_OF_TYPE,
  MAX_BRANCHES,
  nothingMatches,
  refuseSchema,
  schemaList,
  schemaObject,
  type SchemaObject,
} from './grammar-keywords.ts';
import { numberExpression } from './grammar-number.ts';
import { type GrammarRules, literal } from './grammar-rules.ts';
import { stringExpression } from './grammar-string.ts';

/**
 * Turns a JSON Schema into rules. Each schema is first flattened into its alternatives (through `$ref`, unions and
 * lists of types), each of which starts with a character of its own. So no rule is left-recursive, which llama.cpp
 * forbids, and no chain of references can make its check for that run for ever.
 */
export class SchemaGrammar {
  readonly rules: GrammarRules;
  readonly #schema: JsonSchema;
  readonly #path: string;
  /** How many schemas the one at hand is nested in, references included. */
  #depth = 0;
  /** The object or array whose members are being turned into rules; null at the root. */
  #inside: Container | null = null;
  /** The rules of unions, objects and arrays met before: recursion ends here. */
  readonly #unions = new Map<SchemaObject, string>();
  readonly #containers = {
    object: new Map<SchemaObject, NamedContainer>(),
    array: new Map<SchemaObject, NamedContainer>(),
  };
  readonly #places = new Map<SchemaObject, Place>();

  constructor(schema: JsonSchema, path: string, rules: GrammarRules) {
    this.#schema = schema;
    this.#path = path;
    this.rules = rules;
  }

  /** The rule of the whole schema. */
  root(): string {
    const root = this.rule(this.#schema, this.#path);
    if (root === null) throw nothingMatches(this.#path);
    refuseAmbiguity([...this.#places.values()]);
    return root;
  }

  /** The name of the rule for a schema at `path`; null where nothing can match it. */
  rule(schema: unknown, path: string): string | null {
    if (schema === true) return 'value';
    if (schema === false) return null;
    const object = schemaObject(schema, path);
    const place = this.#places.get(object) ?? { path, containers: new Set() };
    this.#places.set(object, place);
    this.#inside?.members.add(place);
    const known = this.#unions.get(object);
    if (known !== undefined) return known;
    if (this.#depth >= MAX_DEPTH)
      throw refuseSchema('invalid_value', path, `Nested deeper than ${MAX_DEPTH} schemas.`);
    this.#depth += 1;
    const name = this.#ruleOf(object, place, this.#alternatives(object, path, new Set()));
    this.#depth -= 1;
    return name;
  }

  #ruleOf(schema: SchemaObject, place: Place, alternatives: readonly Alternative[]): string | null {
    if (alternatives.length === 0) return null;
    if (alternatives.some(({ kind }) => kind === 'any')) return 'value';
    const [only] = alternatives;
    if (only !== undefined && alternatives.length === 1) return this.#alternative(only, place);
    const name = this.rules.reserve();
    this.#unions.set(schema, name);
    const expressions = alternatives.map((alternative) => this.#alternative(alternative, place));
    this.rules.define(name, [...new Set(expressions)].join(' | '));
    return name;
  }

  #alternative(alternative: Alternative, place: Place): string {
    switch (alternative.kind) {
      case 'any':
        return 'value';
      case 'value':
        return this.rules.share(literal(alternative.json));
      default:
        return this.#typedRule(alternative, place);
    }
  }

  #typedRule({ type, schema, path }: TypedSchema, place: Place): string {
    switch (type) {
      case 'boolean':
      case 'null':
        return type;
      case 'integer':
      case 'number':
        return this.rules.share(numberExpression(type, schema, path));
      case 'string':
        return this.rules.share(stringExpression(schema, path, this.rules));
      default: {
        const container = this.#container(type, schema, path);
        place.containers.add(container);
        return container.name;
      }
    }
  }

  #container(type: 'object' | 'array', schema: SchemaObject, path: string): NamedContainer {
    const known = this.#containers[type].get(schema);
    if (known !== undefined) return known;
    const container = { type, schema, members: new Set<Place>(), name: this.rules.reserve() };
    this.#containers[type].set(schema, container);
    const outside = this.#inside;
    this.#inside = container;
    const expression = type === 'array' ? arrayExpression : objectExpression;
    this.rules.define(container.name, expression(schema, path, this));
    this.#inside = outside;
    return container;
  }

  /** What may stand at a place. `seen` holds the schemas already counted: a second time, or in a circle, they add nothing. */
  #alternatives(schema: unknown, path: string, seen: Set<SchemaObject>): Alternative[] {
    if (schema === true) return [{ kind: 'any' }];
    if (schema === false) return [];
    const object = schemaObject(schema, path);
    if (seen.has(object)) return [];
    seen.add(object);
    if (seen.size > MAX_STEPS)
      throw refuseSchema('invalid_value', path, 'Too many schemas refer to each other here.');
    refuseUnknownKeywords(object, path);
    const alternatives = this.#union(object, path, seen) ?? valuesOf(object, path) ?? typesOf(object, path);
    if (alternatives.length > MAX_BRANCHES) {
      throw refuseSchema(
        'invalid_value',
        path,
        `At most ${MAX_BRANCHES} alternatives can be told apart in one place.`,
      );
    }
    return alternatives;
  }

  /** The alternatives of a schema that only points at others; null where it is none of these. */
  #union(schema: SchemaObject, path: string, seen: Set<SchemaObject>): Alternative[] | null {
    const keyword = COMBINING.find((name) => schema[name] !== undefined);
    if (keyword === undefined) return null;
    const beside = Object.keys(schema).find((name) => name !== keyword && !ANNOTATIONS.has(name));
    if (beside !== undefined) {
      const message = `'${beside}' cannot stand beside '${keyword}': repeat it in each of the schemas.`;
      throw refuseSchema('unsupported_parameter', `${path}.${beside}`, message);
    }
    if (keyword === '$ref') {
      const target = this.#resolve(schema['$ref'], `${path}.$ref`);
      return this.#alternatives(target.schema, target.path, seen);
    }
    const members = schemaList(schema[keyword], `${path}.${keyword}`);
    if (keyword === 'allOf' && members.length !== 1) {
      throw refuseSchema(
        'unsupported_parameter',
        `${path}.allOf`,
        "'allOf' is supported with a single schema.",
      );
    }
    return members.flatMap((member, index) =>
      this.#alternatives(member, `${path}.${keyword}[${index}]`, seen),
    );
  }

  /** `#`, `#/$defs/name` or `#/definitions/name`. */
  #resolve(reference: unknown, path: string): { schema: unknown; path: string } {
    if (reference === '#') return { schema: this.#schema, path: this.#path };
    const match = typeof reference === 'string' ? /^#\/(\$defs|definitions)\/([^/]+)$/.exec(reference) : null;
    if (
      match === null ||
      match[1] === undefined ||
      match[2] === undefined ||
      typeof this.#schema === 'boolean'
    ) {
      const message =
        "A '$ref' names the schema itself ('#') or one of its '#/$defs/…' or '#/definitions/…'.";
      throw refuseSchema('unsupported_parameter', path, message);
    }
    const name = pointerToken(match[2]);
    const definitions = this.#schema[match[1]];
    if (typeof definitions !== 'object' || definitions === null || !Object.hasOwn(definitions, name)) {
      throw refuseSchema('invalid_value', path, "The '$ref' names a definition that is not there.");
    }
    // `hasOwn` has just said that the name is there.
    return { schema: (definitions as SchemaObject)[name], path: `${this.#path}.${match[1]}.${name}` };
  }
}

/** Schemas nested in each other, references included; a recursive one counts once. */
const MAX_DEPTH = 100;

/** Schemas looked through for the alternatives of one place. */
const MAX_STEPS = 1000;

type NamedContainer = Container & { readonly name: string };

/** One of the ways in which a value may look. */
type Alternative = { kind: 'any' } | { kind: 'value'; json: string } | TypedSchema;

interface TypedSchema {
  kind: 'type';
  type: JsonType;
  schema: SchemaObject;
  path: string;
}

function refuseUnknownKeywords(schema: SchemaObject, path: string): void {
  for (const keyword of Object.keys(schema)) {
    if (GRAMMAR_KEYWORDS.has(keyword)) continue;
    const message = `The keyword '${keyword.slice(0, 50)}' is not supported.`;
    throw refuseSchema('unsupported_parameter', `${path}.${keyword}`, message);
  }
}

/** The values of `const` or `enum`, of those types that `type` allows; null where there is neither. */
function valuesOf(schema: SchemaObject, path: string): Alternative[] | null {
  const keyword = schema['const'] === undefined ? 'enum' : 'const';
  if (schema[keyword] === undefined) return null;
  const beside = Object.keys(schema).find(
    (name) => name !== keyword && name !== 'type' && !ANNOTATIONS.has(name),
  );
  if (beside !== undefined) {
    const message = `'${beside}' cannot stand beside '${keyword}': leave out the values that it excludes.`;
    throw refuseSchema('unsupported_parameter', `${path}.${beside}`, message);
  }
  const values = keyword === 'const' ? [schema['const']] : schema['enum'];
  if (!Array.isArray(values) || values.length === 0) {
    throw refuseSchema('invalid_type', `${path}.enum`, "'enum' is a list of values that is not empty.");
  }
  const types = schema['type'] === undefined ? null : typeList(schema['type'], `${path}.type`);
  const allowed = values.filter((value) => types === null || types.some((type) => isOfType(value, type)));
  return [...new Set(allowed.map((value) => JSON.stringify(value)))].map((json) => ({ kind: 'value', json }));
}

function typesOf(schema: SchemaObject, path: string): Alternative[] {
  const types =
    schema['type'] === undefined
      ? JSON_TYPES.filter((type) => KEYWORDS_OF_TYPE[type]?.some((keyword) => schema[keyword] !== undefined))
      : typeList(schema['type'], `${path}.type`);
  if (types.length === 0) return [{ kind: 'any' }];
  const distinct = types.filter((type) => type !== 'integer' || !types.includes('number'));
  return distinct.map((type) => ({ kind: 'type', type, schema, path }));
}

function typeList(value: unknown, path: string): JsonType[] {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  const types = JSON_TYPES.filter((type) => names.includes(type));
  if (types.length > 0 && names.every((name) => JSON_TYPES.some((type) => type === name))) return types;
  throw refuseSchema('invalid_value', path, `A type is one of ${JSON_TYPES.join(', ')}, or a list of them.`);
}

function isOfType(value: unknown, type: JsonType): boolean {
  switch (type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value);
    case 'object':
      return typeof value === 'object' && value !== null && !Array.isArray(value);
    case 'integer':
      return Number.isInteger(value);
    default:
      return typeof value === type;
  }
}

/** A segment of a JSON pointer in a URI fragment (RFC 6901). */
function pointerToken(text: string): string {
  let decoded = text;
  try {
    decoded = decodeURIComponent(text);
  } catch {
    // Not percent-encoded, then: the name has a percent sign of its own.
  }
  return decoded.replaceAll('~1', '/').replaceAll('~0', '~');
}
