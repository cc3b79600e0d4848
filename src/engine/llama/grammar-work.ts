import { type Automaton, contains } from './grammar-automaton.ts';
import { refuseSchema, type SchemaObject } from './grammar-keywords.ts';
import type { GrammarRules } from './grammar-rules.ts';

/**
 * Estimates how long llama.cpp takes to sample one token by a grammar, before it is given one: a call into it cannot
 * be interrupted. llama.cpp keeps a stack for each way in which the text so far can be read. It tries every token of
 * the vocabulary with each of them, and follows the token's characters along all ways that these allow. The unit is
 * about a microsecond of one core.
 */
export const MAX_WORK = 250_000;

/** Trying a token with one stack. */
const STACK_WORK = 0.006;
/** Comparing the first character of a token with one range of characters. */
const RANGE_WORK = 0.0007;
/** A string that only its length bounds: it takes all tokens that are text. */
export const STRING_WORK = 2000;
/** A number without bounds, a boolean or null. */
export const SCALAR_WORK = 1000;
/** Any JSON value. */
export const VALUE_WORK = 3000;

/** A position in a schema where a value is; with the objects and arrays that it may be. */
export interface Place {
  readonly path: string;
  readonly containers: Set<Container>;
  /** Of the other values that may be here. */
  work: number;
}

/** An object or array type with the places of its members. */
export interface Container {
  readonly type: 'object' | 'array';
  readonly schema: SchemaObject;
  readonly members: Set<Place>;
  /** The most ways in which it can continue at one point, each of which is a stack. */
  width: number;
}

/**
 * Refuses schemas whose grammar can take llama.cpp too much work at one token. The work at a place is that of its
 * containers added up: of all those of one type, which begin alike, and of the members of those that cannot be told
 * apart before something nests in them. It is solved by raising the numbers until they hold; in a circle that adds,
 * they rise past the bound. Throws 400 `invalid_value`.
 */
export function refuseWork(places: readonly Place[], tokens: TokenSample): void {
  const works = new Map<Place, number>();
  const least = (container: Container): number => container.width * tokens.size * STACK_WORK;
  const within = (container: Container): number =>
    Math.max(least(container), ...Array.from(container.members, (place) => works.get(place) ?? 0));
  // The innermost were met last, so one round is enough unless the schema is recursive.
  const inward = places
    .map((place) => ({ place, sets: rivals(place), first: firstWork(place, least) }))
    .reverse();
  for (let rising = true; rising;) {
    rising = false;
    for (const { place, sets, first } of inward) {
      const work = Math.max(
        first,
        ...sets.map((set) => set.reduce((sum, container) => sum + within(container), 0)),
      );
      if (work <= (works.get(place) ?? 0)) continue;
      if (work > MAX_WORK) throw tooMuch(place);
      works.set(place, work);
      rising = true;
    }
  }
}

/** The work at the beginning of a place's value, where objects and arrays have not been told apart. */
function firstWork({ work, containers }: Place, least: (container: Container) => number): number {
  const ofType = (type: Container['type']): number =>
    [...containers].reduce((sum, each) => sum + (each.type === type ? least(each) : 0), 0);
  return Math.max(work, ofType('object'), ofType('array'));
}

function tooMuch({ path, containers }: Place) {
  const message =
    containers.size > 1
      ? 'Too many alternatives start the same way. Start each with a different required property, or with one that has a different `const`, or use fewer alternatives.'
      : 'The text can continue in too many ways here. Use fewer optional properties in a row.';
  return refuseSchema('invalid_value', path, message);
}

/**
 * The work of an automaton in its costliest state. The number of paths as long as a token bounds what llama.cpp follows
 * from a state. Where that is too many, the paths that a vocabulary's tokens really take are counted. Null where
 * counting them is itself more work than `rules` has left.
 */
export function automatonWork(
  { states }: Automaton,
  tokens: TokenSample,
  rules: GrammarRules,
): number | null {
  const widths = states.map(({ transitions, accepts }) => transitions.length + (accepts ? AFTER : 0));
  // Arriving in a state makes its stacks, each of which is compared with the others.
  const arrivals = widths.map((width) => 1 + 0.3 * width + 0.003 * width * width);
  const onward = (of: readonly number[]): number[] =>
    states.map(({ transitions }) => transitions.reduce((sum, { to }) => sum + (of[to] ?? 0), 0));
  const steps = onward(arrivals);
  let paths = steps;
  for (let length = 1; length < TOKEN_CHARACTERS; length += 1)
    paths = onward(paths).map((work, i) => Math.min(MAX_WORK, work + (steps[i] ?? 0)));
  let most = 0;
  for (const [index, { transitions }] of states.entries()) {
    const ranges = transitions.reduce((sum, { points }) => sum + points.length, 0);
    const first = tokens.size * ((widths[index] ?? 0) * STACK_WORK + ranges * RANGE_WORK);
    let onwards = paths[index] ?? 0;
    if (onwards > MAX_PATHS) {
      const walk = tokens.walk(states, index, arrivals);
      if (!rules.spend(Math.ceil(walk.steps / 10))) return null;
      onwards = Math.min(onwards, walk.work);
    }
    most = Math.max(most, first + onwards);
  }
  return most;
}

