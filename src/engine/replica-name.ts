/** Returns the name of the embedded engine of a model. */
export const embeddedName = (model: string): string => `embedded:${model}`;

/** Returns the name of a configured replica. `index` is its position among the replicas of the model. */
export const replicaName = (model: string, index: number): string => `${model}#${index}`;
