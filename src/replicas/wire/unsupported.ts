import { unsupportedFeature } from '../../core/features.ts';
import { numberValue } from '../../json/exact-json.ts';
import { toolsOf, type Dialect, type JsonSchema } from '../../core/generation.ts';
import type { ParsedRequest, Protocol } from '../../core/protocol.ts';
import { unsupported } from '../../json/values.ts';
import { JSON_TYPES, type JsonType, mapSchemas } from '../../json/json-schema.ts';

/**
 * Refuses a request with a feature, or a strict JSON schema, that a replica of the model does not support. `dialects` belong to
 * the model's replicas. Throws `unsupported_parameter` with the path of the field.
 */
export function refuseUnsupported(
  { generation: request, schemaPath }: Pick<ParsedRequest, 'generation' | 'schemaPath'>,
  dialects: readonly Dialect[],
  { paramOf }: Pick<Protocol, 'paramOf'>,
): void {
  const feature = unsupportedFeature(request, dialects);
  if (feature !== null) throw unsupported(paramOf(feature), 'is not supported by the engine of this model');
  for (const dialect of dialects) {
    const { responseFormat } = request;
    if (responseFormat.type === 'json_schema' && responseFormat.strict === true)
      refuseUnenforced(responseFormat.schema, schemaPath(null), dialect);
    for (const [index, { strict, parameters }] of toolsOf(request).entries())
      if (strict) refuseUnenforced(parameters, schemaPath(index), dialect);
  }
}

/**
 * Rules for schemas that servers do not enforce, tested with vLLM 0.32 and llama-server from November 2026 (`npm run
 * test:peers`). SGLang was not tested. It uses the same grammar library as vLLM, so vLLM's rules apply to it.
 */

/** A use of a keyword that a server does not enforce, or that causes a 5xx. */
interface Unenforced {
  keyword: string;
  why: string;
}

type Node = Readonly<Record<string, unknown>>;
type Rule = (node: Node) => Unenforced | null;

/** Refuses a schema that servers of this dialect do not enforce. Throws `unsupported_parameter` with the path of the keyword. */
function refuseUnenforced(schema: JsonSchema, path: string, dialect: Dialect): void {
  const server = SERVERS[dialect];
  if (server !== undefined && schema !== true) visit(schema, path, server);
}

interface ServerRules {
  name: string;
  rules: readonly Rule[];
  /** Whether it accepts `true` as a nested schema. */
  acceptsTrue: boolean;
}

function visit(value: unknown, path: string, server: ServerRules): void {
  if (value === true && !server.acceptsTrue) {
    throw unsupported(
      path,
      `is not supported by ${server.name}, which serves this model: use {} instead of true`,
    );
  }
  if (typeof value !== 'object' || value === null) return;
  const node = value as Node; // checkJsonSchema has checked that it is an object.
  for (const rule of server.rules) {
    const found = rule(node);
    if (found !== null) {
      const why = `is not enforced by ${server.name}, which serves this model: ${found.why}`;
      throw unsupported(`${path}.${found.keyword}`, why);
    }
  }
  // Every server accepts `additionalProperties: true`.
  const members = Object.entries(node).filter(
    ([keyword, member]) => keyword !== 'additionalProperties' || member !== true,
  );
  mapSchemas(members, path, (member, at) => visit(member, at, server));
}

const firstOf = (node: Node, keywords: readonly string[]): string | undefined =>
  keywords.find((keyword) => node[keyword] !== undefined);

/** checkJsonSchema has checked the types. */
const typesOf = (node: Node): readonly JsonType[] => [node['type'] ?? []].flat() as JsonType[];

const LENGTHS = ['minLength', 'maxLength'];
const BOUNDS = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'];
const COUNTS = ['minItems', 'maxItems'];

