import type { JsonSchema, Tool } from '../../../generation.ts';

/** The JSON types that the schema of an argument allows. */
export interface ValueTypes {
  string: boolean;
  /** Any type other than string. */
  other: boolean;
}

/** Maximum number of nested references and unions. */
const MAX_DEPTH = 16;

const ANY: ValueTypes = { string: true, other: true };

/** Looks up the types of arguments in the schemas of the tools. Formats without JSON need them. */
export class ArgumentTypes {
  readonly #parameters: ReadonlyMap<string, JsonSchema>;

  constructor(tools: readonly Tool[]) {
    this.#parameters = new Map(tools.map((tool) => [tool.name, tool.parameters]));
  }

  /** Returns the types of an argument. Allows any type if the tool, the argument or its type is unknown. */
  of(tool: string, argument: string): ValueTypes {
    const root = this.#parameters.get(tool) ?? true;
    return typesOf(property(property(root, 'properties'), argument), root, 0);
  }

  /** Returns the values that the schema of an argument lists, or null if it lists none. */
  choices(tool: string, argument: string): readonly unknown[] | null {
    const schema = property(property(this.#parameters.get(tool), 'properties'), argument);
    const only = property(schema, 'const');
    if (only !== undefined) return [only];
    const values = property(schema, 'enum');
    return Array.isArray(values) && values.length > 0 ? values : null;
  }
}

function typesOf(schema: unknown, root: JsonSchema, depth: number): ValueTypes {
  if (depth > MAX_DEPTH || typeof schema !== 'object' || schema === null) return ANY;
  const { $ref: reference, const: only, enum: values, type } = asObject(schema);
  if (typeof reference === 'string') return typesOf(resolve(reference, root), root, depth + 1);
  if (only !== undefined) return union([typesOfValue(only)]);
  if (Array.isArray(values)) return union(values.map(typesOfValue));
  if (typeof type === 'string') return typesOfName(type);
  if (Array.isArray(type)) return union(type.map(typesOfName));
  for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
    const branches = property(schema, keyword);
    if (Array.isArray(branches)) return union(branches.map((branch) => typesOf(branch, root, depth + 1)));
  }
  return ANY;
}

function typesOfValue(value: unknown): ValueTypes {
  return typesOfName(typeof value);
}

function typesOfName(type: unknown): ValueTypes {
  return { string: type === 'string', other: type !== 'string' };
}

function union(types: readonly ValueTypes[]): ValueTypes {
  return { string: types.some((each) => each.string), other: types.some((each) => each.other) };
}

/** Resolves a reference inside the document, such as `#/$defs/Color`. */
function resolve(reference: string, root: JsonSchema): unknown {
  if (!reference.startsWith('#')) return undefined;
  const path = reference.split('/').slice(1);
  return path.reduce<unknown>(
    (schema, part) => property(schema, part.replaceAll('~1', '/').replaceAll('~0', '~')),
    root,
  );
}

function property(schema: unknown, name: string): unknown {
  const object = asObject(schema);
  return Object.hasOwn(object, name) ? object[name] : undefined;
}

function asObject(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
