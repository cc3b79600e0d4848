import type { JsonSchema } from '../../generation.ts';
import { automatonRule, determinize } from './grammar-automaton.ts';
import { arrayRule, objectRule } from './grammar-container.ts';
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
import { literalText, regularText } from './grammar-pattern.ts';
import type { GrammarRules } from './grammar-rules.ts';
import { stringForm } from './grammar-string.ts';
import {
  automatonWork,
  type Container,
  MAX_WORK,
  type Place,
  refuseWork,
  SCALAR_WORK,
  STRING_WORK,
  type TokenSample,
  VALUE_WORK,
} from './grammar-work.ts';
import type { PatternNode } from './pattern-parser.ts';

/**
 * Turns a JSON Schema into rules. Each schema is first flattened into its alternatives (through `$ref`, unions and
 * lists of types), each of which starts with a character of its own. So no rule is left-recursive, which llama.cpp
 * forbids, and no chain of references can make its check for that run for ever.
 */
export class SchemaGrammar {
  readonly rules: GrammarRules;
  readonly #schema: JsonSchema;
  readonly #path: string;
  readonly #tokens: TokenSample;
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
  /** Rules of scalars by what they were made of. */
  readonly #regular = new Map<string, { name: string; work: number }>();

  constructor(schema: JsonSchema, path: string, rules: GrammarRules, tokens: TokenSample) {
    this.#schema = schema;
    this.#path = path;
    this.rules = rules;
    this.#tokens = tokens;
  }

