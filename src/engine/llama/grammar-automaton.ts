import { refuseSchema } from './grammar-keywords.ts';
import { type GrammarRules, literal } from './grammar-rules.ts';
import type { CodePoints, PatternNode } from './pattern-parser.ts';

/** A deterministic automaton of JSON text. Its first state is the start. */
export interface Automaton {
  readonly states: readonly AutomatonState[];
}

interface AutomatonState {
  /** The sets of one state have no character in common, and no two lead to the same state. */
  readonly transitions: readonly { readonly points: CodePoints; readonly to: number }[];
  /** Whether the text may end here. */
  readonly accepts: boolean;
}

/**
 * Makes an expression deterministic. llama.cpp follows each way of reading a text separately, so an expression that
 * can read one text in many ways would take it many times the work, up to exponentially many. Throws 400
 * `invalid_value` at `path` where the automaton takes more work than `rules` has left.
 */
export function determinize(node: PatternNode, path: string, rules: GrammarRules): Automaton {
  return new Determinizer(path, rules).automaton(node);
}

/** Adds one rule for each state that needs one, and returns the name of the first. */
export function automatonRule({ states }: Automaton, rules: GrammarRules): string {
  const arrivals = new Map<number, number>([[0, 2]]);
  for (const { to } of states.flatMap((state) => state.transitions))
    arrivals.set(to, (arrivals.get(to) ?? 0) + 1);
  const names = new Map<number, string>();
  const nameOf = (index: number): string => {
    const known = names.get(index);
    if (known !== undefined) return known;
    const name = rules.reserve();
    names.set(index, name);
    return name;
  };
  const at = (index: number): AutomatonState => states[index] as AutomatonState; // A state's own number.
  /** What follows a transition: the characters of states that lead on in one way, then the name of one that does not. */
  const pathFrom = (points: CodePoints, first: number): string => {
    const parts = [points];
    let next = first;
    while (arrivals.get(next) === 1 && !at(next).accepts && at(next).transitions.length === 1) {
      const [only] = at(next).transitions;
      if (only === undefined) break;
      parts.push(only.points);
      next = only.to;
    }
    const ends = at(next).accepts && at(next).transitions.length === 0;
    return `${charactersOf(parts, rules)}${ends ? '' : ` ${nameOf(next)}`}`;
  };
  const start = nameOf(0);
  // Reached states get their names while others are written.
  for (const [index, name] of names) {
    const { transitions, accepts } = at(index);
    const paths = transitions.map(({ points, to }) => pathFrom(points, to));
    rules.define(name, [...paths, ...(accepts ? ['""'] : [])].join(' | '));
  }
  return start;
}

/** A state of the automaton before it is deterministic: reads one of `points` and continues, or splits. */
interface Step {
  readonly points: CodePoints | null;
  readonly next: Step[];
}

/** Characters that are in just these sets. */
interface Part {
  readonly points: CodePoints;
  readonly sets: readonly CodePoints[];
}

class Determinizer {
  readonly #path: string;
  readonly #rules: GrammarRules;
  /** The end of the text. */
  readonly #end: Step = { points: null, next: [] };
  readonly #numbers = new Map<object, number>();
  readonly #partitions = new Map<string, readonly Part[]>();
  readonly #sets = new Map<string, CodePoints>();
  readonly #canonical = new Map<CodePoints, CodePoints>();

  constructor(path: string, rules: GrammarRules) {
    this.#path = path;
    this.#rules = rules;
  }

