import {
  bound,
  MAX_BRANCHES,
  nothingMatches,
  refuseSchema,
  schemaList,
  schemaObject,
  type SchemaObject,
} from './grammar-keywords.ts';
import { type GrammarRules, literal } from './grammar-rules.ts';

/** Where the rules of a container's members come from. */
export interface MemberRules {
  readonly rules: GrammarRules;
  /** The name of the rule for a schema at `path`; null where nothing can match it. */
  rule(schema: unknown, path: string): string | null;
}

/** A container as an expression of the grammar. */
export interface ContainerRule {
  expression: string;
  /** See `Container`. */
  width: number;
}

/**
 * Objects: the properties in the order of the schema, those not required left out at will, then the extras. One rule
 * a property says what may follow from there, so the grammar is as long as the list.
 */
export function objectRule(schema: SchemaObject, path: string, grammar: MemberRules): ContainerRule {
  const members = membersOf(schema, path, grammar);
  const extra = extraMember(schema, path, members, grammar);
  let rest = extra === null ? null : grammar.rules.share(`${extra} ("," ws ${extra})*`);
  let mayEnd = true;
  for (const { name, rule, required } of members.toReversed()) {
    const member = `${literal(JSON.stringify(name))} ":" sp ${rule}`;
    const alone = rest === null ? member : `${member} ${mayEnd ? `("," ws ${rest})?` : `"," ws ${rest}`}`;
    rest = grammar.rules.share(required || rest === null ? alone : `${alone} | ${rest}`);
    if (required) mayEnd = false;
  }
  if (rest === null) return { expression: '"{}"', width: 1 };
  const expression = `"{" ws ${rest} ws "}"${mayEnd ? ' | "{}"' : ''}`;
  return { expression, width: objectWidth(members, extra !== null) };
}

/** The longest run of properties any of which may be next, with the one after it, the white space and the end. */
function objectWidth(members: readonly Member[], extra: boolean): number {
  let longest = 0;
  let run = 0;
  for (const { required } of members) {
    run += 1;
    longest = Math.max(longest, run);
    if (required) run = 0;
  }
  return Math.max(longest, run + (extra ? 1 : 0)) + (run === 0 ? 2 : 3);
}

/** Arrays: `prefixItems` in order, then `items`, from `minItems` to `maxItems` in all. */
export function arrayRule(schema: SchemaObject, path: string, grammar: MemberRules): ContainerRule {
  return { expression: arrayExpression(schema, path, grammar), width: ARRAY_WIDTH };
}

/** White space in two ways, a value or the end. */
const ARRAY_WIDTH = 4;

function arrayExpression(schema: SchemaObject, path: string, grammar: MemberRules): string {
  const prefix = prefixRules(schema, path, grammar);
  const item = grammar.rule(schema['items'] ?? schema['prefixItems'] === undefined, `${path}.items`);
  const min = bound(schema['minItems'], `${path}.minItems`) ?? 0;
  const asked = bound(schema['maxItems'], `${path}.maxItems`);
  const max = item === null ? Math.min(asked ?? prefix.length, prefix.length) : asked;
  if (max !== null && max < min) throw nothingMatches(path);

  // The first item stands without a comma, so it is written as those of `prefixItems` are.
  const single = prefix.length === 0 && item !== null ? [item] : prefix;
  const written = max === null ? single : single.slice(0, max);
  let rest = '';
  if (item !== null && (max === null || max > written.length)) {
    const more = grammar.rules.share(`"," ws ${item}`);
    const fewest = Math.max(0, min - written.length);
    rest = grammar.rules.repeat(more, fewest, max === null ? null : max - written.length);
  }
  for (const [index, rule] of [...written.entries()].toReversed()) {
    if (index === 0) return `"[" ws ${rule} ${rest} ws "]"${min === 0 ? ' | "[]"' : ''}`;
    const element = grammar.rules.share(`"," ws ${rule} ${rest}`);
    rest = index < min ? element : `${element}?`;
  }
  return '"[]"';
}

/** UTF-16 code units. */
const LONGEST_NAME = 256;

interface Member {
  name: string;
  rule: string;
  required: boolean;
}

