import type { Arguments, ItemOf } from '../../api/client.ts';
import type { FieldErrors } from '../../components/field-errors.ts';
import { typedAmount, typedWhole } from '../../format/typed-number.ts';

type Model = ItemOf<'listServedModels'>;
type NewModel = Arguments<'addModel'>['body'];
type NewServer = NonNullable<NewModel['replicas']>[number];

export type Modality = NonNullable<NewModel['modality']>;

export type Dialect = NewServer['dialect'];

export type PriceName = keyof Model['pricing'];

export interface OfferDraft extends Record<PriceName, string> {
  /** USD per million tokens. Empty: free. */
  prompt: string;
  completion: string;
  /** Empty: the same as `prompt`. */
  input_cache_read: string;
  /** In tokens. Empty: the default. */
  context: string;
}

export const NEW_OFFER: OfferDraft = { prompt: '', completion: '', input_cache_read: '', context: '' };

export function offerDraftOf({
  pricing,
  context_tokens: context,
}: Pick<Model, 'pricing' | 'context_tokens'>): OfferDraft {
  const text = (price: string) => (/[1-9]/.test(price) ? price : '');
  return {
    prompt: text(pricing.prompt),
    completion: text(pricing.completion),
    input_cache_read: pricing.input_cache_read ?? '',
    context: textOf(context),
  };
}

export interface ServerDraft {
  url: string;
  dialect: Dialect;
  /** Empty: the ID of the model. */
  model: string;
  /** Name of the environment variable with the API key. Empty: none. */
  keyVariable: string;
  /** Empty: unlimited. */
  maxInFlight: string;
}

export const NEW_SERVER: ServerDraft = {
  url: '',
  dialect: 'openai',
  model: '',
  keyVariable: '',
  maxInFlight: '',
};

interface Offer {
  pricing: Model['pricing'];
  /** Null: the default. */
  context_tokens: number | null;
}

/** An API value, or the validation errors of the input. */
export type Read<Value> = { value: Value; errors: null } | { value: null; errors: FieldErrors };

/** Converts the input to an API value, or returns validation errors. The API checks the ranges. */
export function offerOf(draft: OfferDraft): Read<Offer> {
  const errors: Record<string, string> = {};
  const price = (name: PriceName) => {
    if (draft[name].trim() === '') return null;
    const amount = typedAmount(draft[name]);
    if (amount !== null && /^\d{1,9}(\.\d{1,6})?$/.test(amount)) return amount;
    errors[`pricing.${name}`] = 'Enter an amount in USD with a decimal point, such as 0.15.';
    return null;
  };
  const pricing = {
    prompt: price('prompt') ?? '0',
    completion: price('completion') ?? '0',
    input_cache_read: price('input_cache_read'),
  };
  const context = countOf(draft.context);
  if (context === undefined) errors['context_tokens'] = 'Enter a number of tokens, such as 4096.';
  return Object.keys(errors).length > 0
    ? { value: null, errors }
    : { value: { pricing, context_tokens: context ?? null }, errors: null };
}

/** Converts valid changes of a draft to those of the API. The prices of a model are changed together. */
export function offerChange(
  draft: OfferDraft,
  changed: Partial<OfferDraft> & { keep?: boolean },
): Partial<Offer> & { keep?: boolean } {
  const { value } = offerOf(draft);
  const hasPrice = PRICES.some((name) => changed[name] !== undefined);
  return {
    ...(value !== null && hasPrice && { pricing: value.pricing }),
    ...(value !== null && changed.context !== undefined && { context_tokens: value.context_tokens }),
    ...(changed.keep !== undefined && { keep: changed.keep }),
  };
}

const PRICES = ['prompt', 'completion', 'input_cache_read'] as const satisfies readonly PriceName[];

/** Like `offerOf`. The names of the errors start with `prefix`. */
export function serverOf(draft: ServerDraft, prefix: string): Read<NewServer> {
  const maxInFlight = countOf(draft.maxInFlight);
  if (maxInFlight === undefined) {
    return { value: null, errors: { [`${prefix}max_in_flight`]: 'Enter a number of requests, such as 64.' } };
  }
  const { url, dialect, model, keyVariable } = draft;
  return {
    value: {
      url: url.trim(),
      dialect,
      ...(model.trim() !== '' && { model: model.trim() }),
      ...(keyVariable.trim() !== '' && { api_key_env: keyVariable.trim() }),
      ...(maxInFlight !== null && { max_in_flight: maxInFlight }),
    },
    errors: null,
  };
}

/** Returns null for an empty text, and undefined for one that is not a count. */
function countOf(text: string): number | null | undefined {
  if (text.trim() === '') return null;
  const digits = typedWhole(text);
  return digits !== null && /^[1-9]\d{0,8}$/.test(digits) ? Number(digits) : undefined;
}

const textOf = (count: number | null): string => (count === null ? '' : String(count));
