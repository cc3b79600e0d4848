import type { JsonSchema } from '../../../core/generation.ts';
import {
  checkJsonSchema,
  JSON_TYPES,
  type JsonType,
  KNOWN_KEYWORDS,
  parseReference,
} from '../../../json/json-schema.ts';
import { automatonRule, determinize } from './grammar-automaton.ts';
import { literalNode, numberExpression, regexNode, stringForm } from './grammar-scalar.ts';
import {
  COMBINING_KEYWORDS,
  type GrammarRules,
  inClass,
  KEYWORDS_OF_TYPE,
  literal,
  MAX_BRANCHES,
  numberIn,
  schemaError,
  type SchemaObject,
  unsatisfiable,
} from './grammar-rules.ts';
import {
  automatonWork,
  checkWork,
  type Container,
  MAX_WORK,
  SCALAR_WORK,
  type SchemaPosition,
  STRING_WORK,
  type TokenSample,
  VALUE_WORK,
} from './grammar-work.ts';
import type { PatternNode } from './pattern-parser.ts';

/**
 * Converts a JSON Schema into rules. `$ref`, unions and lists of types are first resolved into a list of alternatives,
 * each of which is a value or a single type. This avoids left recursion, which llama.cpp does not support.
 */
export class SchemaGrammar {
  readonly rules: GrammarRules;
  readonly #schema: JsonSchema;
  readonly #path: string;
  readonly #tokens: TokenSample;
  /** Nesting depth of the current schema, including references. */
  #depth = 0;
  /** The container of the current schema; null at the root. */
  #currentContainer: Container | null = null;
  /** So that each schema is resolved once, however many references lead to it. */
  readonly #resolved = new Map<SchemaObject, readonly Alternative[]>();
  /** Names of the rules of alternatives. Those of unions are set before their members, so that recursive schemas end. */
  readonly #names = new Map<readonly Alternative[], string>();
  readonly #containers = {
    object: new Map<SchemaObject, NamedContainer>(),
    array: new Map<SchemaObject, NamedContainer>(),
  };
  readonly #positions = new Map<readonly Alternative[], SchemaPosition>();
  /** Rules of the automata, by the joined keys of their `RegexForm`s. */
  readonly #regexRules = new Map<string, { name: string; work: number }>();

  /** Throws like `checkJsonSchema`: of a schema that is not strict, the service has checked only the size. */
  constructor(schema: JsonSchema, path: string, rules: GrammarRules, tokens: TokenSample) {
    this.#schema = checkJsonSchema(schema, path);
    this.#path = path;
    this.rules = rules;
    this.#tokens = tokens;
  }

  /** Returns the name of the rule for the whole schema. */
  root(): string {
    const root = this.rule(this.#schema, this.#path);
    if (root === null) throw unsatisfiable(this.#path);
    checkWork([...this.#positions.values()], this.#tokens);
    return root;
  }

  /** Returns the name of the rule for a schema, or null if no value can match. */
  rule(schema: JsonSchema, path: string): string | null {
    if (schema === true) {
      this.#currentContainer?.members.add({ path, containers: new Set(), work: VALUE_WORK });
      return 'value';
    }
    if (schema === false) return null;
    const alternatives = this.#alternatives(schema, path);
    const position = this.#positions.get(alternatives) ?? { path, containers: new Set(), work: 0 };
    this.#positions.set(alternatives, position);
    this.#currentContainer?.members.add(position);
    const known = this.#names.get(alternatives);
    if (known !== undefined) return known;
    if (this.#depth >= MAX_DEPTH)
      throw schemaError('invalid_value', path, `Schemas can be nested at most ${MAX_DEPTH} levels deep.`);
    this.#depth += 1;
    const name = this.#combinedRule(position, alternatives);
    this.#depth -= 1;
    if (name !== null) this.#names.set(alternatives, name);
    return name;
  }

  /** Returns the rules of a schema for a format that writes strings as raw text, and other values as JSON. */
  rawRules(schema: JsonSchema, path: string): RawRules {
    const alternatives = this.#alternatives(schema, path);
    const strings = alternatives.filter(isString);
    const others = alternatives.filter((each) => each.kind !== 'any' && !isString(each));
    const position = (): SchemaPosition => ({ path, containers: new Set(), work: 0 });
    if (alternatives.some(({ kind }) => kind === 'any'))
      return { text: true, other: null, values: [], conflict: null };
    const other = others.length === 0 ? null : this.#combinedRule(position(), others);
    const values = strings.flatMap((each) =>
      each.kind === 'value' ? [{ text: JSON.parse(each.json) as string, path: each.path }] : [],
    );
    const isAnyText = strings.some((each) => each.kind === 'type' && isWholeType(each));
    const text = strings.length === 0 ? null : isAnyText || this.#scalarRule(strings, position(), true);
    // Raw text that is JSON of a type in `others` becomes a value of that type, which must satisfy the schema. If
    // strings are allowed too, an array or object is cut at the first end tag, even one inside its JSON strings. The
    // text before the tag becomes a string, which satisfies the schema only if strings can be any text.
    const restricted = others.find(
      (each) => !isWholeType(each) || (each.kind === 'container' && text !== true),
    );
    const isAmbiguous =
      strings.some((each) => each.kind === 'type') || values.some((value) => isOtherJson(value.text));
    const conflict = restricted !== undefined && isAmbiguous ? pathOf(restricted) : null;
    return { text, other, values, conflict };
  }

  #combinedRule(position: SchemaPosition, alternatives: readonly Alternative[]): string | null {
    if (alternatives.length === 0) return null;
    if (alternatives.some(({ kind }) => kind === 'any')) {
      position.work = VALUE_WORK;
      return 'value';
    }
    const containers = alternatives.filter((each) => each.kind === 'container');
    const scalars = alternatives.filter((each) => each.kind === 'value' || each.kind === 'type');
    if (containers.length === 0) return this.#scalarRule(scalars, position);
    const [only] = containers;
    if (only !== undefined && alternatives.length === 1) return this.#container(only, position);
    const name = this.rules.reserve();
    this.#names.set(alternatives, name);
    const expressions = scalars.length === 0 ? [] : [this.#scalarRule(scalars, position)];
    expressions.push(...containers.map((each) => this.#container(each, position)));
    this.rules.define(name, [...new Set(expressions)].join(' | '));
    return name;
  }

  /** Returns one rule for all scalars of a position, so that common prefixes are not ambiguous. */
  #scalarRule(scalars: readonly Scalar[], position: SchemaPosition, raw = false): string {
    const regexForms = new Map<string, RegexForm>();
    const names = new Map<string, number>();
    for (const scalar of scalars) {
      const form =
        scalar.kind === 'value'
          ? literalForm(raw ? (JSON.parse(scalar.json) as string) : scalar.json, position.path)
          : this.#typedForm(scalar, raw);
      if ('node' in form) regexForms.set(form.key, form);
      else names.set(form.name, form.work);
    }
    if (regexForms.size > 0) {
      const { name, work } = this.#regexRule([...regexForms.values()], position.path);
      names.set(name, work);
    }
    for (const work of names.values()) position.work += work;
    return names.size === 1 ? ([...names.keys()][0] ?? '') : this.rules.share([...names.keys()].join(' | '));
  }

  #typedForm({ type, schema, path }: TypedScalar, raw: boolean): RegexForm | { name: string; work: number } {
    const key = JSON.stringify([
      'type',
      type,
      raw,
      KEYWORDS_OF_TYPE[type]?.map((keyword) => schema[keyword]),
    ]);
    switch (type) {
      case 'integer':
      case 'number': {
        const expression = numberExpression(type, schema, path);
        if (expression === null) return { name: type, work: SCALAR_WORK };
        return { key: `number ${expression}`, path, node: () => regexNode(expression) };
      }
      case 'string': {
        const form = stringForm(schema, path, this.rules, raw);
        if (typeof form === 'string') return { name: form, work: STRING_WORK };
        const keyword = schema['pattern'] === undefined ? 'format' : 'pattern';
        return { key, path: `${path}.${keyword}`, node: () => form };
      }
      default:
        return { name: type, work: SCALAR_WORK };
    }
  }

  /** Returns the rule of one deterministic automaton for all forms. */
  #regexRule(forms: readonly RegexForm[], path: string): { name: string; work: number } {
    const key = forms.map((form) => form.key).join('\n');
    const known = this.#regexRules.get(key);
    if (known !== undefined) return known;
    const [first] = forms;
    const at = forms.length === 1 && first !== undefined ? first.path : path;
    const automaton = determinize({ kind: 'choice', nodes: forms.map(({ node }) => node()) }, at, this.rules);
    const work = automatonWork(automaton, this.#tokens, this.rules);
    if (work === null || work > MAX_WORK) {
      const message = 'This schema is too ambiguous to be checked for every token. Simplify it.';
      throw schemaError('invalid_value', at, message);
    }
    const rule = { name: automatonRule(automaton, this.rules), work };
    this.#regexRules.set(key, rule);
    return rule;
  }

  #container({ type, schema, path }: TypedContainer, position: SchemaPosition): string {
    const known = this.#containers[type].get(schema);
    const container = known ?? { type, schema, members: new Set(), width: 0, name: this.rules.reserve() };
    position.containers.add(container);
    if (known !== undefined) return known.name;
    this.#containers[type].set(schema, container);
    const outer = this.#currentContainer;
    this.#currentContainer = container;
    const { expression, width } = (type === 'array' ? arrayRule : objectRule)(schema, path, this);
    container.width = width;
    this.rules.define(container.name, expression);
    this.#currentContainer = outer;
    return container.name;
  }

  /** Returns the alternatives of a schema. `checkJsonSchema` has refused circular references. */
  #alternatives(schema: JsonSchema, path: string): readonly Alternative[] {
    if (schema === true) return ANY;
    if (schema === false) return [];
    const known = this.#resolved.get(schema);
    if (known !== undefined) return known;
    checkKeywords(schema, path);
    const alternatives = this.#union(schema, path) ?? valuesOf(schema, path) ?? typesOf(schema, path);
    if (alternatives.length > MAX_BRANCHES) {
      throw schemaError(
        'invalid_value',
        path,
        `At most ${MAX_BRANCHES} alternatives are supported in one place.`,
      );
    }
    this.#resolved.set(schema, alternatives);
    return alternatives;
  }

  /** Returns the alternatives of a `$ref` or union, or null if the schema is neither. */
  #union(schema: SchemaObject, path: string): readonly Alternative[] | null {
    const keyword = COMBINING_KEYWORDS.find((name) => schema[name] !== undefined);
    if (keyword === undefined) return null;
    if (keyword === '$ref') {
      const target = this.#resolve(schema['$ref'] as string);
      return this.#alternatives(target.schema, target.path);
    }
    const members = schema[keyword] as readonly JsonSchema[];
    if (keyword === 'allOf' && members.length !== 1) {
      throw schemaError(
        'unsupported_parameter',
        `${path}.allOf`,
        '`allOf` is only supported with a single schema.',
      );
    }
    const lists = members.map((member, index) => this.#alternatives(member, `${path}.${keyword}[${index}]`));
    // Several members may refer to the same schema.
    return lists.length === 1 && lists[0] !== undefined ? lists[0] : [...new Set(lists.flat())];
  }

  #resolve(reference: string): { schema: JsonSchema; path: string } {
    const local = parseReference(reference);
    if (local === null || typeof this.#schema === 'boolean')
      return { schema: this.#schema, path: this.#path };
    const { group, name } = local;
    const definitions = this.#schema[group] as Readonly<Record<string, JsonSchema>>;
    // `checkJsonSchema` has checked that the definition exists.
    return { schema: definitions[name] ?? true, path: `${this.#path}.${group}.${name}` };
  }
}

/** Maximum nesting depth, including references. */
const MAX_DEPTH = 100;

const ANY: readonly Alternative[] = [{ kind: 'any' }];

type NamedContainer = Container & { readonly name: string };

type Alternative = { kind: 'any' } | Scalar | TypedContainer;

type Scalar = { kind: 'value'; json: string; path: string } | TypedScalar;

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

/** Texts that match a regular expression. */
interface RegexForm {
  /** Forms with the same key match the same texts. */
  key: string;
  path: string;
  node: () => PatternNode;
}

/** Rules of a value in a format that writes strings as raw text, and other values as JSON. */
export interface RawRules {
  /** The rule of the text of a string; true if any text is allowed, null if no string is. */
  text: string | true | null;
  /** The rule of other values; null if the schema allows any value, or only strings. */
  other: string | null;
  /** The strings that the schema lists. */
  values: readonly { text: string; path: string }[];
  /**
   * The path of a schema or keyword that cannot be enforced, because a parser cannot distinguish strings from other
   * values here.
   */
  conflict: string | null;
}

function isString(alternative: Alternative): alternative is Scalar {
  const { kind } = alternative;
  return (
    (kind === 'value' && alternative.json.startsWith('"')) ||
    (kind === 'type' && alternative.type === 'string')
  );
}

/** Whether all values of the alternative's type satisfy it. */
function isWholeType(alternative: Scalar | TypedContainer): boolean {
  if (alternative.kind === 'value') return alternative.json === 'null';
  return keywordOf(alternative) === undefined;
}

function keywordOf({ type, schema }: TypedScalar | TypedContainer): string | undefined {
  return KEYWORDS_OF_TYPE[type === 'integer' ? 'number' : type]?.find((name) => schema[name] !== undefined);
}

/** Returns the path of the keyword that restricts an alternative. */
function pathOf(alternative: Scalar | TypedContainer): string {
  if (alternative.kind === 'value') return alternative.path;
  return `${alternative.path}.${keywordOf(alternative) ?? 'type'}`;
}

function isOtherJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) !== 'string';
  } catch {
    return false;
  }
}

