import type { ModelCard } from '../generation.ts';

/** One model as it stands in the list and as `GET /v1/models/<id>` answers it. */
export interface ModelElement {
  id: string;
  object: 'model';
  created: number;
  owned_by: string;
  architecture: { instruct_type: string | null; modality: string; tokenizer: string };
  context_length: number;
  max_completion_tokens: number;
  pricing: { prompt: string; completion: string };
  quantization: string;
}

/** The wire object of a model, field by field, so that nothing else of a card can slip out. */
export function modelElement(card: ModelCard): ModelElement {
  const { architecture, pricing } = card;
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
    pricing: { prompt: pricing.prompt, completion: pricing.completion },
    quantization: card.quantization,
  };
}

/** The answer of `GET /v1/models`: `data` and no other field. */
export function modelList(cards: readonly ModelCard[]): { data: ModelElement[] } {
  return { data: cards.map(modelElement) };
}
