import type { ItemOf } from '../api/client.ts';

type Served = ItemOf<'listServedModels'>;
type Model = Pick<Served, 'modality'>;

/** Returns whether a model returns embeddings instead of text. False while its modality is unknown. */
export const returnsEmbeddings = ({ modality }: Model): boolean => modality?.endsWith('->embedding') === true;

/** Names what a model returns instead of text; null: it generates text, or its modality is unknown. */
export function outputLabel({ modality }: Model): 'Embeddings' | 'Rerank' | null {
  if (returnsEmbeddings({ modality })) return 'Embeddings';
  return modality?.endsWith('->rerank') === true ? 'Rerank' : null;
}

/** Returns whether a model generates text. True while its modality is unknown. */
export const generatesText = (model: Model): boolean => outputLabel(model) === null;

/** Formats a modality other than plain text, such as `text, image to text`; null: plain text, or unknown. */
export function modalityText({ modality }: Model): string | null {
  if (modality === null || modality === 'text->text') return null;
  return modality.replace('->', ' to ').replaceAll('+', ', ');
}

/** Formats what a model is known to do; empty: nothing. */
export function capabilityText({ tools, reasoning }: Pick<Served, 'tools' | 'reasoning'>): string {
  if (tools) return reasoning ? 'Tools, reasoning' : 'Tools';
  return reasoning ? 'Reasoning' : '';
}
