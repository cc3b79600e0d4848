import { money } from '../../format/money.ts';
import { bytes, percent, whole } from '../../format/number.ts';
import type { Model } from './context.ts';
import { wait } from './wait.ts';

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
    case 'down':
      return retry_in_ms === null ? 'Down' : `Down, retrying in ${wait(retry_in_ms)}`;
  }
}

/** Returns the state, context length and prices of a model on one line. */
export function wordsOf(model: Model): string {
  const { context_length: context, pricing } = model;
  return [
    stateOf(model),
    ...(context === null ? [] : [`${whole(context)} tokens`]),
    `${money(pricing.prompt)} in, ${money(pricing.completion)} out per million`,
  ].join(' · ');
}

/** Returns a ready model, if possible other than `other`; else any model; empty: no models. */
export function initialModel(models: readonly Model[], other?: string): string {
  const ready = models.filter(({ state }) => state === 'ready');
  const chosen = ready.find(({ id }) => id !== other) ?? ready[0] ?? models[0];
  return chosen?.id ?? '';
}
