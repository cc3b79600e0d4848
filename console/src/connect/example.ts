import type { ItemOf } from '../api/client.ts';
import { outputLabel } from '../format/modality.ts';

type Model = Pick<ItemOf<'listServedModels'>, 'id' | 'modality' | 'recommended_sampling'>;

/** Returns the body of a short request to a model. */
export function exampleFor({ id: model, modality, recommended_sampling: sampling }: Model) {
  const text = 'What is a sluice?';
  switch (outputLabel({ modality })) {
    case 'Embeddings':
      return { model, input: text };
    case 'Rerank':
      return { model, query: text, documents: ['A gate in a channel.', 'A kind of bread.'] };
    case null:
      return { model, messages: [{ role: 'user', content: text }], ...sampling };
  }
}