  /** The rule of the whole schema. */
  root(): string {
    const root = this.rule(this.#schema, this.#path);
    if (root === null) throw nothingMatches(this.#path);
    refuseWork([...this.#places.values()], this.#tokens);
    return root;
  }

  /** The name of the rule for a schema at `path`; null where nothing can match it. */
  rule(schema: unknown, path: string): string | null {
    if (schema === true) {
      this.#inside?.members.add({ path, containers: new Set(), work: VALUE_WORK });
      return 'value';
    }
    if (schema === false) return null;
    const object = schemaObject(schema, path);
    const place = this.#places.get(object) ?? { path, containers: new Set(), work: 0 };
    this.#places.set(object, place);
    this.#inside?.members.add(place);
    const known = this.#unions.get(object);
    if (known !== undefined) return known;
    if (this.#depth >= MAX_DEPTH)
      throw refuseSchema('invalid_value', path, `Schemas can be nested at most ${MAX_DEPTH} levels deep.`);
    this.#depth += 1;
    const name = this.#ruleOf(object, place, this.#alternatives(object, path, new Set()));
    this.#depth -= 1;
    return name;
  }

  #ruleOf(schema: SchemaObject, place: Place, alternatives: readonly Alternative[]): string | null {
    if (alternatives.length === 0) return null;
    if (alternatives.some(({ kind }) => kind === 'any')) {
      place.work = VALUE_WORK;
      return 'value';
    }
    const containers = alternatives.filter((each) => each.kind === 'container');
    const scalars = alternatives.filter((each) => each.kind === 'value' || each.kind === 'type');
    if (containers.length === 0) return this.#scalarRule(scalars, place);
    const [only] = containers;
    if (only !== undefined && alternatives.length === 1) return this.#container(only, place);
    const name = this.rules.reserve();
    this.#unions.set(schema, name);
    const expressions = scalars.length === 0 ? [] : [this.#scalarRule(scalars, place)];
    expressions.push(...containers.map((each) => this.#container(each, place)));
    this.rules.define(name, [...new Set(expressions)].join(' | '));
    return name;
  }

  /** One rule for all scalars of a place, so that those which begin alike are read as one. */
  #scalarRule(scalars: readonly Scalar[], place: Place): string {
    const regular = new Map<string, RegularText>();
    const names = new Map<string, number>();
    for (const scalar of scalars) {
      const form = scalar.kind === 'value' ? literalForm(scalar.json, place.path) : this.#typedForm(scalar);
      if ('node' in form) regular.set(form.key, form);
      else names.set(form.name, form.work);
    }
    if (regular.size > 0) {
      const { name, work } = this.#regularRule([...regular.values()], place.path);
      names.set(name, work);
    }
    for (const work of names.values()) place.work += work;
    return names.size === 1 ? ([...names.keys()][0] ?? '') : this.rules.share([...names.keys()].join(' | '));
  }

  #typedForm({ type, schema, path }: TypedScalar): RegularText | { name: string; work: number } {
    const key = JSON.stringify(['type', type, KEYWORDS_OF_TYPE[type]?.map((keyword) => schema[keyword])]);
    switch (type) {
      case 'integer':
      case 'number': {
        const expression = numberExpression(type, schema, path);
        if (expression === null) return { name: type, work: SCALAR_WORK };
        return { key: `number ${expression}`, path, node: () => regularText(expression) };
      }
      case 'string': {
        const form = stringForm(schema, path, this.rules);
        if (typeof form === 'string') return { name: form, work: STRING_WORK };
        const keyword = schema['pattern'] === undefined ? 'format' : 'pattern';
        return { key, path: `${path}.${keyword}`, node: () => form };
      }
      default:
        return { name: type, work: SCALAR_WORK };
    }
  }

  /** The rule of one deterministic automaton for all of these texts. */
  #regularRule(texts: readonly RegularText[], path: string): { name: string; work: number } {
    const key = texts.map((text) => text.key).join('\n');
    const known = this.#regular.get(key);
    if (known !== undefined) return known;
    const [first] = texts;
    const at = texts.length === 1 && first !== undefined ? first.path : path;
    const automaton = determinize({ kind: 'choice', nodes: texts.map(({ node }) => node()) }, at, this.rules);
    const work = automatonWork(automaton, this.#tokens, this.rules);
    if (work === null || work > MAX_WORK) {
      const message = 'This schema is too ambiguous to be checked for every token. Simplify it.';
      throw refuseSchema('invalid_value', at, message);
    }
    const rule = { name: automatonRule(automaton, this.rules), work };
    this.#regular.set(key, rule);
    return rule;
  }

  #container({ type, schema, path }: TypedContainer, place: Place): string {
    const known = this.#containers[type].get(schema);
    const container = known ?? { type, schema, members: new Set(), width: 0, name: this.rules.reserve() };
    place.containers.add(container);
    if (known !== undefined) return known.name;
    this.#containers[type].set(schema, container);
    const outside = this.#inside;
    this.#inside = container;
    const { expression, width } = (type === 'array' ? arrayRule : objectRule)(schema, path, this);
    container.width = width;
    this.rules.define(container.name, expression);
    this.#inside = outside;
    return container.name;
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
        `At most ${MAX_BRANCHES} alternatives are supported in one place.`,
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
      const message = `\`${beside}\` cannot be combined with \`${keyword}\`. Repeat it in each of the schemas.`;
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
        '`allOf` is only supported with a single schema.',
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
      const message = '`$ref` must be `#`, `#/$defs/…` or `#/definitions/…`.';
      throw refuseSchema('unsupported_parameter', path, message);
    }
    const name = pointerToken(match[2]);
    const definitions = this.#schema[match[1]];
    if (typeof definitions !== 'object' || definitions === null || !Object.hasOwn(definitions, name)) {
      throw refuseSchema('invalid_value', path, 'The definition that `$ref` names does not exist.');
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
type Alternative = { kind: 'any' } | Scalar | TypedContainer;

type Scalar = { kind: 'value'; json: string } | TypedScalar;

interface TypedScalar {
  kind: 'type';
  type: Exclude<JsonType, 'object' | 'array'>;
  schema: SchemaObject;
  path: string;
}

interface TypedContainer {
  kind: 'container';
  type: 'object' | 'array';
  schema: SchemaObject;
  path: string;
}

/** Texts that a regular expression describes. */
interface RegularText {
  /** Equal for equal texts. */
  key: string;
  path: string;
  node: () => PatternNode;
}

function literalForm(json: string, path: string): RegularText {
  return { key: `text ${json}`, path, node: () => literalText(json) };
}

function refuseUnknownKeywords(schema: SchemaObject, path: string): void {
  for (const keyword of Object.keys(schema)) {
    if (GRAMMAR_KEYWORDS.has(keyword)) continue;
    const message = `The keyword \`${keyword.slice(0, 50)}\` is not supported.`;
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
    const message = `\`${beside}\` cannot be combined with \`${keyword}\`. Remove the values that it excludes instead.`;
    throw refuseSchema('unsupported_parameter', `${path}.${beside}`, message);
  }
  const values = keyword === 'const' ? [schema['const']] : schema['enum'];
  if (!Array.isArray(values) || values.length === 0) {
    throw refuseSchema('invalid_type', `${path}.enum`, '`enum` must be a list with at least one value.');
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
  return distinct.map((type) =>
    type === 'object' || type === 'array'
      ? { kind: 'container', type, schema, path }
      : { kind: 'type', type, schema, path },
  );
}

function typeList(value: unknown, path: string): JsonType[] {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  const types = JSON_TYPES.filter((type) => names.includes(type));
  if (types.length > 0 && names.every((name) => JSON_TYPES.some((type) => type === name))) return types;
  throw refuseSchema(
    'invalid_value',
    path,
    `\`type\` must be one of ${JSON_TYPES.join(', ')}, or a list of them.`,
  );
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
