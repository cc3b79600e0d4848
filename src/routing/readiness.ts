import type { ReplicaState } from './replica.ts';
import type { ModelOverview } from './served-model.ts';

/** How far one replica is on its way. `fraction` is 0 to 1, or null where it cannot be told. */
export interface Progress {
  phase: 'downloading' | 'loading' | 'down';
  fraction: number | null;
}

/**
 * True when every required model can generate; where none is required, when any one can. A paused replica counts:
 * it still gets the requests that no other replica can take.
 */
export function isReady(models: readonly ModelOverview[]): boolean {
  const able = (model: ModelOverview) => model.replicas.some(({ state }) => phase(state) === null);
  const required = models.filter((model) => model.required);
  return required.length > 0 ? required.every(able) : models.some(able);
}

/** How far the models are that are still on their way: no names, no reasons. */
export function progress(models: readonly ModelOverview[]): Progress[] {
  return models.flatMap((model) => model.replicas).flatMap(({ state }) => phase(state) ?? []);
}

function phase(state: ReplicaState): Progress | null {
  switch (state.state) {
    case 'downloading': {
      const { pull } = state;
      const fraction = pull?.totalBytes ? pull.receivedBytes / pull.totalBytes : null;
      return { phase: 'downloading', fraction };
    }
    case 'loading':
      return { phase: 'loading', fraction: state.fraction };
    case 'ready':
    case 'paused':
      return null;
    case 'down':
      return { phase: 'down', fraction: null };
  }
}
