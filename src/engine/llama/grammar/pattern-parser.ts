import { schemaError } from './grammar-rules.ts';

/** Code points as sorted, disjoint ranges, both ends inclusive. */
export type CodePoints = readonly (readonly [from: number, to: number])[];

/** The syntax tree of a regular expression. */
export type PatternNode =
  | { kind: 'set'; points: CodePoints }
  | { kind: 'sequence'; nodes: readonly PatternNode[] }
  | { kind: 'choice'; nodes: readonly PatternNode[] }
  | { kind: 'repeat'; node: PatternNode; min: number; max: number | null };

/** An alternative at the top level of a pattern, with its anchors. */
export interface PatternAlternative {
  node: PatternNode;
  fromStart: boolean;
  toEnd: boolean;
}

/**
 * Parses the part of ECMAScript's regular expressions that an automaton can match: characters, `.`, classes, `\d \w \s`
 * and their complements, groups, `|` and quantifiers, and `^` and `$` at the ends of top-level alternatives. Throws 400
 * `unsupported_parameter` at `path` for other syntax, and 400 `invalid_value` for invalid expressions.
 */
export function parsePattern(pattern: string, path: string): PatternAlternative[] {
  try {
    void new RegExp(pattern, 'u');
  } catch {
    throw schemaError('invalid_value', path, '`pattern` is not a valid regular expression.');
  }
  return new PatternParser(pattern, path).alternatives();
}

