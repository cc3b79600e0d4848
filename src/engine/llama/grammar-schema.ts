import type { JsonSchema } from '../../generation.ts';
import { automatonRule, determinize } from './grammar-automaton.ts';
import { arrayRule, objectRule } from './grammar-container.ts';
import { JSON_TYPES, type JsonType, KNOWN_KEYWORDS, parseReference } from '../../openai/json-schema.ts';
import {
  COMBINING_KEYWORDS,
  KEYWORDS_OF_TYPE,
  MAX_BRANCHES,
  unsatisfiable,
  schemaError,
  type SchemaObject,
} from './grammar-keywords.ts';
import { numberExpression } from './grammar-number.ts';
import { literalNode, regexNode } from './grammar-pattern.ts';
import type { GrammarRules } from './grammar-rules.ts';
import { stringForm } from './grammar-string.ts';
import {
  automatonWork,
  type Container,
  MAX_WORK,
  type SchemaPosition,
  checkWork,
  SCALAR_WORK,
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

  constructor(schema: JsonSchema, path: string, rules: GrammarRules, tokens: TokenSample) {
    this.#schema = schema;
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
