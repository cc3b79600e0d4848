import type { ModelCard } from '../../core/generation.ts';

/** Formats a model as Anthropic's API does. */
export function formatModel(card: ModelCard): object {
  return {
    type: 'model',
    id: card.id,
    display_name: card.id,
    created_at: new Date(card.created * 1000).toISOString(),
    max_input_tokens: card.context_length,
    max_tokens: card.max_completion_tokens,
    capabilities: null,
    lifecycle: 'active',
    line: null,
    deprecated_at: null,
    retires_at: null,
  };
}

/** Formats all models as one page. */
export function formatModelList(cards: readonly ModelCard[]): object {
  return {
    data: cards.map(formatModel),
    has_more: false,
    first_id: cards[0]?.id ?? null,
    last_id: cards.at(-1)?.id ?? null,
  };
}
