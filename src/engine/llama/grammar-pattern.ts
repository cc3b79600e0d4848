import { contains } from './grammar-automaton.ts';
import { refuseSchema } from './grammar-keywords.ts';
import { type CodePoints, parsePattern, type PatternNode } from './pattern-parser.ts';

/** The maximum length of a pattern in characters, with its repetitions written out. */
const MAX_POSITIONS = 2000;

/**
 * The JSON strings, quotes included, whose text matches a regular expression (see `pattern-parser.ts` for the
 * supported part of the language). As JSON Schema has it, the expression may match anywhere unless it is anchored.
 */
export function patternText(pattern: unknown, path: string): PatternNode {
  if (typeof pattern !== 'string') throw refuseSchema('invalid_type', path, '`pattern` must be a string.');
  const ways = parsePattern(pattern, path);
  const positions = ways.reduce((sum, { node }) => sum + positionsOf(node), 0);
  if (positions > MAX_POSITIONS) {
    const message = `With its repetitions expanded, the pattern has ${positions} characters; at most ${MAX_POSITIONS} are supported.`;
    throw refuseSchema('invalid_value', path, message);
  }
  const written = new Map<CodePoints, PatternNode>();
  const nodes = ways.map(({ node, fromStart, toEnd }): PatternNode => {
    const text = inJson(node, path, written);
    return {
      kind: 'sequence',
      nodes: [QUOTE, ...(fromStart ? [] : [ANYTHING]), text, ...(toEnd ? [] : [ANYTHING]), QUOTE],
    };
  });
  return { kind: 'choice', nodes };
}

/** JSON text by a regular expression of this program's own. */
export function regularText(expression: string): PatternNode {
  return { kind: 'choice', nodes: parsePattern(expression, '').map(({ node }) => node) };
}

/** Exactly this text. */
export function literalText(text: string): PatternNode {
  return { kind: 'sequence', nodes: Array.from(text, character) };
}

function character(text: string): PatternNode {
  const code = text.codePointAt(0) ?? 0;
  return { kind: 'set', points: [[code, code]] };
}

const QUOTE = character('"');

/** Whatever a JSON string may hold; an escaped surrogate comes with its other half. */
const ANYTHING = regularText(
  [
    String.raw`(?:[^"\\\x00-\x1F\uD800-\uDFFF]|\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}`,
    String.raw`|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))*`,
  ].join(''),
);

/** The expression over the characters of a JSON string. `written` holds the sets that were met before. */
function inJson(node: PatternNode, path: string, written: Map<CodePoints, PatternNode>): PatternNode {
  switch (node.kind) {
    case 'set': {
      const known = written.get(node.points) ?? writtenSet(node.points, path);
      written.set(node.points, known);
      return known;
    }
    case 'repeat':
      return { ...node, node: inJson(node.node, path, written) };
    default:
      return { ...node, nodes: node.nodes.map((part) => inJson(part, path, written)) };
  }
}

/** One character of the set as it is written in JSON: itself, or escaped where JSON requires it. */
function writtenSet(points: CodePoints, path: string): PatternNode {
  const plain = NEEDS_ESCAPE.reduce<CodePoints>((left, hole) => without(left, hole), points);
  const nodes: PatternNode[] = plain.length > 0 ? [{ kind: 'set', points: plain }] : [];
  for (const quoted of ['"', '\\'])
    if (contains(points, quoted.charCodeAt(0))) nodes.push(literalText(escaped(quoted)));
  // A control character is written only where nothing else is meant; sets such as [^x] do not need them.
  if (nodes.length === 0) {
    for (let code = 0; code < 0x20; code += 1)
      if (contains(points, code)) nodes.push(literalText(escaped(String.fromCharCode(code))));
  }
  if (nodes.length === 0)
    throw refuseSchema('invalid_value', path, 'The pattern requires a character that cannot occur.');
  return { kind: 'choice', nodes };
}

function escaped(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}

/** Quotes, backslashes, control characters, and surrogates, which are no characters. */
const NEEDS_ESCAPE: readonly (readonly [number, number])[] = [
  [0x00, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
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

function positionsOf(node: PatternNode): number {
  switch (node.kind) {
    case 'set':
      return 1;
    case 'sequence':
    case 'choice':
      return node.nodes.reduce((sum, part) => sum + positionsOf(part), 0);
    default:
      return positionsOf(node.node) * Math.max(node.max ?? node.min + 1, 1);
  }
}
