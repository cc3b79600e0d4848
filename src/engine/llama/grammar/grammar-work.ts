import { contains } from './code-points.ts';
import type { Automaton } from './grammar-automaton.ts';
import { type GrammarRules, schemaError, type SchemaObject } from './grammar-rules.ts';

/**
 * Maximum estimated work of llama.cpp to sample one token with a grammar. One unit is about a microsecond on one core.
 * Grammars must be checked in advance, because sampling cannot be interrupted. llama.cpp keeps a stack for each parse
 * of the text so far, tries every token with every stack, and follows the token's characters along all paths.
 */
export const MAX_WORK = 250_000;

/** Work of trying a token with one stack. */
const STACK_WORK = 0.006;
/** Work of comparing the first character of a token with one range. */
const RANGE_WORK = 0.0007;
/** Work of a string without a pattern, which accepts all tokens. */
export const STRING_WORK = 2000;
/** Work of a number without bounds, a boolean or null. */
export const SCALAR_WORK = 1000;
/** Work of any JSON value. */
export const VALUE_WORK = 3000;

/** A position of a value in a schema, with the objects and arrays that it can be. */
export interface SchemaPosition {
  readonly path: string;
  readonly containers: Set<Container>;
  /** Work of the values other than objects and arrays that are possible here. */
  work: number;
}

/** An object or array type with the positions of its members. */
export interface Container {
  readonly type: 'object' | 'array';
  readonly schema: SchemaObject;
  readonly members: Set<SchemaPosition>;
  /** Maximum number of ways in which the text can continue at one point. llama.cpp has a stack for each. */
  width: number;
}

/**
 * Throws 400 `invalid_value` for schemas whose grammar can exceed `MAX_WORK`. The work at a position is the larger of
 * two estimates. At the start of a value, llama.cpp follows all objects or all arrays that are possible there, because
 * they start the same way. In a nested value, it follows the members of all containers that the text before the nested
 * value does not distinguish.
 *
 * Repeats the estimates until they stop rising. Those of unbounded recursion rise until they exceed the limit, or until
 * they have taken `MAX_STEPS`.
 */
export function checkWork(positions: readonly SchemaPosition[], tokens: TokenSample): void {
  const works = new Map<SchemaPosition, number>();
  const ownWork = (container: Container): number => container.width * tokens.size * STACK_WORK;
  const memberWork = (container: Container): number =>
    Math.max(ownWork(container), ...Array.from(container.members, (position) => works.get(position) ?? 0));
  // The innermost positions are last. If the rounds start with them, a schema without recursion needs only one round.
  const innermostFirst = positions
    .map((position) => {
      const containers = [...position.containers];
      return { position, containers, sets: ambiguousSets(containers), first: initialWork(position, ownWork) };
    })
    .reverse();
  const stepsOfRound = innermostFirst.reduce((sum, each) => sum + stepsOf(each), 0);
  let steps = 0;
  for (let risen: SchemaPosition | undefined = innermostFirst[0]?.position; risen !== undefined;) {
    steps += stepsOfRound;
    if (steps > MAX_STEPS && steps > 2 * stepsOfRound) throw workError(risen);
    risen = undefined;
    for (const { position, containers, sets, first } of innermostFirst) {
      const members = containers.map(memberWork);
      const work = sets.reduce(
        (highest, set) =>
          Math.max(
            highest,
            set.reduce((sum, index) => sum + (members[index] ?? 0), 0),
          ),
        first,
      );
      if (work <= (works.get(position) ?? 0)) continue;
      if (work > MAX_WORK) throw workError(position);
      works.set(position, work);
      risen ??= position;
    }
  }
}

/** Maximum steps of the estimates, of about 5 ns, unless two rounds take more. */
const MAX_STEPS = 5_000_000;

/** Returns the steps of one estimate for a position. A member takes as long as ten containers of a set. */
function stepsOf({
  containers,
  sets,
}: {
  containers: readonly Container[];
  sets: readonly number[][];
}): number {
  const members = containers.reduce((sum, { members }) => sum + 1 + members.size, 1);
  return 10 * members + sets.reduce((sum, set) => sum + set.length, 0);
}

/** Returns the work at the start of a value, before its type is known. */
function initialWork(
  { work, containers }: SchemaPosition,
  ownWork: (container: Container) => number,
): number {
  const ofType = (type: Container['type']): number =>
    [...containers].reduce((sum, each) => sum + (each.type === type ? ownWork(each) : 0), 0);
  return Math.max(work, ofType('object'), ofType('array'));
}

function workError({ path, containers }: SchemaPosition) {
  const message =
    containers.size > 1
      ? 'Too many alternatives start the same way. Start each with a different required property, or with one that has a different `const`, or use fewer alternatives.'
      : 'The text can continue in too many ways here. Use fewer optional properties in a row.';
  return schemaError('invalid_value', path, message);
}

/**
 * Returns the work of an automaton in its most expensive state, or null if the estimate exceeds the budget of `rules`.
 * The estimate includes all paths of a token's length. If there are many, it includes only the paths that a sample of
 * the vocabulary's tokens takes.
 */
