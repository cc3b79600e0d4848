import { escapeJson } from '../../../json/values.ts';
import { type CodePoints, contains, without } from './code-points.ts';
import {
  type GrammarRules,
  numberIn,
  schemaError,
  type SchemaObject,
  unsatisfiable,
} from './grammar-rules.ts';
import { parsePattern, type PatternNode } from './pattern-parser.ts';

/**
 * Returns an expression if the schema has a `format` or `pattern`, otherwise the name of a rule. `raw`: the string is
 * written without quotes and escapes, and without `<`, so that it cannot contain a tag.
 */
export function stringForm(
  schema: SchemaObject,
  path: string,
  rules: GrammarRules,
  raw = false,
): PatternNode | string {
  const { format, pattern } = schema;
  const minLength = numberIn(schema, 'minLength');
  const maxLength = numberIn(schema, 'maxLength');
  const kinds = [format, pattern, minLength ?? maxLength].filter((kind) => kind !== undefined);
  if (kinds.length === 0) return 'string';
  if (kinds.length > 1) {
    const message = '`format`, `pattern` and length bounds cannot be combined on one string.';
    throw schemaError('unsupported_parameter', path, message);
  }
  if (format !== undefined) return formatNode(format, `${path}.format`, raw ? '' : '"');
  if (pattern !== undefined) return patternNode(pattern as string, `${path}.pattern`, raw);
  if (raw) return rules.share(`"" ${rules.repeat(rules.share('[^<]'), minLength ?? 0, maxLength ?? null)}`);
  return rules.share(String.raw`"\"" ${rules.repeat('c', minLength ?? 0, maxLength ?? null)} "\""`);
}

function formatNode(format: unknown, path: string, quote: string): PatternNode {
  switch (format) {
    case 'date':
      return regexNode(`${quote}(?:${DATE})${quote}`);
    case 'time':
      return regexNode(`${quote}${TIME}${quote}`);
    case 'date-time':
      return regexNode(`${quote}(?:${DATE})T${TIME}${quote}`);
    case 'uuid':
      return regexNode(`${quote}[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}${quote}`);
    default:
      throw schemaError('unsupported_parameter', path, '`format` must be date, time, date-time or uuid.');
  }
}

/** RFC 3339 dates, with February 29 only in leap years. */
const DATE = [
  '[0-9]{4}-(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])',
  '[0-9]{4}-(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)',
  '[0-9]{4}-02-(?:0[1-9]|1[0-9]|2[0-8])',
  '[0-9]{2}(?:0[48]|[2468][048]|[13579][26])-02-29',
  '(?:[02468][048]|[13579][26])00-02-29',
].join('|');

/** RFC 3339 times, without leap seconds. */
const TIME =
  '(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])';

/** Maximum length of a pattern with its repetitions expanded, in characters. */
const MAX_PATTERN_LENGTH = 2000;

/**
 * Returns an expression for the JSON strings that match a regular expression, including quotes. Without anchors, the
 * regular expression can match anywhere in the string. `raw`: the strings have no quotes, no escapes and no `<`.
 */
function patternNode(pattern: string, path: string, raw = false): PatternNode {
  const alternatives = parsePattern(pattern, path);
  const length = alternatives.reduce((sum, { node }) => sum + expandedLength(node), 0);
  if (length > MAX_PATTERN_LENGTH) {
    const message = `With its repetitions expanded, the pattern has ${length} characters; at most ${MAX_PATTERN_LENGTH} are supported.`;
    throw schemaError('invalid_value', path, message);
  }
  const encode = raw ? rawSet : escapedSet;
  const anyText = raw ? ANY_RAW_TEXT : ANY_TEXT;
  const quotes = raw ? [] : [QUOTE];
  const cache = new Map<CodePoints, PatternNode>();
  const nodes = alternatives.map(({ node, fromStart, toEnd }): PatternNode => {
    const text = encodeSets(node, (points) => encode(points, path), cache);
    return {
      kind: 'sequence',
      nodes: [...quotes, ...(fromStart ? [] : [anyText]), text, ...(toEnd ? [] : [anyText]), ...quotes],
    };
  });
  return { kind: 'choice', nodes };
}

/** Parses one of our own regular expressions, which describe output text, including quotes and escapes. */
export function regexNode(expression: string): PatternNode {
  return { kind: 'choice', nodes: parsePattern(expression, '').map(({ node }) => node) };
}

export function literalNode(text: string): PatternNode {
  return { kind: 'sequence', nodes: Array.from(text, character) };
}

