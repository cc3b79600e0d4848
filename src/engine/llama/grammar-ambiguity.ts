import { MAX_BRANCHES, refuseSchema, type SchemaObject } from './grammar-keywords.ts';

/** Somewhere in a schema a value stands; these are the objects and arrays that it may be. */
export interface Place {
  readonly path: string;
  readonly containers: Set<Container>;
}

/** An object or array type with the places of its members. */
export interface Container {
  readonly type: 'object' | 'array';
  readonly schema: SchemaObject;
  readonly members: Set<Place>;
}

/**
 * Refuses schemas under which one text can be read in very many ways at once. llama.cpp follows every way until it
 * fails, so two arrays of themselves that begin alike would double the work with each bracket.
 *
 * The ways at a place are those of its containers that cannot be told apart before something nests in them, added
 * up; the ways of a container are those of its richest member. This is solved by raising the numbers until they
 * hold; in a circle that adds, they rise past the bound. Throws 400 `invalid_value`.
 */
export function refuseAmbiguity(places: readonly Place[]): void {
  const ways = new Map<Place, number>();
  const waysIn = ({ members }: Container): number =>
    Math.max(1, ...Array.from(members, (place) => ways.get(place) ?? 1));
  // The innermost were met last, so one round is enough unless the schema is recursive.
  const inward = places.map((place) => ({ place, sets: rivals(place) })).reverse();
  for (let rising = true; rising;) {
    rising = false;
    for (const { place, sets } of inward) {
      const most = Math.max(
        1,
        ...sets.map((set) => set.reduce((sum, container) => sum + waysIn(container), 0)),
      );
      if (most <= (ways.get(place) ?? 1)) continue;
      if (most > MAX_BRANCHES) throw ambiguous(place.path);
      ways.set(place, most);
      rising = true;
    }
  }
}

function ambiguous(path: string) {
  const message =
    "These alternatives begin alike and nest too deep to follow them all: let each begin with a required property of its own, or with one whose 'const' tells them apart.";
  return refuseSchema('invalid_value', path, message);
}

/** For each container of a place all those, itself included, that a text may still be while members nest in it. */
function rivals({ containers }: Place): Container[][] {
  const all = [...containers];
  return all.map((one) => all.filter((other) => one === other || !toldApart(one, other)));
}

function toldApart(one: Container, other: Container): boolean {
  if (one.type !== other.type) return true;
  if (one.type === 'array') return false;
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