function literalForm(json: string, path: string): RegexForm {
  return { key: `text ${json}`, path, node: () => literalNode(json) };
}

/** Refuses unknown keywords whose value is null, because `checkJsonSchema` accepts them. */
function checkKeywords(schema: SchemaObject, path: string): void {
  const keyword = Object.keys(schema).find((name) => !KNOWN_KEYWORDS.has(name));
  if (keyword === undefined) return;
  const message = `The keyword \`${keyword.slice(0, 50)}\` is not supported.`;
  throw schemaError('unsupported_parameter', `${path}.${keyword}`, message);
}

/** Returns the values of `const` or `enum` that `type` allows, or null if neither exists. */
function valuesOf(schema: SchemaObject, path: string): Alternative[] | null {
  if (schema['const'] === undefined && schema['enum'] === undefined) return null;
  const values = schema['const'] === undefined ? (schema['enum'] as unknown[]) : [schema['const']];
  const types = declaredTypes(schema);
  const allowed = values.filter((value) => types === null || types.some((type) => JSON_TYPES[type](value)));
  return [...new Set(allowed.map((value) => JSON.stringify(value)))].map((json) => ({
    kind: 'value',
    json,
    path: `${path}.${schema['const'] === undefined ? 'enum' : 'const'}`,
  }));
}