const literalsMatchType: Rule = (node) => {
  if (node['type'] === undefined) return null;
  const keyword = firstOf(node, ['enum', 'const']);
  if (keyword === undefined) return null;
  const values = keyword === 'const' ? [node['const']] : (node['enum'] as unknown[]); // checkJsonSchema has checked the type.
  const fits = (value: unknown) => typesOf(node).some((type) => JSON_TYPES[type](value));
  return values.every(fits) ? null : { keyword, why: 'it has a value that does not match `type`' };
};

const requiredAreDeclared: Rule = (node) => {
  const required = (node['required'] ?? []) as string[]; // checkJsonSchema has checked the type.
  const declared = node['properties'] ?? {};
  return required.every((name) => Object.hasOwn(declared, name))
    ? null
    : { keyword: 'required', why: 'it lists a property that is not in `properties`' };
};

const stringKeywordsNotCombined: Rule = (node) => {
  const keyword = firstOf(node, ['pattern', 'format']);
  if (keyword === undefined) return null;
  const other = firstOf(node, LENGTHS) ?? (keyword === 'pattern' ? firstOf(node, ['format']) : undefined);
  return other === undefined ? null : { keyword, why: `it is combined with \`${other}\`` };
};

const pattern =
  (allowed: readonly PatternFeature[]): Rule =>
  (node) => {
    if (typeof node['pattern'] !== 'string') return null;
    const feature = [...patternFeatures(node['pattern'])].find((found) => !allowed.includes(found));
    return feature === undefined ? null : { keyword: 'pattern', why: `it has ${feature}` };
  };

const format =
  (allowed: readonly string[]): Rule =>
  (node) => {
    if (typeof node['format'] !== 'string' || allowed.includes(node['format'])) return null;
    return {
      keyword: 'format',
      why: `only these are enforced: ${allowed.map((name) => `\`${name}\``).join(', ')}`,
    };
  };

const boundsAreExact: Rule = (node) => {
  const integer = typesOf(node).includes('integer');
  for (const keyword of BOUNDS) {
    const bound = numberValue(node[keyword]);
    if (typeof bound !== 'number') continue;
    if (integer && !Number.isInteger(bound))
      return { keyword, why: 'the bound of an integer must be a whole number' };
    if (Math.abs(bound) > Number.MAX_SAFE_INTEGER)
      return { keyword, why: 'its absolute value must be less than 2^53' };
  }
  return null;
};

/** Keywords that xgrammar ignores without `type`. */
const TYPED: readonly (readonly [JsonType, readonly string[]])[] = [
  ['string', [...LENGTHS, 'pattern', 'format']],
  ['number', BOUNDS],
  ['array', COUNTS],
  ['object', ['propertyNames']],
];

const typeIsPresent: Rule = (node) => {
  const types = typesOf(node);
  for (const [type, keywords] of TYPED) {
    const keyword = firstOf(node, keywords);
    if (keyword === undefined || types.includes(type) || (type === 'number' && types.includes('integer')))
      continue;
    // If `type` lists only other types, the keyword has no effect.
    if (types.length === 0) return { keyword, why: 'it requires `type`' };
  }
  return null;
};

const countsAreSatisfiable: Rule = (node) => {
  const tuple = Array.isArray(node['prefixItems']) ? node['prefixItems'].length : 0;
  const open = node['items'] !== undefined && node['items'] !== false;
  const [minItems, maxItems] = [numberValue(node['minItems']), numberValue(node['maxItems'])];
  if (!open && typeof minItems === 'number' && minItems > tuple) {
    return { keyword: 'minItems', why: 'it requires `items`' };
  }
  if (typeof maxItems === 'number' && maxItems < tuple) {
    return { keyword: 'maxItems', why: 'it is less than the number of `prefixItems`' };
  }
  return null;
};

const noPropertyNamesWithProperties: Rule = (node) =>
  node['propertyNames'] !== undefined && node['properties'] !== undefined
    ? { keyword: 'propertyNames', why: 'it is combined with `properties`' }
    : null;

const noEscapedReference: Rule = (node) =>
  typeof node['$ref'] === 'string' && node['$ref'].includes('~')
    ? { keyword: '$ref', why: 'the name contains an escaped character' }
    : null;

const noRootReference: Rule = (node) =>
  node['$ref'] === '#' ? { keyword: '$ref', why: 'it refers to the root' } : null;

const allOfHasOneSchema: Rule = (node) =>
  Array.isArray(node['allOf']) && node['allOf'].length > 1
    ? { keyword: 'allOf', why: 'it has more than one schema' }
    : null;

const noAllOf: Rule = (node) =>
  node['allOf'] === undefined ? null : { keyword: 'allOf', why: 'parts of its schemas are ignored' };

const noInclusiveAndExclusiveBound: Rule = (node) => {
  for (const [keyword, other] of [
    ['exclusiveMinimum', 'minimum'],
    ['exclusiveMaximum', 'maximum'],
  ] as const) {
    if (node[keyword] !== undefined && node[other] !== undefined) {
      return { keyword, why: `it is combined with \`${other}\`` };
    }
  }
  return null;
};