function membersOf(schema: SchemaObject, path: string, grammar: MemberRules): Member[] {
  const properties = schemaObject(schema['properties'] ?? {}, `${path}.properties`);
  const required = nameList(schema['required'] ?? [], `${path}.required`);
  const allowed = allowedNames(schema, path);
  const declared = Object.entries(properties).map(([name, value]) => ({
    name,
    schema: value,
    at: `${path}.properties.${name}`,
  }));
  // A name that is required and not declared is an extra that must be there; one of an enumeration may be.
  const extras = [...new Set([...(allowed ?? []), ...required])]
    .filter((name) => !Object.hasOwn(properties, name))
    .map((name) => ({
      name,
      schema: required.has(name) ? (schema['additionalProperties'] ?? true) : extraSchema(schema),
      at: `${path}.required`,
    }));
  const all = [...declared, ...extras];
  if (all.length > MAX_BRANCHES) {
    const message = `An object can have at most ${MAX_BRANCHES} properties here.`;
    throw refuseSchema('invalid_value', `${path}.properties`, message);
  }
  return all.flatMap(({ name, schema, at }) => {
    if (name.length > LONGEST_NAME) {
      throw refuseSchema(
        'invalid_value',
        at,
        `A property name can have at most ${LONGEST_NAME} characters here.`,
      );
    }
    const rule = allowed !== null && !allowed.has(name) ? null : grammar.rule(schema, at);
    if (rule !== null) return [{ name, rule, required: required.has(name) }];
    if (required.has(name)) throw nothingMatches(at);
    return [];
  });
}

/** The rule of a property that the schema does not name; null where there can be none. */
function extraMember(
  schema: SchemaObject,
  path: string,
  members: readonly Member[],
  grammar: MemberRules,
): string | null {
  // Those of an enumeration are members already.
  if (allowedNames(schema, path) !== null) return null;
  const rule = grammar.rule(extraSchema(schema), `${path}.additionalProperties`);
  if (rule === null) return null;
  const declared = Object.keys(schemaObject(schema['properties'] ?? {}, `${path}.properties`));
  const names = new Set([...declared, ...members.map(({ name }) => name)]);
  const key = names.size === 0 ? 'string' : nameOtherThan([...names], grammar);
  return grammar.rules.share(`${key} ":" sp ${rule}`);
}

/**
 * A string that is none of `names`: else an extra could overwrite a property that was checked. It has no escapes,
 * with which a name could be spelled in other ways.
 */
function nameOtherThan(names: readonly string[], grammar: MemberRules): string {
  const unlike = (rests: readonly string[]): string => {
    const byFirst = Map.groupBy(
      rests.filter((rest) => rest !== ''),
      (rest) => String.fromCodePoint(rest.codePointAt(0) ?? 0),
    );
    const ways = [`[^"\\\\\\x00-\\x1F${[...byFirst.keys()].map(inClass).join('')}] plain*`];
    for (const [first, group] of byFirst) {
      // A name with a character that needs an escape cannot be spelled here at all.
      if (JSON.stringify(first) !== `"${first}"`) continue;
      ways.push(`${literal(first)} ${unlike(group.map((rest) => rest.slice(first.length)))}`);
    }
    const name = grammar.rules.share(ways.join(' | '));
    return rests.includes('') ? name : `${name}?`;
  };
  return grammar.rules.share(`"\\"" ${unlike(names)} "\\""`);
}

function inClass(character: string): string {
  const code = character.codePointAt(0) ?? 0;
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

function prefixRules(schema: SchemaObject, path: string, grammar: MemberRules): string[] {
  if (schema['prefixItems'] === undefined) return [];
  const schemas = schemaList(schema['prefixItems'], `${path}.prefixItems`);
  const rules: string[] = [];
  for (const [index, member] of schemas.entries()) {
    const rule = grammar.rule(member, `${path}.prefixItems[${index}]`);
    if (rule === null) throw nothingMatches(`${path}.prefixItems[${index}]`);
    rules.push(rule);
  }
  return rules;
}

/** Of a property that the schema does not name. */
function extraSchema(schema: SchemaObject): unknown {
  return schema['additionalProperties'] ?? schema['properties'] === undefined;
}

/** The names that properties may have at most; null: any. */
function allowedNames(schema: SchemaObject, path: string): Set<string> | null {
  const names = schema['propertyNames'];
  if (names === undefined || names === true) return null;
  const listed = schemaObject(names, `${path}.propertyNames`)['enum'];
  return listed === undefined ? null : nameList(listed, `${path}.propertyNames.enum`);
}

function nameList(value: unknown, path: string): Set<string> {
  if (Array.isArray(value) && value.every((name) => typeof name === 'string')) return new Set(value);
  throw refuseSchema('invalid_type', path, 'The value must be a list of names.');
}
