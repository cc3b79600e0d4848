/** An interpreter of llama.cpp's grammar notation (GBNF). */
export class Gbnf {
  readonly rules = new Map<string, Alternatives>();
  /** The minimum nesting depth of each rule, to end samples that are too deep. */
  readonly #depths = new Map<string, number>();

  constructor(source: string) {
    for (const line of source.split('\n')) {
      if (line === '') continue;
      const [name = '', expression = ''] = line.split(/ ::= (.*)/s);
      this.rules.set(name, new Parser(expression).whole());
    }
    for (let changed = true; changed;) {
      changed = false;
      for (const [name, choice] of this.rules) {
        const depth = 1 + this.#depthOf(choice);
        if (depth < (this.#depths.get(name) ?? Infinity)) {
          this.#depths.set(name, depth);
          changed = true;
        }
      }
    }
  }

  /** Whether the whole text matches. */
  accepts(text: string): boolean {
    const characters = Array.from(text, (character) => character.codePointAt(0) ?? 0);
    const known = new Map<string, ReadonlySet<number>>();
    const endsOf = (part: Part, at: number): ReadonlySet<number> => {
      switch (part.kind) {
        case 'set':
          return new Set(at < characters.length && inSet(part, characters[at] ?? 0) ? [at + 1] : []);
        case 'text':
          return new Set(
            part.text.every((code, i) => characters[at + i] === code) ? [at + part.text.length] : [],
          );
        case 'group':
          return endsOfChoice(part.choice, at);
        default: {
          const key = `${part.name}@${at}`;
          const ends = known.get(key) ?? endsOfChoice(this.#rule(part.name), at);
          known.set(key, ends);
          return ends;
        }
      }
    };
    const endsOfChoice = (choice: Alternatives, at: number): ReadonlySet<number> => {
      const ends = new Set<number>();
      for (const sequence of choice) {
        let reached: ReadonlySet<number> = new Set([at]);
        for (const item of sequence) reached = endsOfItem(item, reached);
        for (const end of reached) ends.add(end);
      }
      return ends;
    };
    const endsOfItem = ({ part, min, max }: Item, starts: ReadonlySet<number>): ReadonlySet<number> => {
      const ends = new Set<number>(min === 0 ? starts : []);
      let reached = starts;
      for (let times = 1; times <= max && reached.size > 0; times += 1) {
        reached = new Set(Array.from(reached, (at) => [...endsOf(part, at)]).flat());
        const before = ends.size;
        if (times >= min) for (const end of reached) ends.add(end);
        if (times > min && ends.size === before) break;
      }
      return ends;
    };
    return endsOfChoice(this.#rule('root'), 0).has(characters.length);
  }

  /** Returns a string of the grammar. `random` returns numbers from 0 to 1. Beyond `depth`, the shortest rules are used. */
  sample(random: () => number, depth = 30): string {
    const pick = <T>(list: readonly T[]): T => {
      const picked = list[Math.floor(random() * list.length)];
      if (picked === undefined) throw new Error('nothing to choose from');
      return picked;
    };
    const ofPart = (part: Part, left: number): string => {
      switch (part.kind) {
        case 'set':
          return String.fromCodePoint(pick(membersOf(part)));
        case 'text':
          return String.fromCodePoint(...part.text);
        case 'group':
          return ofChoice(part.choice, left);
        default:
          return ofChoice(this.#rule(part.name), left - 1);
      }
    };
    const ofChoice = (choice: Alternatives, left: number): string => {
      const shortest = Math.min(...choice.map((sequence) => this.#depthOf([sequence])));
      const candidates =
        left > 0 ? choice : choice.filter((sequence) => this.#depthOf([sequence]) === shortest);
      return pick(candidates)
        .map(({ part, min, max }) => {
          const times = left > 0 ? Math.min(max, min + Math.floor(random() * 3)) : min;
          return Array.from({ length: times }, () => ofPart(part, left)).join('');
        })
        .join('');
    };
    return ofChoice(this.#rule('root'), depth);
  }

  #rule(name: string): Alternatives {
    const rule = this.rules.get(name);
    if (rule === undefined) throw new Error(`no rule ${name}`);
    return rule;
  }

  #depthOf(choice: Alternatives): number {
    const ofItem = ({ part, min }: Item): number => {
      if (min === 0) return 0;
      if (part.kind === 'group') return this.#depthOf(part.choice);
      return part.kind === 'rule' ? (this.#depths.get(part.name) ?? Infinity) : 0;
    };
    return Math.min(...choice.map((sequence) => Math.max(0, ...sequence.map(ofItem))));
  }
}

export type Alternatives = readonly (readonly Item[])[];

export interface Item {
  part: Part;
  min: number;
  max: number;
}

interface SetPart {
  kind: 'set';
  negated: boolean;
  ranges: readonly (readonly [number, number])[];
}

export type Part =
  | SetPart
  | { kind: 'text'; text: readonly number[] }
  | { kind: 'group'; choice: Alternatives }
  | { kind: 'rule'; name: string };

export function inSet({ negated, ranges }: SetPart, code: number): boolean {
  return ranges.some(([from, to]) => from <= code && code <= to) !== negated;
}

/** Returns some characters of a set: its bounds and a sample of Unicode. */
function membersOf(set: SetPart): number[] {
  const sample = Array.from('aZ5 é€😀-/"\\\n', (character) => character.codePointAt(0) ?? 0);
  const bounds = set.ranges.flatMap(([from, to]) => [from, Math.floor((from + to) / 2), to]);
  return [...new Set([...sample, ...bounds])].filter(
    (code) => (code < 0xd800 || code > 0xdfff) && inSet(set, code),
  );
}

const ESCAPES: Readonly<Record<string, number>> = { n: 10, r: 13, t: 9 };
const HEX: Readonly<Record<string, number>> = { x: 2, u: 4, U: 8 };

class Parser {
  readonly #source: readonly string[];
  #at = 0;

  constructor(source: string) {
    this.#source = Array.from(source);
  }

  whole(): Alternatives {
    const choice = this.#choice();
    if (this.#at < this.#source.length) throw new Error(`unexpected '${this.#source[this.#at]}'`);
    return choice;
  }

  #choice(): Alternatives {
    const sequences: Item[][] = [];
    do sequences.push(this.#sequence());
    while (this.#take('|'));
    return sequences;
  }

  #sequence(): Item[] {
    const items: Item[] = [];
    for (;;) {
      while (this.#take(' '));
      const next = this.#source[this.#at];
      if (next === undefined || next === '|' || next === ')') return items;
      items.push({ part: this.#part(), ...this.#times() });
    }
  }

  #part(): Part {
    if (this.#take('"')) {
      const text: number[] = [];
      while (!this.#take('"')) text.push(this.#character());
      return { kind: 'text', text };
    }
    if (this.#take('[')) return this.#set();
    if (this.#take('(')) {
      const choice = this.#choice();
      if (!this.#take(')')) throw new Error('unclosed group');
      return { kind: 'group', choice };
    }
    let name = '';
    while (/[a-zA-Z0-9-]/.test(this.#source[this.#at] ?? '')) name += this.#source[this.#at++];
    if (name === '') throw new Error(`unexpected '${this.#source[this.#at]}'`);
    return { kind: 'rule', name };
  }

  #set(): SetPart {
    const negated = this.#take('^');
    const ranges: [number, number][] = [];
    while (!this.#take(']')) {
      const from = this.#character();
      const isRange = this.#source[this.#at] === '-' && this.#source[this.#at + 1] !== ']';
      if (isRange) this.#at += 1;
      ranges.push([from, isRange ? this.#character() : from]);
    }
    return { kind: 'set', negated, ranges };
  }

  #times(): { min: number; max: number } {
    if (this.#take('*')) return { min: 0, max: Infinity };
    if (this.#take('+')) return { min: 1, max: Infinity };
    if (this.#take('?')) return { min: 0, max: 1 };
    if (!this.#take('{')) return { min: 1, max: 1 };
    const end = this.#source.indexOf('}', this.#at);
    const [min, max] = this.#source.slice(this.#at, end).join('').split(',');
    this.#at = end + 1;
    return { min: Number(min), max: max === undefined ? Number(min) : Number(max) };
  }

  #character(): number {
    const character = this.#source[this.#at++] ?? '';
    if (character !== '\\') return character.codePointAt(0) ?? 0;
    const escape = this.#source[this.#at++] ?? '';
    const digits = HEX[escape];
    if (digits === undefined) return ESCAPES[escape] ?? escape.codePointAt(0) ?? 0;
    this.#at += digits;
    return Number.parseInt(this.#source.slice(this.#at - digits, this.#at).join(''), 16);
  }

  #take(character: string): boolean {
    if (this.#source[this.#at] !== character) return false;
    this.#at += 1;
    return true;
  }
}
