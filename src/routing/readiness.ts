import type { ReplicaState } from './replica.ts';
import type { ModelOverview } from './served-model.ts';

/** The start progress of a replica. `fraction` is 0 to 1; null: unknown. */
export interface ReplicaProgress {
  phase: 'downloading' | 'loading' | 'down';
  fraction: number | null;
}

/**
 * Whether every required model can generate, or any model if none is required. A paused replica counts, because
 * it gets requests that no other replica can take. An idle model counts too, because the next request loads it.
 */
export function isReady(models: readonly ModelOverview[]): boolean {
  const able = (model: ModelOverview) =>
    model.replicas.some(({ state, waking }) => waking || canGenerate(state));
  const required = models.filter((model) => model.required);
  return required.length > 0 ? required.every(able) : models.some(able);
}

function canGenerate(state: ReplicaState): boolean {
  return state.state === 'ready' || state.state === 'paused' || state.state === 'idle';
}

/** Returns the progress of the replicas that are starting, drained or down, without names or reasons. */
export function progress(models: readonly ModelOverview[]): ReplicaProgress[] {
  return models.flatMap((model) => model.replicas).flatMap(({ state }) => phase(state) ?? []);
}

function phase(state: ReplicaState): ReplicaProgress | null {
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
    case 'unloaded':
    case 'idle':
      return null;
    case 'drained':
    case 'down':
      return { phase: 'down', fraction: null };
  }
}