function typesOf(schema: SchemaObject, path: string): Alternative[] {
  const types =
    declaredTypes(schema) ??
    (Object.keys(KEYWORDS_OF_TYPE) as JsonType[]).filter((type) =>
      KEYWORDS_OF_TYPE[type]?.some((keyword) => schema[keyword] !== undefined),
    );
  if (types.length === 0) return [{ kind: 'any' }];
  const distinct = types.filter((type) => type !== 'integer' || !types.includes('number'));
  return distinct.map((type) =>
    type === 'object' || type === 'array'
      ? { kind: 'container', type, schema, path }
      : { kind: 'type', type, schema, path },
  );
}

function declaredTypes({ type }: SchemaObject): readonly JsonType[] | null {
  return type === undefined ? null : [...new Set([type as JsonType | JsonType[]].flat())];
}

interface ContainerRule {
  expression: string;
  /** See `Container`. */
  width: number;
}

/** Returns the rule of an object: its properties in the order of `memberList`, then additional ones. */
function objectRule(schema: SchemaObject, path: string, grammar: SchemaGrammar): ContainerRule {
  const members = membersOf(schema, path, grammar);
  const extra = extraMember(schema, path, members, grammar);
  const rest = extra === null ? null : grammar.rules.share(`${extra} ("," ws ${extra})*`);
  const rules = members.map(({ name, rule, required }) => ({
    expression: grammar.rules.share(`${literal(JSON.stringify(name))} ":" sp ${rule}`),
    required,
  }));
  const list = memberList(grammar.rules, rules, '"," ws', rest);
  if (list === null) return { expression: '"{}"', width: 1 };
  const mayBeEmpty = members.every(({ required }) => !required);
  const expression = `"{" ws ${list} ws "}"${mayBeEmpty ? ' | "{}"' : ''}`;
  return { expression, width: objectWidth(members, extra !== null) };
}

