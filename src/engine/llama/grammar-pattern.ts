import { refuseSchema } from './grammar-keywords.ts';
import { type GrammarRules, literal } from './grammar-rules.ts';
import { type CodePoints, parsePattern, type PatternNode } from './pattern-parser.ts';

/** Characters that a pattern may stand for with its counts written out: each may be a way to go on at every token. */
const MAX_POSITIONS = 500;

/**
 * The inside of a JSON string whose text matches a regular expression (see `pattern-parser.ts` for what of the
 * language is understood). As JSON Schema has it, the expression may match anywhere unless it is anchored.
 */
export function patternExpression(pattern: unknown, path: string, rules: GrammarRules): string {
  if (typeof pattern !== 'string') throw refuseSchema('invalid_type', path, "'pattern' is a string.");
  const ways = parsePattern(pattern, path);
  const positions = ways.reduce((sum, { node }) => sum + positionsOf(node), 0);
  if (positions > MAX_POSITIONS) {
    const message = `With its counts written out the pattern has ${positions} characters; ${MAX_POSITIONS} are supported.`;
    throw refuseSchema('invalid_value', path, message);
  }
  const expressions = ways.map(({ node, fromStart, toEnd }) =>
    [fromStart ? '' : 'char*', expressionOf(node, path, rules), toEnd ? '' : 'char*'].join(' ').trim(),
  );
  return rules.share(expressions.map((expression) => expression || '""').join(' | '));
}

function expressionOf(node: PatternNode, path: string, rules: GrammarRules): string {
  switch (node.kind) {
    case 'set':
      return setRule(node.points, path, rules);
    case 'sequence':
      return node.nodes.map((part) => expressionOf(part, path, rules)).join(' ') || '""';
    case 'choice':
      return rules.share(node.nodes.map((part) => expressionOf(part, path, rules)).join(' | '));
    default: {
      if (mayBeEmpty(node.node)) {
        throw refuseSchema('unsupported_parameter', path, 'A pattern cannot repeat what may be empty.');
      }
      const repeated = rules.share(expressionOf(node.node, path, rules));
      return rules.repeat(repeated, node.min, node.max) || '""';
    }
  }
}

/** One character of the set as it stands in JSON: itself, or escaped where JSON asks for it. */
function setRule(points: CodePoints, path: string, rules: GrammarRules): string {
  const plain = NEEDS_ESCAPE.reduce<CodePoints>((left, hole) => without(left, hole), points);
  const ways: string[] = [];
  if (plain.length > 0)
    ways.push(`[${plain.map(([from, to]) => `${inClass(from)}-${inClass(to)}`).join('')}]`);
  for (const character of ['"', '\\']) if (has(points, character)) ways.push(escaped(character));
  // A control character is written only where nothing else is meant; sets such as [^x] do not need them.
  if (ways.length === 0) {
    for (let code = 0; code < 0x20; code += 1) {
      const character = String.fromCharCode(code);
      if (has(points, character)) ways.push(escaped(character));
    }
  }
  if (ways.length === 0)
    throw refuseSchema('invalid_value', path, 'The pattern asks for a character that cannot be.');
  return rules.share(ways.join(' | '));
}

function escaped(character: string): string {
  return literal(JSON.stringify(character).slice(1, -1));
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

function has(points: CodePoints, character: string): boolean {
  const code = character.codePointAt(0) ?? 0;
  return points.some(([from, to]) => from <= code && code <= to);
}

function inClass(code: number): string {
  return `\\U${code.toString(16).padStart(8, '0')}`;
}

function mayBeEmpty(node: PatternNode): boolean {
  switch (node.kind) {
    case 'set':
      return false;
    case 'sequence':
      return node.nodes.every(mayBeEmpty);
    case 'choice':
      return node.nodes.some(mayBeEmpty);
    default:
      return node.min === 0 || mayBeEmpty(node.node);
  }
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