  automaton(node: PatternNode): Automaton {
    const found = new Map<string, number>();
    const open: Step[][] = [];
    const states: AutomatonState[] = [];
    const stateOf = (steps: Step[]): number => {
      const key = this.#keyOf(steps);
      const known = found.get(key);
      if (known !== undefined) return known;
      found.set(key, found.size);
      open.push(steps);
      return found.size - 1;
    };
    stateOf(this.#reached([this.#steps(node, this.#end)]));
    for (const steps of open) {
      const transitions = this.#transitions(steps, stateOf);
      states.push({ transitions, accepts: steps.includes(this.#end) });
    }
    return { states };
  }

  /** The steps that read `node` and continue with `then`. */
  #steps(node: PatternNode, then: Step): Step {
    this.#spend(1);
    switch (node.kind) {
      case 'set':
        return { points: this.#canonicalSet(node.points), next: [then] };
      case 'sequence':
        return node.nodes.reduceRight((next, part) => this.#steps(part, next), then);
      case 'choice':
        return { points: null, next: node.nodes.map((part) => this.#steps(part, then)) };
      default: {
        let next = then;
        if (node.max === null) {
          next = { points: null, next: [then] };
          next.next.push(this.#steps(node.node, next));
        } else {
          for (let times = node.min; times < node.max; times += 1)
            next = { points: null, next: [this.#steps(node.node, next), then] };
        }
        for (let times = 0; times < node.min; times += 1) next = this.#steps(node.node, next);
        return next;
      }
    }
  }

  /** The state that each character leads to. */
  #transitions(
    steps: readonly Step[],
    stateOf: (steps: Step[]) => number,
  ): { points: CodePoints; to: number }[] {
    const bySet = Map.groupBy(
      steps.filter((step) => step !== this.#end),
      (step) => step.points ?? [],
    );
    const byTarget = new Map<number, CodePoints[]>();
    for (const { points, sets } of this.#partition([...bySet.keys()])) {
      const next = sets.flatMap((set) => (bySet.get(set) ?? []).flatMap((step) => step.next));
      const target = stateOf(this.#reached(next));
      byTarget.set(target, [...(byTarget.get(target) ?? []), points]);
    }
    return Array.from(byTarget, ([to, parts]) => ({ points: joined(parts), to }));
  }

  /** Splits characters by which of the sets they are in. */
  #partition(sets: readonly CodePoints[]): readonly Part[] {
    const name = sets.map((set) => numberOf(set, this.#numbers)).join();
    const known = this.#partitions.get(name);
    if (known !== undefined) return known;
    const changes = new Map<number, { set: CodePoints; begins: boolean }[]>();
    const change = (at: number, set: CodePoints, begins: boolean): void => {
      const there = changes.get(at) ?? [];
      there.push({ set, begins });
      changes.set(at, there);
    };
    for (const set of sets)
      for (const [from, to] of set) {
        change(from, set, true);
        change(to + 1, set, false);
      }
    const parts = new Map<string, { points: [number, number][]; sets: CodePoints[] }>();
    const inside = new Set<CodePoints>();
    const edges = [...changes.keys()].sort((a, b) => a - b);
    for (const [index, from] of edges.entries()) {
      for (const { set, begins } of changes.get(from) ?? [])
        if (begins) inside.add(set);
        else inside.delete(set);
      const end = edges[index + 1];
      this.#spend(1);
      if (end === undefined || inside.size === 0) continue;
      const key = this.#keyOf([...inside]);
      const part = parts.get(key) ?? { points: [], sets: [...inside] };
      part.points.push([from, end - 1]);
      parts.set(key, part);
    }
    const partition = [...parts.values()];
    this.#partitions.set(name, partition);
    return partition;
  }

  /** The steps, one of these or after them, that can be next without reading anything. */
  #reached(steps: readonly Step[]): Step[] {
    const seen = new Set<Step>();
    const open = [...steps];
    for (let step = open.pop(); step !== undefined; step = open.pop()) {
      if (seen.has(step)) continue;
      seen.add(step);
      if (step.points === null) open.push(...step.next);
    }
    this.#spend(seen.size + steps.length);
    return [...seen].filter((step) => step.points !== null || step === this.#end);
  }

  #keyOf(objects: readonly object[]): string {
    this.#spend(objects.length);
    return objects
      .map((object) => numberOf(object, this.#numbers))
      .sort((a, b) => a - b)
      .join();
  }

  /** One object for all equal sets. */
  #canonicalSet(points: CodePoints): CodePoints {
    const known = this.#canonical.get(points);
    if (known !== undefined) return known;
    const key = points.join(';');
    const set = this.#sets.get(key) ?? points;
    this.#sets.set(key, set);
    this.#canonical.set(points, set);
    return set;
  }

  #spend(steps: number): void {
    if (this.#rules.spend(steps)) return;
    const message = 'This is too ambiguous. Shorten its repetitions, or use fewer of them.';
    throw refuseSchema('invalid_value', this.#path, message);
  }
}

function numberOf(object: object, numbers: Map<object, number>): number {
  const number = numbers.get(object) ?? numbers.size;
  numbers.set(object, number);
  return number;
}

/** The union of sets that have no character in common. */
function joined(parts: readonly CodePoints[]): CodePoints {
  const ranges: [number, number][] = [];
  for (const [from, to] of parts.flat().sort((a, b) => a[0] - b[0])) {
    const last = ranges.at(-1);
    if (last !== undefined && last[1] + 1 === from) last[1] = to;
    else ranges.push([from, to]);
  }
  return ranges;
}

/** Whether the character is in the set. */
export function contains(points: CodePoints, code: number): boolean {
  return points.some(([from, to]) => from <= code && code <= to);
}

/** Sets of characters in a row, in the notation of the grammar. */
function charactersOf(parts: readonly CodePoints[], rules: GrammarRules): string {
  const written: string[] = [];
  let text = '';
  const flush = (): void => {
    if (text !== '') written.push(literal(text));
    text = '';
  };
  for (const points of parts) {
    const [range] = points;
    if (points.length === 1 && range !== undefined && range[0] === range[1] && range[0] >= 0x20) {
      text += String.fromCodePoint(range[0]);
      continue;
    }
    flush();
    const set = `[${points.map(([from, to]) => (from === to ? inClass(from) : `${inClass(from)}-${inClass(to)}`)).join('')}]`;
    written.push(set.length > SHARED_FROM ? rules.share(set) : set);
  }
  flush();
  return written.join(' ');
}

/** Characters of a set from which on it has a rule, so that it is written once. */
const SHARED_FROM = 24;

/** A character inside of brackets in the notation of the grammar. */
function inClass(code: number): string {
  const character = String.fromCodePoint(code);
  if (/[a-zA-Z0-9]/.test(character)) return character;
  return code < 0x100
    ? `\\x${code.toString(16).padStart(2, '0')}`
    : `\\U${code.toString(16).padStart(8, '0')}`;
}