/**
 * Returns the maximum number of ways in which an object can continue: the properties that can come next, white space
 * and the end.
 */
function objectWidth(members: readonly Member[], extra: boolean): number {
  const optional = members.filter(({ required }) => !required).length;
  const others = Math.min(1, members.length - optional) + (extra ? 1 : 0);
  return optional + others + 3;
}

/** Returns the rule of an array: the `prefixItems`, then `items`, with `minItems` to `maxItems` in total. */
function arrayRule(schema: SchemaObject, path: string, grammar: SchemaGrammar): ContainerRule {
  return { expression: arrayExpression(schema, path, grammar), width: ARRAY_WIDTH };
}

/** The ways in which an array can continue: two forms of white space, a value and the end. */
const ARRAY_WIDTH = 4;

function arrayExpression(schema: SchemaObject, path: string, grammar: SchemaGrammar): string {
  const prefix = prefixRules(schema, path, grammar);
  const { items = schema['prefixItems'] === undefined } = schema as { items?: JsonSchema };
  const min = numberIn(schema, 'minItems') ?? 0;
  const maxItems = numberIn(schema, 'maxItems') ?? null;
  const item = grammar.rule(items, `${path}.items`);
  const max = item === null ? Math.min(maxItems ?? prefix.length, prefix.length) : maxItems;
  if (max !== null && max < min) throw unsatisfiable(path);

  // Without `prefixItems`, the first item is treated like one of them, because it has no comma before it.
  const single = prefix.length === 0 && item !== null ? [item] : prefix;
  const leading = max === null ? single : single.slice(0, max);
  let rest = '';
  if (item !== null && (max === null || max > leading.length)) {
    const more = grammar.rules.share(`"," ws ${item}`);
    const minRest = Math.max(0, min - leading.length);
    rest = grammar.rules.repeat(more, minRest, max === null ? null : max - leading.length);
  }
  for (const [index, rule] of [...leading.entries()].toReversed()) {
    if (index === 0) return `"[" ws ${rule} ${rest} ws "]"${min === 0 ? ' | "[]"' : ''}`;
    const element = grammar.rules.share(`"," ws ${rule} ${rest}`);
    rest = index < min ? element : `${element}?`;
  }
  return '"[]"';
}