export function automatonWork(
  { states }: Automaton,
  tokens: TokenSample,
  rules: GrammarRules,
): number | null {
  const widths = states.map(({ transitions, accepts }) => transitions.length + (accepts ? FOLLOW_STACKS : 0));
  // When llama.cpp reaches a state, it creates the state's stacks and compares each with the others.
  const arrivals = widths.map((width) => 1 + 0.3 * width + 0.003 * width * width);
  const propagate = (of: readonly number[]): number[] =>
    states.map(({ transitions }) => transitions.reduce((sum, { to }) => sum + (of[to] ?? 0), 0));
  const steps = propagate(arrivals);
  let paths = steps;
  for (let length = 1; length < MAX_TOKEN_LENGTH; length += 1)
    paths = propagate(paths).map((work, i) => Math.min(MAX_WORK, work + (steps[i] ?? 0)));
  let highest = 0;
  for (const [index, { transitions }] of states.entries()) {
    const ranges = transitions.reduce((sum, { points }) => sum + points.length, 0);
    const first = tokens.size * ((widths[index] ?? 0) * STACK_WORK + ranges * RANGE_WORK);
    let pathWork = paths[index] ?? 0;
    if (pathWork > MAX_UNCHECKED_WORK) {
      const walk = tokens.walk(states, index, arrivals);
      if (!rules.spend(Math.ceil(walk.steps / 10))) return null;
      pathWork = Math.min(pathWork, walk.work);
    }
    highest = Math.max(highest, first + pathWork);
  }
  return highest;
}

/** Nearly all tokens have at most this length, in characters. */
const MAX_TOKEN_LENGTH = 16;

/** Up to this work, the estimate from all paths is used, and the sample of tokens is not followed. */
const MAX_UNCHECKED_WORK = 20_000;

/** Number of stacks for the text that can follow a value. */
const FOLLOW_STACKS = 4;

/** The size of a vocabulary and a sample of its tokens. */
export class TokenSample {
  readonly size: number;
  /** The code points of tokens at equal distances in the vocabulary. */
  readonly #tokens: readonly (readonly number[])[];

  /** `textOf` returns a token's text. */
  constructor(size: number, textOf: (token: number) => string) {
    this.size = size;
    const count = Math.min(size, SAMPLE_SIZE);
    this.#tokens = Array.from({ length: count }, (_, i) =>
      Array.from(textOf(Math.floor((i * size) / count)), (character) => character.codePointAt(0) ?? 0),
    );
  }

  /**
   * Follows the tokens from a state as llama.cpp does. `arrivals` is the work of reaching each state. Returns the work
   * for the whole vocabulary, and the number of steps that this took.
   */
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

const SAMPLE_SIZE = 500;

/**
 * Returns, for each container, the indexes of the containers (including itself) that can still match when a nested
 * value begins in it.
 */
function ambiguousSets(containers: readonly Container[]): number[][] {
  return containers.map((one) =>
    containers.flatMap((other, index) => (one === other || !isDistinguishable(one, other) ? [index] : [])),
  );
}

function isDistinguishable(one: Container, other: Container): boolean {
  if (one.type !== other.type) return true;
  if (one.type === 'array') return false;
  const [{ first, leading: these }, { first: second, leading: those }] = [startOf(one), startOf(other)];
  if (first !== null && second !== null && first.isDisjointFrom(second)) return true;
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

/** The starts of objects, each of which is compared with many others. */
const STARTS = new WeakMap<Container, ObjectStart>();

interface ObjectStart {
  first: Set<string> | null;
  leading: LeadingMember[];
}

interface LeadingMember {
  name: string;
  values: string[] | null;
  flat: boolean;
}

function startOf(container: Container): ObjectStart {
  const { schema } = container;
  const start = STARTS.get(container) ?? { first: firstNames(schema), leading: leadingMembers(schema) };
  STARTS.set(container, start);
  return start;
}

/** Returns the possible names of an object's first property, or null if any name is possible. */
function firstNames({
  required,
  properties,
  additionalProperties,
  propertyNames,
}: SchemaObject): Set<string> | null {
  if (typeof properties !== 'object' || properties === null || propertyNames !== undefined) return null;
  const needed = new Set<unknown>(Array.isArray(required) ? required : []);
  const names = Object.keys(properties);
  const end = names.findIndex((name) => needed.has(name));
  if (end === 0) return new Set(names.slice(0, 1));
  // Optional properties can be in any order.
  if (end !== -1) return new Set(names.filter((name, index) => index === end || !needed.has(name)));
  const closed = (additionalProperties ?? false) === false && needed.size === 0;
  return closed ? new Set(names) : null;
}

/**
 * Returns the required properties at the start of an object. `values` are those of a `const` or `enum`, as JSON. `flat`
 * is true if the property has no nested value.
 */
function leadingMembers(schema: SchemaObject): LeadingMember[] {
  const { required, properties } = schema;
  if (!Array.isArray(required) || typeof properties !== 'object' || properties === null) return [];
  const members = Object.entries(properties);
  const needed = new Set<unknown>(required);
  const optional = members.findIndex(([name]) => !needed.has(name));
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