function character(text: string): PatternNode {
  const code = text.codePointAt(0) ?? 0;
  return { kind: 'set', points: [[code, code]] };
}

const QUOTE = character('"');

/** The content of any JSON string. Escaped surrogates occur only in pairs. */
const ANY_TEXT = regexNode(
  [
    String.raw`(?:[^"\\\x00-\x1F\uD800-\uDFFF]|\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}`,
    String.raw`|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))*`,
  ].join(''),
);

const ANY_RAW_TEXT = regexNode(String.raw`[^<\uD800-\uDFFF]*`);

/** Replaces each set of characters with an expression for the encodings of these characters. */
function encodeSets(
  node: PatternNode,
  encode: (points: CodePoints) => PatternNode,
  cache: Map<CodePoints, PatternNode>,
): PatternNode {
  switch (node.kind) {
    case 'set': {
      const known = cache.get(node.points) ?? encode(node.points);
      cache.set(node.points, known);
      return known;
    }
    case 'repeat':
      return { ...node, node: encodeSets(node.node, encode, cache) };
    default:
      return { ...node, nodes: node.nodes.map((part) => encodeSets(part, encode, cache)) };
  }
}

/** Returns an expression for the JSON encodings of one character of the set. */
function escapedSet(points: CodePoints, path: string): PatternNode {
  const plain = without(points, NEEDS_ESCAPE);
  const nodes: PatternNode[] = plain.length > 0 ? [{ kind: 'set', points: plain }] : [];
  for (const quoted of ['"', '\\'])
    if (contains(points, quoted.charCodeAt(0))) nodes.push(literalNode(escapeJson(quoted)));
  // Sets such as [^x] include control characters unintentionally. Allow them only in sets that contain nothing else.
  if (nodes.length === 0) {
    for (let code = 0; code < 0x20; code += 1)
      if (contains(points, code)) nodes.push(literalNode(escapeJson(String.fromCharCode(code))));
  }
  if (nodes.length === 0)
    throw schemaError('invalid_value', path, 'The pattern requires a character that cannot occur.');
  return { kind: 'choice', nodes };
}

/** Returns an expression for one character of the set in raw text. */
function rawSet(points: CodePoints, path: string): PatternNode {
  const allowed = without(points, NOT_RAW);
  if (allowed.length === 0) {
    const message = "The pattern requires `<`, which this model's call format cannot enforce in strings.";
    throw schemaError('unsupported_parameter', path, message);
  }
  return { kind: 'set', points: allowed };
}

/** Control characters, quotes, backslashes, and surrogates, which are not characters. */
const NEEDS_ESCAPE: CodePoints = [
  [0x00, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0xd800, 0xdfff],
];

/** The start of a tag, and surrogates. */
const NOT_RAW: CodePoints = [
  [0x3c, 0x3c],
  [0xd800, 0xdfff],
];

function expandedLength(node: PatternNode): number {
  switch (node.kind) {
    case 'set':
      return 1;
    case 'sequence':
    case 'choice':
      return node.nodes.reduce((sum, part) => sum + expandedLength(part), 0);
    default:
      return expandedLength(node.node) * Math.max(node.max === Infinity ? node.min + 1 : node.max, 1);
  }
}

/**
 * Returns a regular expression for the numbers within `minimum`, `maximum`, `exclusiveMinimum` and `exclusiveMaximum`,
 * without exponents. Returns null if there are no bounds. The bounds of a `number` must be whole; those of an `integer`
 * may have fractions.
 */
export function numberExpression(
  type: 'integer' | 'number',
  schema: SchemaObject,
  path: string,
): string | null {
  const lower = tightest(schema, 'minimum', 'exclusiveMinimum');
  const upper = tightest(schema, 'maximum', 'exclusiveMaximum');
  if (lower === null && upper === null) return null;
  const expressions =
    type === 'integer' ? integerExpressions(lower, upper) : numberExpressions(lower, upper, path);
  if (expressions.length === 0) throw unsatisfiable(path);
  return expressions.join('|');
}

interface Bound {
  value: number;
  exclusive: boolean;
}

