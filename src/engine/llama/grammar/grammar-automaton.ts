import { type CodePoints, unionOf } from './code-points.ts';
import { type GrammarRules, inClass, literal, schemaError } from './grammar-rules.ts';
import type { PatternNode } from './pattern-parser.ts';

/** A deterministic automaton for JSON text. The first state is the start. */
export interface Automaton {
  readonly states: readonly AutomatonState[];
}

interface AutomatonState {
  /** The sets are disjoint and lead to different states. */
  readonly transitions: readonly { readonly points: CodePoints; readonly to: number }[];
  /** Whether the text can end here. */
  readonly accepts: boolean;
}

/**
 * Converts an expression into a deterministic automaton, because llama.cpp follows each possible parse of a text
 * separately, and an ambiguous expression can have exponentially many parses. Throws 400 `invalid_value` at `path` if
 * the budget of `rules` is exhausted.
 */
export function determinize(node: PatternNode, path: string, rules: GrammarRules): Automaton {
  return new Determinizer(path, rules).automaton(node);
}

/** Adds the rules of an automaton and returns the name of the start rule. */
export function automatonRule({ states }: Automaton, rules: GrammarRules): string {
  // Number of transitions into each state. The start state has 2 more, so that it always gets its own rule.
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
  const at = (index: number): AutomatonState => states[index] as AutomatonState;
  /** Returns an expression: the characters up to the next state with its own rule, then the name of that rule. */
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
  // The loop also visits the names that it adds.
  for (const [index, name] of names) {
    const { transitions, accepts } = at(index);
    const paths = transitions.map(({ points, to }) => pathFrom(points, to));
    rules.define(name, [...paths, ...(accepts ? ['""'] : [])].join(' | '));
  }
  return start;
}

/** A state of the nondeterministic automaton. `points` is null for an epsilon transition. */
interface NfaState {
  readonly points: CodePoints | null;
  readonly next: NfaState[];
}

/** The characters that are in exactly these sets. */
interface Part {
  readonly points: CodePoints;
  readonly sets: readonly CodePoints[];
}

/** Subset construction. */
class Determinizer {
  readonly #path: string;
  readonly #rules: GrammarRules;
  readonly #end: NfaState = { points: null, next: [] };
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
    const queue: NfaState[][] = [];
    const states: AutomatonState[] = [];
    const indexOf = (closure: NfaState[]): number => {
      const key = this.#keyOf(closure);
      const known = found.get(key);
      if (known !== undefined) return known;
      found.set(key, found.size);
      queue.push(closure);
      return found.size - 1;
    };
    indexOf(this.#closure([this.#compile(node, this.#end)]));
    for (const closure of queue) {
      const transitions = this.#transitions(closure, indexOf);
      states.push({ transitions, accepts: closure.includes(this.#end) });
    }
    return { states };
  }

  /** Returns the state that reads `node` and continues with `end`. */
  #compile(node: PatternNode, end: NfaState): NfaState {
    this.#spend(1);
    switch (node.kind) {
      case 'set':
        return { points: this.#canonicalSet(node.points), next: [end] };
      case 'sequence':
        return node.nodes.reduceRight((next, part) => this.#compile(part, next), end);
      case 'choice':
        return { points: null, next: node.nodes.map((part) => this.#compile(part, end)) };
      default: {
        let next = end;
        if (node.max === Infinity) {
          next = { points: null, next: [end] };
          next.next.push(this.#compile(node.node, next));
        } else {
          for (let times = node.min; times < node.max; times += 1)
            next = { points: null, next: [this.#compile(node.node, next), end] };
        }
        for (let times = 0; times < node.min; times += 1) next = this.#compile(node.node, next);
        return next;
      }
    }
  }

  #transitions(
    closure: readonly NfaState[],
    indexOf: (closure: NfaState[]) => number,
  ): { points: CodePoints; to: number }[] {
    const bySet = Map.groupBy(
      closure.filter((state) => state !== this.#end),
      (state) => state.points ?? [],
    );
    const byTarget = new Map<number, CodePoints>();
    for (const { points, sets } of this.#partition([...bySet.keys()])) {
      const next = sets.flatMap((set) => (bySet.get(set) ?? []).flatMap((state) => state.next));
      const target = indexOf(this.#closure(next));
      byTarget.set(target, [...(byTarget.get(target) ?? []), ...points]);
    }
    return Array.from(byTarget, ([to, parts]) => ({ points: unionOf(parts), to }));
  }

  /** Groups characters by the sets that contain them. */
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

  /** Returns the epsilon closure, without the states that have only epsilon transitions. */
  #closure(states: readonly NfaState[]): NfaState[] {
    const seen = new Set<NfaState>();
    const stack = [...states];
    for (let state = stack.pop(); state !== undefined; state = stack.pop()) {
      if (seen.has(state)) continue;
      seen.add(state);
      if (state.points === null) stack.push(...state.next);
    }
    this.#spend(seen.size + states.length);
    return [...seen].filter((state) => state.points !== null || state === this.#end);
  }

  #keyOf(objects: readonly object[]): string {
    this.#spend(objects.length);
    return objects
      .map((object) => numberOf(object, this.#numbers))
      .sort((a, b) => a - b)
      .join();
  }

  /** Returns the same object for equal sets. */
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
    const message =
      'This part of the schema is too ambiguous. Shorten its repetitions, or use fewer of them.';
    throw schemaError('invalid_value', this.#path, message);
  }
}

function numberOf(object: object, numbers: Map<object, number>): number {
  const number = numbers.get(object) ?? numbers.size;
  numbers.set(object, number);
  return number;
}

/** Formats a sequence of sets in GBNF. */
function charactersOf(parts: readonly CodePoints[], rules: GrammarRules): string {
  const expressions: string[] = [];
  let text = '';
  const flush = (): void => {
    if (text !== '') expressions.push(literal(text));
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
    expressions.push(set.length > MAX_INLINE_SET ? rules.share(set) : set);
  }
  flush();
  return expressions.join(' ');
}

/** Maximum length of a set without its own rule, in characters. */
const MAX_INLINE_SET = 24;
