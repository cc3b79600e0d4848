import type { ModelCard } from '../../core/generation.ts';

type ModelObject = Omit<
  ModelCard,
  'recommendedSampling' | 'defaultSampling' | 'toolFormat' | 'tools' | 'reasoning'
> & {
  object: 'model';
};

/** Formats a model for `GET /v1/models` and `GET /v1/models/<id>`. Copies each field, so that no other field of the card is published. */
export function formatModel(card: ModelCard): ModelObject {
  const { architecture } = card;
  const { prompt, completion, input_cache_read: cached } = card.pricing;
  return {
    id: card.id,
    object: 'model',
    created: card.created,
    owned_by: card.owned_by,
    architecture: {
      instruct_type: architecture.instruct_type,
      modality: architecture.modality,
      tokenizer: architecture.tokenizer,
    },
    context_length: card.context_length,
    max_completion_tokens: card.max_completion_tokens,
    pricing: { prompt, completion, ...(cached !== undefined && { input_cache_read: cached }) },
    quantization: card.quantization,
  };
}

export function formatModelList(cards: readonly ModelCard[]): { data: ModelObject[] } {
  return { data: cards.map(formatModel) };
}
