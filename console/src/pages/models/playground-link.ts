import type { ItemOf } from '../../api/client.ts';
import { outputLabel } from '../../format/modality.ts';

type Model = Pick<ItemOf<'listServedModels'>, 'id' | 'modality' | 'state'>;

/** Returns why the playground cannot use a model; null: it can. */
export function unusable({ modality, state }: Model): string | null {
  if (outputLabel({ modality }) === 'Rerank') return 'The playground has no rerankers';
  if (state === 'down') return 'The model is down';
  return state === 'unloaded' ? 'The model is not loaded' : null;
}

/** Returns the path of the playground with a model. */
export const playgroundWith = ({ id }: Model): string => `/playground?model=${encodeURIComponent(id)}`;