/** In UTF-16 code units. */
const MAX_NAME_LENGTH = 256;

interface Member {
  name: string;
  rule: string;
  required: boolean;
}

function membersOf(schema: SchemaObject, path: string, grammar: SchemaGrammar): Member[] {
  const properties = propertiesOf(schema);
  const required = new Set(schema['required'] as readonly string[] | undefined);
  const allowed = allowedNames(schema);
  const declared = Object.entries(properties).map(([name, value]) => ({
    name,
    schema: value,
    at: `${path}.properties.${name}`,
  }));
  // Names in `required` or `propertyNames` that are not in `properties` are additional properties.
  const extras = [...new Set([...(allowed ?? []), ...required])]
    .filter((name) => !Object.hasOwn(properties, name))
    .map((name) => ({
      name,
      schema: extraSchema(schema, required.has(name)),
      at: `${path}.required`,
    }));
  const all = [...declared, ...extras];
  if (all.length > MAX_BRANCHES) {
    const message = `An object can have at most ${MAX_BRANCHES} properties here.`;
    throw schemaError('invalid_value', `${path}.properties`, message);
  }
  return all.flatMap(({ name, schema, at }) => {
    if (name.length > MAX_NAME_LENGTH) {
      throw schemaError(
        'invalid_value',
        at,
        `A property name can have at most ${MAX_NAME_LENGTH} characters here.`,
      );
    }
    const rule = allowed !== null && !allowed.has(name) ? null : grammar.rule(schema, at);
    if (rule !== null) return [{ name, rule, required: required.has(name) }];
    if (required.has(name)) throw unsatisfiable(at);
    return [];
  });
}