/** Returns the stricter of an inclusive and an exclusive bound, or null if neither exists. */
function tightest(
  schema: SchemaObject,
  inclusive: 'minimum' | 'maximum',
  exclusive: 'exclusiveMinimum' | 'exclusiveMaximum',
): Bound | null {
  const loose = numberIn(schema, inclusive);
  const strict = numberIn(schema, exclusive);
  if (strict === undefined) return loose === undefined ? null : { value: loose, exclusive: false };
  const looseIsTighter = loose !== undefined && (inclusive === 'minimum' ? loose > strict : loose < strict);
  return looseIsTighter ? { value: loose, exclusive: false } : { value: strict, exclusive: true };
}

function integerExpressions(lower: Bound | null, upper: Bound | null): string[] {
  const limit = Number.MAX_SAFE_INTEGER;
  const from =
    lower === null ? -limit : lower.exclusive ? Math.floor(lower.value) + 1 : Math.ceil(lower.value);
  const to = upper === null ? limit : upper.exclusive ? Math.ceil(upper.value) - 1 : Math.floor(upper.value);
  const low = Math.max(from, -limit);
  const high = Math.min(to, limit);
  return [
    ...wholeNumbers(Math.max(1, -high), -low).map((expression) => `-${expression}`),
    ...wholeNumbers(Math.max(0, low), high),
  ];
}

/** Numbers have at most 15 digits before the decimal point. */
const NUMBER_LIMIT = 1e15;

function numberExpressions(lower: Bound | null, upper: Bound | null, path: string): string[] {
  for (const bound of [lower, upper]) {
    if (bound !== null && !Number.isInteger(bound.value)) {
      throw schemaError(
        'unsupported_parameter',
        path,
        '`minimum`, `maximum`, `exclusiveMinimum` and `exclusiveMaximum` of a `number` must be whole numbers.',
      );
    }
  }
  const low = lower ?? { value: -NUMBER_LIMIT, exclusive: true };
  const high = upper ?? { value: NUMBER_LIMIT, exclusive: true };
  const negative = low.value < 0 ? magnitudes(negated(high), negated(low)) : [];
  return [...negative.map((expression) => `-${expression}`), ...magnitudes(low, high)];
}

function negated({ value, exclusive }: Bound): Bound {
  return { value: -value, exclusive };
}

/** Returns expressions for the non-negative numbers between two whole bounds. */
function magnitudes(low: Bound, high: Bound): string[] {
  const from = low.value < 0 ? { value: 0, exclusive: false } : low;
  const to = high.value > NUMBER_LIMIT ? { value: NUMBER_LIMIT, exclusive: true } : high;
  const expressions: string[] = [];
  if (from.exclusive && from.value < to.value) expressions.push(`${from.value}\\.[0-9]{0,14}[1-9]`);
  const whole = wholeNumbers(from.exclusive ? from.value + 1 : from.value, to.value - 1);
  expressions.push(...whole.map((expression) => `${expression}(?:\\.[0-9]{1,15})?`));
  const reaches = from.value < to.value || (from.value === to.value && !from.exclusive);
  if (!to.exclusive && reaches) expressions.push(`${to.value}(?:\\.0{1,15})?`);
  return expressions;
}

/** Returns expressions for the whole numbers from `low` (0 or more) to `high`, one for each number of digits. */
function wholeNumbers(low: number, high: number): string[] {
  const expressions: string[] = [];
  const last = String(high);
  for (let first = String(low); Number(first) <= high; first = `1${'0'.repeat(first.length)}`) {
    expressions.push(digitsBetween(first, first.length < last.length ? '9'.repeat(first.length) : last));
  }
  return expressions;
}

/** Returns an expression for the digit strings from `first` to `last`, which have the same length. */
function digitsBetween(first: string, last: string): string {
  const count = first.length - 1;
  const [low, high] = [Number(first[0]), Number(last[0])];
  if (count === 0) return digit(low, high);
  const [firstRest, lastRest] = [first.slice(1), last.slice(1)];
  const [zeros, nines] = ['0'.repeat(count), '9'.repeat(count)];
  if (low === high) return `${low}${digitsBetween(firstRest, lastRest)}`;
  const expressions: string[] = [];
  const from = firstRest === zeros ? low : low + 1;
  const to = lastRest === nines ? high : high - 1;
  if (from > low) expressions.push(`${low}${digitsBetween(firstRest, nines)}`);
  if (from <= to) expressions.push(`${digit(from, to)}[0-9]{${count}}`);
  if (to < high) expressions.push(`${high}${digitsBetween(zeros, lastRest)}`);
  return expressions.length === 1 ? expressions.join('') : `(?:${expressions.join('|')})`;
}

function digit(low: number, high: number): string {
  return low === high ? String(low) : `[${low}-${high}]`;
}