const countsRequireItems: Rule = (node) => {
  const keyword = firstOf(node, COUNTS);
  return keyword === undefined || node['items'] !== undefined
    ? null
    : { keyword, why: 'it requires `items`' };
};

const onlyIntegersHaveBounds: Rule = (node) => {
  const types = typesOf(node);
  const keyword = firstOf(node, BOUNDS);
  if (keyword === undefined || (types.length > 0 && !types.includes('number'))) return null;
  return { keyword, why: 'only `integer` can have bounds' };
};

const noPropertyNamesEnum: Rule = (node) => {
  const names = node['propertyNames'];
  return typeof names === 'object' && names !== null && 'enum' in names
    ? { keyword: 'propertyNames', why: 'its `enum` is ignored' }
    : null;
};

const prefixItemsNotCombined: Rule = (node) => {
  if (node['prefixItems'] === undefined) return null;
  const keyword = firstOf(node, ['items', ...COUNTS]);
  return keyword === undefined ? null : { keyword, why: 'it is combined with `prefixItems`' };
};

const SHARED: readonly Rule[] = [
  literalsMatchType,
  requiredAreDeclared,
  stringKeywordsNotCombined,
  boundsAreExact,
  noEscapedReference,
];

const XGRAMMAR: readonly Rule[] = [
  ...SHARED,
  typeIsPresent,
  allOfHasOneSchema,
  countsAreSatisfiable,
  noPropertyNamesWithProperties,
  format(['date', 'time', 'date-time', 'duration', 'email', 'uuid', 'ipv4', 'ipv6', 'hostname', 'uri']),
  pattern([
    'no anchors',
    'a class escape',
    'an escaped character',
    'a negated class',
    'a dot',
    'a lazy quantifier',
    'a named group',
  ]),
];

const SERVERS: Readonly<Partial<Record<Dialect, ServerRules>>> = {
  vllm: { name: 'vLLM', rules: XGRAMMAR, acceptsTrue: true },
  sglang: { name: 'SGLang', rules: XGRAMMAR, acceptsTrue: true },
  'llama-server': {
    name: 'llama-server',
    acceptsTrue: false,
    rules: [
      ...SHARED,
      noAllOf,
      noRootReference,
      onlyIntegersHaveBounds,
      noInclusiveAndExclusiveBound,
      noPropertyNamesEnum,
      prefixItemsNotCombined,
      countsRequireItems,
      format(['date', 'time', 'date-time', 'uuid']),
      pattern([]),
    ],
  },
};

/** A construct of regular expressions that some servers do not enforce. */
type PatternFeature =
  | 'no anchors'
  | 'an anchor in the middle'
  | 'a lookaround'
  | 'a back reference'
  | 'a word boundary'
  | 'a Unicode property'
  | 'a class escape'
  | 'an escaped character'
  | 'a quote, backslash or control character'
  | 'a negated class'
  | 'a dot'
  | 'a lazy quantifier'
  | 'a named group'
  | 'unsupported syntax';

