/** Chat or text completion. */
export type Mode = 'chat' | 'text';

/** A numeric parameter. */
export interface NumberParameter {
  /** API name. */
  name: NumberName;
  label: string;
  /** Help text of one sentence. */
  hint: string;
  modes: readonly Mode[];
  whole: boolean;
  min: number;
  max: number;
  /** `min` itself is not allowed. */
  aboveMin?: boolean;
  /** Default, as shown in the field. */
  fallback: string;
  /** Step of the slider; default: no slider. */
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

/** Largest count that the API accepts: a signed 32-bit integer. */
const MAX_COUNT = 2_147_483_647;

/** The parameters that most requests set. */
export const COMMON: readonly NumberParameter[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 always picks the most likely token.',
    modes: BOTH,
    whole: false,
    min: 0,
    max: 2,
    fallback: '1',
    step: 0.05,
  },
  {
    name: 'max_tokens',
    label: 'Maximum tokens',
    hint: 'Also limited by the context length.',
    modes: BOTH,
    whole: true,
    min: 1,
    max: MAX_COUNT,
    fallback: 'Maximum',
  },
];

/** Other parameters that control how tokens are chosen. */
export const SAMPLING: readonly NumberParameter[] = [
  {
    name: 'top_p',
    label: 'Top P',
    hint: 'Samples from the smallest set of tokens whose probabilities add up to this value.',
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
    hint: 'Samples from this many of the most likely tokens; 0 for all.',
    modes: BOTH,
    whole: true,
    min: 0,
    max: MAX_COUNT,
    fallback: 'Default',
    unit: 'tokens',
  },
  {
    name: 'min_p',
    label: 'Min P',
    hint: 'Excludes tokens whose probability is below this fraction of the highest probability.',
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
    hint: 'The same seed and request usually return the same text.',
    modes: BOTH,
    whole: true,
    // The API accepts 64 bits, but larger numbers are not exact in JavaScript.
    min: Number.MIN_SAFE_INTEGER,
    max: Number.MAX_SAFE_INTEGER,
    fallback: 'Random',
  },
];

/** Parameters that penalize repeated tokens. */
export const PENALTIES: readonly NumberParameter[] = [
  {
    name: 'frequency_penalty',
    label: 'Frequency penalty',
    hint: 'Above 0, each repetition makes a token less likely.',
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
    hint: 'Above 0, tokens that already occurred are less likely.',
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
    hint: 'Above 1, tokens that already occurred are less likely.',
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
  hint: 'Number of completions. The service may allow fewer.',
  modes: BOTH,
  whole: true,
  min: 1,
  max: 128,
  fallback: '1',
};

/** Text completions allow at most 5, under another name: see `request.ts`. */
export const TOP_LOGPROBS: NumberParameter = {
  name: 'top_logprobs',
  label: 'Top log probabilities',
  hint: 'Number of most likely tokens to return at each position.',
  modes: ['chat'],
  whole: true,
  min: 0,
  max: 20,
  fallback: '0',
  step: 1,
};

/** `TOP_LOGPROBS` for text completions. */
export const TEXT_TOP_LOGPROBS: NumberParameter = { ...TOP_LOGPROBS, modes: ['text'], max: 5 };

/** All numeric parameters, in request order. */
export const NUMBERS: readonly NumberParameter[] = [
  ...COMMON,
  ...SAMPLING,
  ...PENALTIES,
  CHOICES,
  TOP_LOGPROBS,
];

/** Returns the accepted range, such as `0 to 2`. */
export function boundsOf({ min, max, aboveMin, whole }: NumberParameter): string {
  const top = max === MAX_COUNT || max === Number.MAX_SAFE_INTEGER;
  if (min === Number.MIN_SAFE_INTEGER) return 'Any whole number';
  if (aboveMin) return `Greater than ${min}, at most ${max}`;
  if (top) return `${whole ? 'A whole number, ' : ''}${min} or more`;
  return `${min} to ${max}`;
}

/** Validates a typed number; null: valid or empty. */
export function numberError(parameter: NumberParameter, typed: string): string | null {
  const text = typed.trim();
  if (text === '') return null;
  const value = Number(text);
  if (!Number.isFinite(value)) return 'Enter a number.';
  if (parameter.whole && !Number.isInteger(value)) return 'Enter a whole number.';
  const low = parameter.aboveMin ? value <= parameter.min : value < parameter.min;
  return low || value > parameter.max
    ? `Out of range. Accepted: ${boundsOf(parameter).toLowerCase()}.`
    : null;
}
