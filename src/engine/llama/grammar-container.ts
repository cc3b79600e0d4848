import type { JsonSchema } from '../../generation.ts';
import { MAX_BRANCHES, unsatisfiable, schemaError, type SchemaObject } from './grammar-keywords.ts';
import { memberList } from './grammar-members.ts';
import { type GrammarRules, inClass, literal } from './grammar-rules.ts';

/** Creates the rules of a container's members. */
export interface MemberRules {
  readonly rules: GrammarRules;
  /** Returns the name of the rule for a schema, or null if no value can match. */
  rule(schema: JsonSchema, path: string): string | null;
}

export interface ContainerRule {
  expression: string;
  /** See `Container`. */
  width: number;
}

/** Returns the rule of an object: its properties in the order of `memberList`, then additional ones. */
export function objectRule(schema: SchemaObject, path: string, grammar: MemberRules): ContainerRule {
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
export function arrayRule(schema: SchemaObject, path: string, grammar: MemberRules): ContainerRule {
  return { expression: arrayExpression(schema, path, grammar), width: ARRAY_WIDTH };
}

/** The ways in which an array can continue: two forms of white space, a value and the end. */
const ARRAY_WIDTH = 4;

function arrayExpression(schema: SchemaObject, path: string, grammar: MemberRules): string {
  const prefix = prefixRules(schema, path, grammar);
  const {
    items = schema['prefixItems'] === undefined,
    minItems: min = 0,
    maxItems = null,
  } = schema as { items?: JsonSchema; minItems?: number; maxItems?: number };
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

function membersOf(schema: SchemaObject, path: string, grammar: MemberRules): Member[] {
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
  grammar: MemberRules,
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
function nameOtherThan(names: readonly string[], grammar: MemberRules): string {
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

function prefixRules(schema: SchemaObject, path: string, grammar: MemberRules): string[] {
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