const ESCAPE = String.raw`\\(?:x[\da-fA-F]{2}|u[\da-fA-F]{4}|u\{[\da-fA-F]{1,6}\}|.?)`;
/** A class, an escape, the start of a group, a quantifier, or a character. */
const PATTERN_TOKEN = new RegExp(
  String.raw`\[(?:\\.|[^\]\\])*\]?|${ESCAPE}|\((?:\?(?:<?[=!]|<[A-Za-z_]\w*>|.)?)?|(?:[*+?]|\{\d+(?:,\d*)?\})\??|.`,
  'gsu',
);
const CLASS_TOKEN = new RegExp(`${ESCAPE}|.`, 'gsu');

/** Finds the constructs of a `pattern` that not every server enforces. */
function patternFeatures(pattern: string): ReadonlySet<PatternFeature> {
  const found = new Set<PatternFeature | null>();
  const tokens = pattern.match(PATTERN_TOKEN) ?? [];
  if (tokens[0] !== '^' || tokens.at(-1) !== '$') found.add('no anchors');
  for (const [index, token] of tokens.entries()) {
    if (token.startsWith('[')) {
      const [, negation = '', members = ''] = /^\[(\^?)(.*?)\]?$/s.exec(token) ?? [];
      if (negation !== '') found.add('a negated class');
      if (members === '') found.add('unsupported syntax');
      for (const member of members.match(CLASS_TOKEN) ?? []) found.add(characterFeature(member, true));
    } else if (token === '^' || token === '$') {
      if (index !== (token === '^' ? 0 : tokens.length - 1)) found.add('an anchor in the middle');
    } else if (token.startsWith('(')) {
      if (/^\(\?<?[=!]/.test(token)) found.add('a lookaround');
      else if (/^\(\?<.*>/.test(token)) found.add('a named group');
      else if (token !== '(' && token !== '(?:') found.add('unsupported syntax');
    } else if (token === '.') found.add('a dot');
    else if (/^[*+?{].*\?$/s.test(token)) found.add('a lazy quantifier');
    else found.add(characterFeature(token, false));
  }
  if (!isExpression(pattern)) found.add('unsupported syntax');
  found.delete(null);
  return found as Set<PatternFeature>;
}

/** Returns the feature of a character or an escape; null: every server enforces it. */
function characterFeature(token: string, inClass: boolean): PatternFeature | null {
  const hex = /^\\[xu]\{?([\da-fA-F]+)\}?$/.exec(token)?.[1];
  const escaped = hex === undefined && token.startsWith('\\');
  const character = hex === undefined ? token.slice(escaped ? 1 : 0) : '';
  const code = hex === undefined ? character.codePointAt(0) : parseInt(hex, 16);
  if (escaped) {
    if (/^[dDwWsS]$/.test(character)) return 'a class escape';
    if (/^[pP]$/.test(character)) return 'a Unicode property';
    if (/^[bB]$/.test(character) && !inClass) return 'a word boundary';
    if (/^[1-9k]$/.test(character)) return 'a back reference';
    if (/^[bcfnrtv0]$/.test(character)) return 'a quote, backslash or control character';
    if (/^[a-zA-Z]?$/.test(character)) return 'unsupported syntax';
  }
  if (code === undefined || code < 0x20 || code === 0x22 || code === 0x5c)
    return 'a quote, backslash or control character';
  // Only escapes of special characters are supported everywhere.
  return escaped && !(inClass ? /[-\]]/ : /[-.*+?^$(){}|[\]]/).test(character)
    ? 'an escaped character'
    : null;
}

/** Whether JavaScript accepts a pattern, also with an escape that is not needed, such as `\-`, and `[\w-.]`. */
function isExpression(pattern: string): boolean {
  const strict = pattern
    .replaceAll(/\\([^A-Za-z0-9])/gsu, (_, escaped: string) => `\\u{${escaped.codePointAt(0)?.toString(16)}}`)
    .replaceAll(/(\\[dDwWsS])-/g, '$1\\x2d');
  try {
    return new RegExp(strict, 'u').unicode;
  } catch {
    return false;
  }
}