/** Returns the rule of additional properties, or null if none are allowed. */
function extraMember(
  schema: SchemaObject,
  path: string,
  members: readonly Member[],
  grammar: SchemaGrammar,
): string | null {
  // `membersOf` has added all names that `propertyNames` lists.
  if (allowedNames(schema) !== null) return null;
  const rule = grammar.rule(extraSchema(schema), `${path}.additionalProperties`);
  if (rule === null) return null;
  const names = new Set([...Object.keys(propertiesOf(schema)), ...members.map(({ name }) => name)]);
  const key = names.size === 0 ? 'string' : nameOtherThan([...names], grammar);
  return grammar.rules.share(`${key} ":" sp ${rule}`);
}

/**
 * Returns the rule of a string that is none of `names`, so that additional properties cannot overwrite others. The
 * string has no escapes, because a name could be spelled differently with them.
 */
function nameOtherThan(names: readonly string[], grammar: SchemaGrammar): string {
  const otherThan = (rests: readonly string[]): string => {
    const byFirst = Map.groupBy(
      rests.filter((rest) => rest !== ''),
      (rest) => String.fromCodePoint(rest.codePointAt(0) ?? 0),
    );
    const alternatives = [
      `[^"\\\\\\x00-\\x1F${[...byFirst.keys()].map((first) => inClass(first.codePointAt(0) ?? 0)).join('')}] plain*`,
    ];
    for (const [first, group] of byFirst) {
      // The string has no escapes, so it cannot be a name that needs one.
      if (JSON.stringify(first) !== `"${first}"`) continue;
      alternatives.push(`${literal(first)} ${otherThan(group.map((rest) => rest.slice(first.length)))}`);
    }
    const name = grammar.rules.share(alternatives.join(' | '));
    return rests.includes('') ? name : `${name}?`;
  };
  return grammar.rules.share(`"\\"" ${otherThan(names)} "\\""`);
}

function prefixRules(schema: SchemaObject, path: string, grammar: SchemaGrammar): string[] {
  const members = (schema['prefixItems'] ?? []) as readonly JsonSchema[];
  return members.map((member, index) => {
    const at = `${path}.prefixItems[${index}]`;
    const rule = grammar.rule(member, at);
    if (rule === null) throw unsatisfiable(at);
    return rule;
  });
}

function propertiesOf(schema: SchemaObject): Readonly<Record<string, JsonSchema>> {
  return (schema['properties'] ?? {}) as Readonly<Record<string, JsonSchema>>;
}

/**
 * Returns the schema of additional properties. Without `additionalProperties`, they are allowed only if the schema has
 * no `properties`, or if its `required` lists them (then the argument `required` is true).
 */
