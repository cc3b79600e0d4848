import type { EngineState } from '../engine/engine.ts';
import type { ModelOverview } from './router.ts';

/** How far one replica is on its way. `fraction` is 0 to 1, or null where it cannot be told. */
export interface Progress {
  phase: 'downloading' | 'loading' | 'down';
  fraction: number | null;
}

/** True when every required model can generate; where none is required, when any one can. */
export function isReady(models: readonly ModelOverview[]): boolean {
  const able = (model: ModelOverview) => model.replicas.some(({ state }) => state.state === 'ready');
  const required = models.filter((model) => model.required);
  return required.length > 0 ? required.every(able) : models.some(able);
}

/** How far the models are that are still on their way: no names, no reasons. */
export function progress(models: readonly ModelOverview[]): Progress[] {
  return models.flatMap((model) => model.replicas).flatMap(({ state }) => phase(state) ?? []);
}

function phase(state: EngineState): Progress | null {
  switch (state.state) {
    case 'downloading': {
      const { pull } = state;
      const fraction = pull?.totalBytes ? pull.receivedBytes / pull.totalBytes : null;
      return { phase: 'downloading', fraction };
    }
    case 'loading':
      return { phase: 'loading', fraction: state.fraction };
    case 'ready':
      return null;
    case 'down':
      return { phase: 'down', fraction: null };
  }
}
