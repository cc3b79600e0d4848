import type { Schema } from '../engine/llama/json-schema.ts';

/** Counts the reads of a schema's values by `use`. */
export function readsOf(schema: object, use: (schema: Schema) => void): number {
  let reads = 0;
  const proxies = new Map<unknown, unknown>();
  const counted = (value: unknown): unknown => {
    if (typeof value !== 'object' || value === null) return value;
    const proxy = proxies.get(value) ?? counting(value);
    proxies.set(value, proxy);
    return proxy;
  };
  const counting = (value: object): object =>
    new Proxy(value, {
      get: (target, name, receiver) => (reads++, counted(Reflect.get(target, name, receiver))),
      has: (target, name) => (reads++, Reflect.has(target, name)),
      ownKeys: (target) => (reads++, Reflect.ownKeys(target)),
      getOwnPropertyDescriptor: (target, name) => {
        reads++;
        const found = Reflect.getOwnPropertyDescriptor(target, name);
        return found && { ...found, value: counted(found.value) };
      },
    });
  use(counted(schema) as Schema);
  return reads;
}

/** Returns definitions `d0`, `d1` and so on. */
export const definitions = (count: number, schema: (index: number) => unknown) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`d${index}`, schema(index)]));

/** Returns a reference to a definition. */
export const to = (index: number) => ({ $ref: `#/$defs/d${index}` });
