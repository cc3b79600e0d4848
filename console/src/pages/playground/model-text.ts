import type { ItemOf } from '../../api/client.ts';
import { byReadiness, generatesText, returnsEmbeddings } from '../../format/modality.ts';
import { money } from '../../format/money.ts';
import { bytes, percent, whole } from '../../format/number.ts';
import { wait } from '../../format/time.ts';

export type Model = ItemOf<'listServedModels'>;

/** Returns the state of a model, such as `Ready` or `Loading, 43%`. */
export function stateOf({ state, fraction, received_bytes, total_bytes, retry_in_ms }: Model): string {
  switch (state) {
    case 'ready':
      return 'Ready';
    case 'loading':
      return fraction === null ? 'Loading' : `Loading, ${percent(fraction)}`;
    case 'downloading':
      if (received_bytes === null) return 'Downloading';
      return `Downloading, ${bytes(received_bytes)}${total_bytes === null ? '' : ` of ${bytes(total_bytes)}`}`;
    case 'unloaded':
      return 'Not loaded';
    case 'idle':
      return 'Idle, loads on the next request';
    case 'down':
      return retry_in_ms === null ? 'Down' : `Down, retrying in ${wait(retry_in_ms)}`;
  }
}

export function summaryOf(model: Model): string {
  const { context_length: context } = model;
  const { prompt, input_cache_read: cached, completion } = model.pricing;
  const prices = !generatesText(model)
    ? money(prompt)
    : `${money(prompt)} in${cached === null ? '' : `, ${money(cached)} cached`}, ${money(completion)} out`;
  return [
    stateOf(model),
    ...(context === null ? [] : [`${whole(context)}-token context`]),
    `${prices} per million tokens`,
  ].join(' · ');
}

export type Capability = 'tools' | 'reasoning';

/** Returns a warning if a model does not have a capability or it is unknown, and null if the model has it. */
export function capabilityWarning(
  model: Pick<Model, 'id' | Capability>,
  capability: Capability,
): string | null {
  const name = model.id.split('/').at(-1);
  const ignored = capability === 'tools' ? 'them' : 'these settings';
  if (model[capability] === null) return `It is unknown whether ${name} supports ${capability}.`;
  return model[capability] ? null : `${name} does not support ${capability} and may ignore ${ignored}.`;
}

/**
 * Returns whether the playground compares texts instead of generating some: as the model or the mode in the URL says,
 * else if no model generates text.
 */
export function comparesTexts(
  query: URLSearchParams,
  models: readonly Pick<Model, 'id' | 'modality'>[],
): boolean {
  const chosen = models.find(({ id }) => id === query.get('model'));
  if (chosen !== undefined) return returnsEmbeddings(chosen);
  const mode = query.get('mode');
  if (mode !== null) return mode === 'embeddings';
  return models.length > 0 && models.every((model) => !generatesText(model));
}

/**
 * Returns the model that is closest to being ready and not among `used`. Returns the first used one if there are no
 * others, and an empty string if there are no models.
 */
export function initialModel(
  models: readonly Pick<Model, 'id' | 'state'>[],
  used: readonly string[] = [],
): string {
  const others = models.filter(({ id }) => !used.includes(id));
  return (byReadiness(others)[0] ?? models.find(({ id }) => id === used[0]) ?? models[0])?.id ?? '';
}