/** Characters of nearly all tokens, at most. */
const TOKEN_CHARACTERS = 16;

/** Work that is little enough not to be looked at more closely. */
const MAX_PATHS = 20_000;

/** Stacks of what may follow a value. */
const AFTER = 4;

/** The tokens of a vocabulary: how many there are, and some of them. */
export class TokenSample {
  readonly size: number;
  /** Evenly chosen, as code points. */
  readonly #tokens: readonly (readonly number[])[];

  /** `textOf` returns a token's text. */
  constructor(size: number, textOf: (token: number) => string) {
    this.size = size;
    const count = Math.min(size, SAMPLED);
    this.#tokens = Array.from({ length: count }, (_, i) =>
      Array.from(textOf(Math.floor((i * size) / count)), (character) => character.codePointAt(0) ?? 0),
    );
  }

  /** Follows all tokens from a state of an automaton as llama.cpp does; `arrivals` is the work of reaching each state. */
  walk(
    states: Automaton['states'],
    start: number,
    arrivals: readonly number[],
  ): { work: number; steps: number } {
    let work = 0;
    let steps = 0;
    const open = [{ state: start, tokens: this.#tokens, at: 0 }];
    for (let group = open.pop(); group !== undefined; group = open.pop()) {
      const { state, tokens, at } = group;
      steps += tokens.length;
      const transitions = states[state]?.transitions ?? [];
      const byTarget = Map.groupBy(tokens, (token) => {
        const code = token[at];
        return code === undefined ? undefined : transitions.find(({ points }) => contains(points, code))?.to;
      });
      for (const [target, members] of byTarget) {
        if (target === undefined) continue;
        work += arrivals[target] ?? 0;
        open.push({ state: target, tokens: members, at: at + 1 });
      }
    }
    return { work: work * (this.size / this.#tokens.length), steps };
  }
}

/** Tokens that are followed. */
const SAMPLED = 500;

/** For each container of a place all those, itself included, that a text may still be while members nest in it. */
function rivals({ containers }: Place): Container[][] {
  const all = [...containers];
  return all.map((one) => all.filter((other) => one === other || !toldApart(one, other)));
}

function toldApart(one: Container, other: Container): boolean {
  if (one.type !== other.type) return true;
  if (one.type === 'array') return false;
  const [first, second] = [firstNames(one.schema), firstNames(other.schema)];
  if (first !== null && second !== null && first.isDisjointFrom(second)) return true;
  const [these, those] = [leadingMembers(one.schema), leadingMembers(other.schema)];
  for (const [index, member] of these.entries()) {
    const rival = those[index];
    if (rival === undefined) return false;
    if (member.name !== rival.name) return true;
    if (
      member.values !== null &&
      rival.values !== null &&
      !member.values.some((json) => rival.values?.includes(json))
    ) {
      return true;
    }
    if (!member.flat || !rival.flat) return false;
  }
  return false;
}

/** The names that an object's first property may have; null: any. */
function firstNames({
  required,
  properties,
  additionalProperties,
  propertyNames,
}: SchemaObject): Set<string> | null {
  if (typeof properties !== 'object' || properties === null || propertyNames !== undefined) return null;
  const needed: readonly unknown[] = Array.isArray(required) ? required : [];
  const names = Object.keys(properties);
  const end = names.findIndex((name) => needed.includes(name));
  if (end !== -1) return new Set(names.slice(0, end + 1));
  const closed = (additionalProperties ?? false) === false && needed.length === 0;
  return closed ? new Set(names) : null;
}

/** The properties that an object has to begin with. `values` are those of a `const` or `enum`; `flat`: nothing nests. */
function leadingMembers(schema: SchemaObject): { name: string; values: string[] | null; flat: boolean }[] {
  const { required, properties } = schema;
  if (!Array.isArray(required) || typeof properties !== 'object' || properties === null) return [];
  const members = Object.entries(properties);
  const optional = members.findIndex(([name]) => !required.includes(name));
  return members.slice(0, optional === -1 ? members.length : optional).map(([name, member]) => {
    const values = literalsOf(member);
    return { name, values, flat: values !== null || isScalar(member) };
  });
}

function literalsOf(schema: unknown): string[] | null {
  if (typeof schema !== 'object' || schema === null) return null;
  if ('const' in schema) return [JSON.stringify(schema.const)];
  return 'enum' in schema && Array.isArray(schema.enum)
    ? schema.enum.map((value) => JSON.stringify(value))
    : null;
}

function isScalar(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null) return false;
  if ('anyOf' in schema && Array.isArray(schema.anyOf)) return schema.anyOf.every(isScalar);
  const types: unknown[] = 'type' in schema ? [schema.type].flat() : [];
  return types.length > 0 && types.every((type) => type !== 'object' && type !== 'array');
}
