import type { JsonSchema, Tool } from '../../../core/generation.ts';
import { jsonObject } from '../../../json/values.ts';
import { JSON_TYPES, type JsonType } from '../../../json/json-schema.ts';

/** The JSON types that the schema of an argument allows. */
export type ValueTypes = ReadonlySet<JsonType>;

const ANY: ValueTypes = new Set(Object.keys(JSON_TYPES) as JsonType[]);

/** Looks up the types of arguments in the schemas of the tools. Formats without JSON need them. */
export class ArgumentTypes {
  readonly #parameters: ReadonlyMap<string, JsonSchema>;

  constructor(tools: readonly Tool[]) {
    this.#parameters = new Map(tools.map((tool) => [tool.name, tool.parameters]));
  }

  /** Whether the schema of a tool lists an argument. */
  has(tool: string, argument: string): boolean {
    return Object.hasOwn(jsonObject(property(this.#parameters.get(tool), 'properties')), argument);
  }

  /** Returns the types of an argument. Allows any type if the tool, the argument or its type is unknown. */
  of(tool: string, argument: string): ValueTypes {
    const root = this.#parameters.get(tool) ?? true;
    const types = typesOf(property(property(root, 'properties'), argument), root, new Set());
    return types.size === 0 ? ANY : types;
  }
}

/** `seen`: the schemas that are already included, so that circular references end. */
function typesOf(schema: unknown, root: JsonSchema, seen: Set<unknown>): ValueTypes {
  if (typeof schema !== 'object' || schema === null) return ANY;
  if (seen.has(schema)) return new Set();
  seen.add(schema);
  const { $ref: reference, const: only, enum: values, type } = jsonObject(schema);
  if (typeof reference === 'string') return typesOf(resolve(reference, root), root, seen);
  if (only !== undefined) return typesOfValue(only);
  if (Array.isArray(values)) return union(values.map(typesOfValue));
  if (type !== undefined) {
    const names = [type].flat();
    return new Set((Object.keys(JSON_TYPES) as JsonType[]).filter((name) => names.includes(name)));
  }
  for (const keyword of ['anyOf', 'oneOf', 'allOf']) {
    const branches = property(schema, keyword);
    if (Array.isArray(branches)) return union(branches.map((branch) => typesOf(branch, root, seen)));
  }
  return ANY;
}

function typesOfValue(value: unknown): ValueTypes {
  return new Set([...ANY].filter((type) => JSON_TYPES[type](value)));
}

function union(types: readonly ValueTypes[]): ValueTypes {
  return new Set(types.flatMap((each) => [...each]));
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
  const object = jsonObject(schema);
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
