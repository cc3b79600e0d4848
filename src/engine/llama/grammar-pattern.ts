import { contains } from './grammar-automaton.ts';
import { schemaError } from './grammar-keywords.ts';
import { type CodePoints, parsePattern, type PatternNode } from './pattern-parser.ts';

/** Maximum length of a pattern with its repetitions expanded, in characters. */
const MAX_PATTERN_LENGTH = 2000;

/**
 * Returns an expression for the JSON strings that match a regular expression, including quotes. Without anchors, the
 * regular expression can match anywhere in the string. `raw`: the strings have no quotes, no escapes and no `<`.
 */
export function patternNode(pattern: string, path: string, raw = false): PatternNode {
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

/** Any raw text. */
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
  const plain = NEEDS_ESCAPE.reduce<CodePoints>((left, range) => without(left, range), points);
  const nodes: PatternNode[] = plain.length > 0 ? [{ kind: 'set', points: plain }] : [];
  for (const quoted of ['"', '\\'])
    if (contains(points, quoted.charCodeAt(0))) nodes.push(literalNode(escaped(quoted)));
  // Sets such as [^x] include control characters unintentionally. Allow them only in sets that contain nothing else.
  if (nodes.length === 0) {
    for (let code = 0; code < 0x20; code += 1)
      if (contains(points, code)) nodes.push(literalNode(escaped(String.fromCharCode(code))));
  }
  if (nodes.length === 0)
    throw schemaError('invalid_value', path, 'The pattern requires a character that cannot occur.');
  return { kind: 'choice', nodes };
}

/** Returns an expression for one character of the set in raw text. */
function rawSet(points: CodePoints, path: string): PatternNode {
  const allowed = NOT_RAW.reduce<CodePoints>((left, range) => without(left, range), points);
  if (allowed.length === 0) {
    const message = "The pattern requires `<`, which this model's call format cannot enforce in strings.";
    throw schemaError('unsupported_parameter', path, message);
  }
  return { kind: 'set', points: allowed };
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Control characters, quotes, backslashes, and surrogates, which are not characters. */
const NEEDS_ESCAPE: readonly (readonly [number, number])[] = [
  [0x00, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
  [0xd800, 0xdfff],
];

/** The start of a tag, and surrogates. */
const NOT_RAW: readonly (readonly [number, number])[] = [
  [0x3c, 0x3c],
  [0xd800, 0xdfff],
];

function without(points: CodePoints, [low, high]: readonly [number, number]): CodePoints {
  return points.flatMap(([from, to]): CodePoints => {
    if (to < low || from > high) return [[from, to]];
    return [
      ...(from < low ? [[from, low - 1] as const] : []),
      ...(to > high ? [[high + 1, to] as const] : []),
    ];
  });
}

function expandedLength(node: PatternNode): number {
  switch (node.kind) {
    case 'set':
      return 1;
    case 'sequence':
    case 'choice':
      return node.nodes.reduce((sum, part) => sum + expandedLength(part), 0);
    default:
      return expandedLength(node.node) * Math.max(node.max ?? node.min + 1, 1);
  }
}
