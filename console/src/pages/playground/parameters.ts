/** Both kinds of generation. */
export type Mode = 'chat' | 'text';

/** A parameter that is one number. */
export interface NumberParameter {
  /** As the interface names it. */
  name: NumberName;
  label: string;
  /** What it does, in one sentence. */
  hint: string;
  modes: readonly Mode[];
  whole: boolean;
  min: number;
  max: number;
  /** The least value itself is not allowed. */
  aboveMin?: boolean;
  /** What holds where it is not set, as the field shows it. */
  fallback: string;
  /** What its slider goes by; left out: its values are too many for one. */
  step?: number;
  unit?: string;
}

type NumberName =
  | 'max_tokens'
  | 'temperature'
  | 'top_p'
  | 'top_k'
  | 'min_p'
  | 'seed'
  | 'frequency_penalty'
  | 'presence_penalty'
  | 'repetition_penalty'
  | 'n'
  | 'top_logprobs';

const BOTH = ['chat', 'text'] as const;

/** Largest number that the interface takes as a count: a signed integer of 32 bits. */
const MOST = 2_147_483_647;

/** What the text is cut by. */
export const LENGTH: readonly NumberParameter[] = [
  {
    name: 'max_tokens',
    label: 'Maximum length',
    hint: 'The context may end the text earlier.',
    modes: BOTH,
    whole: true,
    min: 1,
    max: MOST,
    fallback: 'what the context leaves',
    unit: 'tokens',
  },
];

/** How each token is chosen. */
export const SAMPLING: readonly NumberParameter[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 always takes the likeliest token.',
    modes: BOTH,
    whole: false,
    min: 0,
    max: 2,
    fallback: '1',
    step: 0.05,
  },
  {
    name: 'top_p',
    label: 'Top P',
    hint: 'Keeps the likeliest tokens of this probability in all.',
    modes: BOTH,
    whole: false,
    min: 0,
    aboveMin: true,
    max: 1,
    fallback: '1',
    step: 0.01,
  },
  {
    name: 'top_k',
    label: 'Top K',
    hint: 'So many of the likeliest tokens are kept; 0 keeps all.',
    modes: BOTH,
    whole: true,
    min: 0,
    max: MOST,
    fallback: 'the engine’s own',
    unit: 'tokens',
  },
  {
    name: 'min_p',
    label: 'Min P',
    hint: 'Drops tokens below this share of the likeliest.',
    modes: BOTH,
    whole: false,
    min: 0,
    max: 1,
    fallback: '0',
    step: 0.01,
  },
  {
    name: 'seed',
    label: 'Seed',
    hint: 'The same seed and request give the same text.',
    modes: BOTH,
    whole: true,
    // The interface takes 64 bits; beyond these a number of JSON is not exact in a browser.
    min: Number.MIN_SAFE_INTEGER,
    max: Number.MAX_SAFE_INTEGER,
    fallback: 'another each time',
  },
];

/** What tokens that have occurred lose. */
export const PENALTIES: readonly NumberParameter[] = [
  {
    name: 'frequency_penalty',
    label: 'Frequency penalty',
    hint: 'Above 0, each occurrence makes a token less likely.',
    modes: BOTH,
    whole: false,
    min: -2,
    max: 2,
    fallback: '0',
    step: 0.05,
  },
  {
    name: 'presence_penalty',
    label: 'Presence penalty',
    hint: 'Above 0, tokens that occurred are less likely.',
    modes: BOTH,
    whole: false,
    min: -2,
    max: 2,
    fallback: '0',
    step: 0.05,
  },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: 'Divides the odds of tokens that occurred.',
    modes: BOTH,
    whole: false,
    min: 0,
    aboveMin: true,
    max: 2,
    fallback: '1',
    step: 0.05,
  },
];

export const CHOICES: NumberParameter = {
  name: 'n',
  label: 'Choices',
  hint: 'Answers to one prompt. The service may allow fewer.',
  modes: BOTH,
  whole: true,
  min: 1,
  max: 128,
  fallback: '1',
};

/** A text completion has at most 5 of these, under another name: see `request.ts`. */
export const TOP_LOGPROBS: NumberParameter = {
  name: 'top_logprobs',
  label: 'Alternatives to each token',
  hint: 'So many of the likeliest tokens are listed at each place.',
  modes: ['chat'],
  whole: true,
  min: 0,
  max: 20,
  fallback: '0',
  step: 1,
};

/** The same where a text is completed. */
export const TEXT_TOP_LOGPROBS: NumberParameter = { ...TOP_LOGPROBS, modes: ['text'], max: 5 };

/** Every parameter that is one number, in the order in which they stand in a request. */
export const NUMBERS: readonly NumberParameter[] = [
  ...LENGTH,
  ...SAMPLING,
  ...PENALTIES,
  CHOICES,
  TOP_LOGPROBS,
];

/** Its bounds in words, such as `0 to 2`. */
export function boundsOf({ min, max, aboveMin, whole }: NumberParameter): string {
  const top = max === MOST || max === Number.MAX_SAFE_INTEGER;
  if (min === Number.MIN_SAFE_INTEGER) return 'Any whole number';
  if (aboveMin) return `Above ${min}, up to ${max}`;
  if (top) return `${whole ? 'A whole number, ' : ''}${min} or more`;
  return `${min} to ${max}`;
}

/** What is wrong with a number as it was typed; null: nothing, also where nothing was typed. */
export function faultOfNumber(parameter: NumberParameter, typed: string): string | null {
  const text = typed.trim();
  if (text === '') return null;
  const value = Number(text);
  if (!Number.isFinite(value)) return 'This is not a number.';
  if (parameter.whole && !Number.isInteger(value)) return 'This is not a whole number.';
  const low = parameter.aboveMin ? value <= parameter.min : value < parameter.min;
  return low || value > parameter.max ? `Out of bounds: ${boundsOf(parameter).toLowerCase()}.` : null;
}
