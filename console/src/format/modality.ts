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

/** Returns a short request to a model, in the format of its API. */
export function exampleRequest(model: Pick<Served, 'id' | 'modality' | 'recommended_sampling'>) {
  const content = 'What is a sluice?';
  switch (outputLabel(model)) {
    case 'Embeddings':
      return { model: model.id, input: content };
    case 'Rerank':
      return { model: model.id, query: content, documents: ['A gate in a channel.', 'A kind of bread.'] };
    case null:
      return { model: model.id, messages: [{ role: 'user', content }], ...model.recommended_sampling };
  }
}

/** The states of a model, best first. */
const STATE_ORDER: readonly Served['state'][] = [
  'ready',
  'idle',
  'loading',
  'downloading',
  'unloaded',
  'down',
];

/** Returns the first model that is closest to being ready, one that generates text if there is any. */
export function closestToReady(models: readonly Served[]): Served | undefined {
  const generating = models.filter(generatesText);
  return byReadiness(generating.length > 0 ? generating : models)[0];
}

export function byReadiness<M extends Pick<Served, 'state'>>(models: readonly M[]): M[] {
  return models.toSorted((a, b) => STATE_ORDER.indexOf(a.state) - STATE_ORDER.indexOf(b.state));
}
