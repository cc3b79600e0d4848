import { type AST, RegExpParser } from '@eslint-community/regexpp';
import { type CodePoints, complement, unionOf } from './code-points.ts';
import { schemaError } from './grammar-rules.ts';

/** The syntax tree of a regular expression. `max` is `Infinity` for unbounded repetitions. */
export type PatternNode =
  | { kind: 'set'; points: CodePoints }
  | { kind: 'sequence'; nodes: readonly PatternNode[] }
  | { kind: 'choice'; nodes: readonly PatternNode[] }
  | { kind: 'repeat'; node: PatternNode; min: number; max: number };

/** An alternative at the top level of a pattern, with its anchors. */
export interface PatternAlternative {
  node: PatternNode;
  fromStart: boolean;
  toEnd: boolean;
}

const PARSER = new RegExpParser();

/**
 * Parses the part of ECMAScript's regular expressions that an automaton can match: characters, `.`, classes, `\d \w \s`
 * and their complements, groups, `|` and quantifiers, and `^` and `$` at the ends of top-level alternatives. Throws 400
 * `unsupported_parameter` at `path` for other syntax, and 400 `invalid_value` for invalid expressions.
 */
export function parsePattern(pattern: string, path: string): PatternAlternative[] {
  let parsed: AST.Pattern;
  try {
    parsed = PARSER.parsePattern(pattern, 0, pattern.length, { unicode: true });
  } catch {
    throw schemaError('invalid_value', path, '`pattern` is not a valid regular expression.');
  }
  return parsed.alternatives.map(({ elements }) => {
    const fromStart = isAnchor(elements.at(0), 'start');
    const toEnd = isAnchor(elements.at(-1), 'end');
    const rest = elements.slice(fromStart ? 1 : 0, toEnd ? -1 : elements.length);
    return { node: sequenceOf(rest, path), fromStart, toEnd };
  });
}

function isAnchor(element: AST.Element | undefined, kind: 'start' | 'end'): boolean {
  return element?.type === 'Assertion' && element.kind === kind;
}

function sequenceOf(elements: readonly AST.Element[], path: string): PatternNode {
  return { kind: 'sequence', nodes: elements.map((element) => nodeOf(element, path)) };
}

function nodeOf(element: AST.Element, path: string): PatternNode {
  switch (element.type) {
    case 'Quantifier':
      // Lazy quantifiers match the same texts.
      return { kind: 'repeat', node: nodeOf(element.element, path), min: element.min, max: element.max };
    case 'CapturingGroup':
      return {
        kind: 'choice',
        nodes: element.alternatives.map(({ elements }) => sequenceOf(elements, path)),
      };
    case 'Group':
      if (element.modifiers !== null) throw unsupported(element, path);
      return {
        kind: 'choice',
        nodes: element.alternatives.map(({ elements }) => sequenceOf(elements, path)),
      };
    default:
      return { kind: 'set', points: pointsOf(element, path) };
  }
}

const LINE_ENDS: CodePoints = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const CLASSES: Readonly<Record<AST.EscapeCharacterSet['kind'], CodePoints>> = {
  digit: [[0x30, 0x39]],
  word: [
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ],
  space: [
    [0x09, 0x0d],
    [0x20, 0x20],
    [0xa0, 0xa0],
    [0x1680, 0x1680],
    [0x2000, 0x200a],
    [0x2028, 0x2029],
    [0x202f, 0x202f],
    [0x205f, 0x205f],
    [0x3000, 0x3000],
    [0xfeff, 0xfeff],
  ],
};

/** Returns the code points of an element that matches one character. */
function pointsOf(element: AST.Element | AST.CharacterClassElement, path: string): CodePoints {
  switch (element.type) {
    case 'Character':
      return [[element.value, element.value]];
    case 'CharacterClassRange':
      return [[element.min.value, element.max.value]];
    case 'CharacterClass': {
      const points = unionOf(element.elements.flatMap((member) => pointsOf(member, path)));
      return element.negate ? complement(points) : points;
    }
    case 'CharacterSet':
      if (element.kind === 'any') return complement(LINE_ENDS);
      if (element.kind === 'property') throw unsupported(element, path);
      return element.negate ? complement(CLASSES[element.kind]) : CLASSES[element.kind];
    default:
      throw unsupported(element, path);
  }
}

function unsupported({ start }: AST.Node, path: string) {
  const message = `\`pattern\` uses unsupported syntax at character ${start + 1}.`;
  return schemaError('unsupported_parameter', path, message);
}
