import type { NamedReplica } from '../config/model.ts';

/** Returns the name of the embedded engine of a model. */
export const embeddedName = (model: string): string => `embedded:${model}`;

/** Returns a default name that is greater than those of `replicas`. */
export function nextReplicaName(id: string, replicas: readonly NamedReplica[]): string {
  const prefix = `${id}#`;
  const numbers = replicas
    .filter(({ name }) => name.startsWith(prefix))
    .map(({ name }) => Number(name.slice(prefix.length)))
    .filter((number) => Number.isSafeInteger(number));
  return `${prefix}${Math.max(-1, ...numbers) + 1}`;
}