function extraSchema(schema: SchemaObject, required = false): JsonSchema {
  const extra = schema['additionalProperties'] as JsonSchema | undefined;
  return extra ?? (required || schema['properties'] === undefined);
}

/** Returns the allowed names of properties, or null if any name is allowed. */
function allowedNames({ propertyNames }: SchemaObject): Set<string> | null {
  const names = (propertyNames as { enum?: readonly string[] } | true | undefined) ?? true;
  return names === true || names.enum === undefined ? null : new Set(names.enum);
}

/** A member of an object in the notation of a format. */
interface MemberRule {
  /** The GBNF expression of the name and the value. */
  expression: string;
  required: boolean;
}

/**
 * Maximum number of rules for the members of one object in any order. Each is for one set of the optional members that
 * can follow, so the number doubles with each of them.
 */
const MAX_STATES = 32;

/**
 * Whether optional members can be in any order: otherwise, a model that starts with a later one could not write the
 * earlier ones. If there are too many, they are in the order of the list.
 */
export function isAnyOrder(members: readonly Pick<MemberRule, 'required'>[]): boolean {
  const { optional, required } = parts(members);
  return (required.length + 1) * 2 ** optional.length <= MAX_STATES;
}

/**
 * Returns the rule of a list of at least one member, each at most once, or null if there are none. The required ones are
 * in the order of the list, and those before the first optional one come first. `rest` is the rule of what can follow
 * the members, or replace them if none is required; null: nothing.
 */
export function memberList(
  rules: GrammarRules,
  members: readonly MemberRule[],
  separator: string,
  rest: string | null = null,
): string | null {
  const { leading, optional, required } = parts(members);
  const list = isAnyOrder(members)
    ? anyOrder(rules, required, optional, separator, rest)
    : inOrder(rules, members.slice(leading.length), separator, { list: rest, mayBeEmpty: true });
  return inOrder(rules, leading, separator, list).list;
}

/** A rule of at least one member, and whether there may be none instead. */
interface MemberList {
  list: string | null;
  mayBeEmpty: boolean;
}

function parts<Member extends Pick<MemberRule, 'required'>>(members: readonly Member[]) {
  const first = members.findIndex(({ required }) => !required);
  const leading = first === -1 ? members : members.slice(0, first);
  const others = members.slice(leading.length);
  return {
    /** The required members before the first optional one. */
    leading,
    required: others.filter(({ required }) => required),
    optional: others.filter(({ required }) => !required),
  };
}

function anyOrder(
  rules: GrammarRules,
  required: readonly MemberRule[],
  optional: readonly MemberRule[],
  separator: string,
  rest: string | null,
): MemberList {
  const mayBeEmpty = required.length === 0;
  const alternatives = optional.map((member, index) => {
    const list = anyOrder(rules, required, optional.toSpliced(index, 1), separator, rest);
    return followedBy(member, list, separator);
  });
  const [next, ...later] = required;
  if (next !== undefined)
    alternatives.push(followedBy(next, anyOrder(rules, later, optional, separator, rest), separator));
  else if (rest !== null) alternatives.push(rest);
  return { list: alternatives.length === 0 ? null : rules.share(alternatives.join(' | ')), mayBeEmpty };
}

function inOrder(
  rules: GrammarRules,
  members: readonly MemberRule[],
  separator: string,
  last: MemberList,
): MemberList {
  return members.toReversed().reduce((following, member) => {
    const one = followedBy(member, following, separator);
    const skipped = member.required || following.list === null ? '' : ` | ${following.list}`;
    return { list: rules.share(one + skipped), mayBeEmpty: following.mayBeEmpty && !member.required };
  }, last);
}

function followedBy({ expression }: MemberRule, { list, mayBeEmpty }: MemberList, separator: string): string {
  if (list === null) return expression;
  return `${expression} ${mayBeEmpty ? `(${separator} ${list})?` : `${separator} ${list}`}`;
}