const LAST_CODE_POINT = 0x10ffff;
const LINE_ENDS: CodePoints = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];
const CLASSES: Readonly<Record<string, CodePoints>> = {
  d: [[0x30, 0x39]],
  w: [
    [0x30, 0x39],
    [0x41, 0x5a],
    [0x5f, 0x5f],
    [0x61, 0x7a],
  ],
  s: [
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
const CONTROLS: Readonly<Record<string, number>> = { t: 0x09, n: 0x0a, v: 0x0b, f: 0x0c, r: 0x0d, '0': 0x00 };

/** Expects a valid pattern. */
class PatternParser {
  readonly #characters: readonly string[];
  readonly #path: string;
  #at = 0;
  #depth = 0;

  constructor(pattern: string, path: string) {
    this.#characters = Array.from(pattern);
    this.#path = path;
  }

  alternatives(): PatternAlternative[] {
    const alternatives: PatternAlternative[] = [];
    do {
      const fromStart = this.#take('^');
      const node = this.#sequence();
      alternatives.push({ node, fromStart, toEnd: this.#take('$') });
    } while (this.#take('|'));
    if (this.#at < this.#characters.length) throw this.#unsupported();
    return alternatives;
  }

  #sequence(): PatternNode {
    const nodes: PatternNode[] = [];
    for (;;) {
      const next = this.#characters[this.#at];
      if (next === undefined || next === '|' || next === ')' || next === '$')
        return { kind: 'sequence', nodes };
      nodes.push(this.#quantified(this.#atom()));
    }
  }

  #quantified(node: PatternNode): PatternNode {
    const times = this.#times();
    if (times === null) return node;
    // Lazy quantifiers match the same texts.
    this.#take('?');
    return { kind: 'repeat', node, ...times };
  }

  #times(): { min: number; max: number | null } | null {
    if (this.#take('*')) return { min: 0, max: null };
    if (this.#take('+')) return { min: 1, max: null };
    if (this.#take('?')) return { min: 0, max: 1 };
    if (!this.#take('{')) return null;
    const end = this.#characters.indexOf('}', this.#at);
    const [min, max] = this.#characters.slice(this.#at, end).join('').split(',');
    this.#at = end + 1;
    const minimum = Number(min);
    return { min: minimum, max: max === undefined ? minimum : max === '' ? null : Number(max) };
  }

  #atom(): PatternNode {
    const character = this.#next();
    switch (character) {
      case '.':
        return { kind: 'set', points: complement(LINE_ENDS) };
      case '[':
        return { kind: 'set', points: this.#class() };
      case '(':
        return this.#group();
      case '\\':
        return { kind: 'set', points: this.#escape() };
      case '^':
        throw this.#unsupported();
      default:
        return { kind: 'set', points: single(character) };
    }
  }

  #group(): PatternNode {
    if (this.#take('?')) {
      if (this.#take('<')) {
        const name = this.#characters.indexOf('>', this.#at);
        if ('=!'.includes(this.#next())) throw this.#unsupported();
        this.#at = name + 1;
      } else if (!this.#take(':')) {
        throw this.#unsupported();
      }
    }
    this.#depth += 1;
    if (this.#depth > MAX_DEPTH) throw this.#unsupported();
    const nodes: PatternNode[] = [];
    do nodes.push(this.#sequence());
    while (this.#take('|'));
    this.#depth -= 1;
    // In a valid pattern, only `$` can end a group early. Anchors in groups are not supported.
    if (!this.#take(')')) throw this.#unsupported();
    return { kind: 'choice', nodes };
  }

  #class(): CodePoints {
    const negated = this.#take('^');
    const points: (readonly [number, number])[] = [];
    while (!this.#take(']')) {
      const from = this.#classMember();
      const low = from[0]?.[0] ?? 0;
      // A dash denotes a range, unless it is the first or last character of the class.
      if (this.#characters[this.#at] === '-' && this.#characters[this.#at + 1] !== ']') {
        this.#at += 1;
        const high = this.#classMember().at(-1)?.[1] ?? low;
        points.push([low, high]);
      } else {
        points.push(...from);
      }
    }
    return negated ? complement(normalize(points)) : normalize(points);
  }

  #classMember(): CodePoints {
    const character = this.#next();
    return character === '\\' ? this.#escape(true) : single(character);
  }

  #escape(inClass = false): CodePoints {
    const character = this.#next();
    const named = CLASSES[character.toLowerCase()];
    if (named !== undefined) return character === character.toLowerCase() ? named : complement(named);
    const control = CONTROLS[character];
    if (control !== undefined) return [[control, control]];
    if (character === 'x' || character === 'u') return this.#hexadecimal(character === 'x' ? 2 : 4);
    if (character === 'b' && inClass) return [[0x08, 0x08]];
    if (/[a-zA-Z0-9]/.test(character)) throw this.#unsupported();
    return single(character);
  }

  #hexadecimal(digits: number): CodePoints {
    let text: string;
    if (this.#take('{')) {
      const end = this.#characters.indexOf('}', this.#at);
      text = this.#characters.slice(this.#at, end).join('');
      this.#at = end + 1;
    } else {
      text = this.#characters.slice(this.#at, this.#at + digits).join('');
      this.#at += digits;
    }
    const high = Number.parseInt(text, 16);
    const low = this.#lowSurrogate();
    const code = isHighSurrogate(high) && low !== null ? String.fromCharCode(high, low).codePointAt(0) : null;
    if (code != null) this.#at += LOW_SURROGATE_LENGTH;
    return [[code ?? high, code ?? high]];
  }

  /** Returns the code of an escaped low surrogate that is next, without reading it; null if there is none. */
  #lowSurrogate(): number | null {
    const next = this.#characters.slice(this.#at, this.#at + LOW_SURROGATE_LENGTH).join('');
    return /^\\u[dD][c-fC-F][0-9a-fA-F]{2}$/.test(next) ? Number.parseInt(next.slice(2), 16) : null;
  }

  #take(character: string): boolean {
    if (this.#characters[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }

  #next(): string {
    const character = this.#characters[this.#at];
    if (character === undefined) throw this.#unsupported();
    this.#at += 1;
    return character;
  }

  #unsupported() {
    const message = `\`pattern\` uses unsupported syntax near character ${this.#at + 1}.`;
    return schemaError('unsupported_parameter', this.#path, message);
  }
}

const LOW_SURROGATE_LENGTH = String.raw`\uDC00`.length;

function isHighSurrogate(code: number): boolean {
  return code >= 0xd800 && code <= 0xdbff;
}

/** Maximum nesting depth of groups. */
const MAX_DEPTH = 50;

function single(character: string): CodePoints {
  const code = character.codePointAt(0) ?? 0;
  return [[code, code]];
}

function normalize(points: CodePoints): CodePoints {
  const joined: [number, number][] = [];
  for (const [from, to] of [...points].sort((a, b) => a[0] - b[0])) {
    const last = joined.at(-1);
    if (last !== undefined && from <= last[1] + 1) last[1] = Math.max(last[1], to);
    else joined.push([from, to]);
  }
  return joined;
}

function complement(points: CodePoints): CodePoints {
  const gaps: [number, number][] = [];
  let next = 0;
  for (const [from, to] of points) {
    if (from > next) gaps.push([next, from - 1]);
    next = to + 1;
  }
  if (next <= LAST_CODE_POINT) gaps.push([next, LAST_CODE_POINT]);
  return gaps;
}
