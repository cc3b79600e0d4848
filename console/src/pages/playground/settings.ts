import type { FieldErrors } from '../../components/field-errors.ts';
import { isObject, readJson } from '../../format/json.ts';
import { readTools, toolNames } from './tools.ts';

/** The parameters of a request as typed, including invalid input. */
export interface Settings {
  /** By API name; missing or empty values are not sent. */
  numbers: Readonly<Partial<Record<NumberParameter['name'], string>>>;
  /** May contain the escapes `\n`, `\t` and `\\`. */
  stop: readonly string[];
  format: 'text' | 'json_object' | 'json_schema';
  schemaName: string;
  schema: string;
  logprobs: boolean;
  user: string;
  stream: boolean;
  /** A JSON array of tools or functions; empty: none. */
  tools: string;
  toolChoice: ToolChoice;
  parallelToolCalls: boolean;
  /** Empty: the model's default. */
  reasoningEffort: ReasoningEffort | '';
  /** A JSON object; empty: none. */
  templateVariables: string;
}

/** `function:` is followed by the name of the function that the model must call. */
export type ToolChoice = 'auto' | 'none' | 'required' | `function:${string}`;

/** Returns the name of the function that the model must call; null: another choice. */
export function chosenFunction(choice: ToolChoice): string | null {
  return choice.startsWith('function:') ? choice.slice('function:'.length) : null;
}

/** The values of `reasoning_effort`. */
export const REASONING_EFFORTS = ['none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max'] as const;
type ReasoningEffort = (typeof REASONING_EFFORTS)[number];

const EXAMPLE_SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 40 }, capital: { type: 'boolean' } },
  required: ['city', 'capital'],
  additionalProperties: false,
};

/** Initial settings: the defaults of the service, with streaming. */
export const DEFAULTS: Settings = {
  numbers: {},
  stop: [],
  format: 'text',
  schemaName: 'answer',
  schema: JSON.stringify(EXAMPLE_SCHEMA, null, 2),
  logprobs: false,
  user: '',
  stream: true,
  tools: '',
  toolChoice: 'auto',
  parallelToolCalls: true,
  reasoningEffort: '',
  templateVariables: '',
};

/** A numeric parameter. */
export interface NumberParameter {
  /** API name. */
  name: NumberName;
  label: string;
  /** Help text of one sentence. */
  hint: string;
  /** Only whole numbers. */
  whole?: true;
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
  | 'top_logprobs'
  | 'reasoning.max_tokens';

/** Largest count that the API accepts: a signed 32-bit integer. */
const MAX_COUNT = 2_147_483_647;

/** The parameters that most requests set. */
export const COMMON: readonly NumberParameter[] = [
  {
    name: 'temperature',
    label: 'Temperature',
    hint: '0 always picks the most likely token.',
    min: 0,
    max: 2,
    fallback: '1',
    step: 0.05,
  },
  {
    name: 'max_tokens',
    label: 'Maximum tokens',
    hint: 'Also limited by the context length.',
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
    min: 0,
    max: 1,
    fallback: '1',
    step: 0.01,
  },
  {
    name: 'top_k',
    label: 'Top K',
    hint: 'Samples from this many of the most likely tokens; 0 for all.',
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
    min: 0,
    max: 1,
    fallback: '0',
    step: 0.01,
  },
  {
    name: 'seed',
    label: 'Seed',
    hint: 'The same seed and request usually return the same text.',
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
    min: -2,
    max: 2,
    fallback: '0',
    step: 0.05,
  },
  {
    name: 'presence_penalty',
    label: 'Presence penalty',
    hint: 'Above 0, tokens that already occurred are less likely.',
    min: -2,
    max: 2,
    fallback: '0',
    step: 0.05,
  },
  {
    name: 'repetition_penalty',
    label: 'Repetition penalty',
    hint: 'Above 1, tokens that already occurred are less likely.',
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
  whole: true,
  min: 1,
  max: 128,
  fallback: '1',
};

export const TOP_LOGPROBS: NumberParameter = {
  name: 'top_logprobs',
  label: 'Top log probabilities',
  hint: 'Number of most likely tokens to return at each position.',
  whole: true,
  min: 0,
  max: 20,
  fallback: '0',
  step: 1,
};

export const BUDGET: NumberParameter = {
  name: 'reasoning.max_tokens',
  label: 'Reasoning budget',
  hint: 'After this many tokens, the reasoning is ended and the answer begins.',
  whole: true,
  min: 1,
  max: MAX_COUNT,
  fallback: 'That of the effort',
};

/** All numeric parameters, in request order. */
export const NUMBERS: readonly NumberParameter[] = [
  ...COMMON,
  ...SAMPLING,
  ...PENALTIES,
  CHOICES,
  TOP_LOGPROBS,
  BUDGET,
];

export const MAX_STOPS = 4;
/** Maximum length of a stop sequence and of `user`, in UTF-16 units. */
export const MAX_TEXT_LENGTH = 1024;
/** Maximum number of template variables. */
export const MAX_VARIABLES = 64;
/** Maximum size of all template variables, in characters of JSON. */
export const MAX_VARIABLES_LENGTH = 65_536;
const VARIABLE_NAME = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;
/** Maximum length of a schema, in JSON characters. */
const MAX_SCHEMA_LENGTH = 65_536;

/** Validates the settings. */
export function validationErrors(settings: Settings): FieldErrors {
  const errors: Record<string, string | null> = {};
  for (const parameter of numbersOf(settings)) {
    errors[parameter.name] = numberError(parameter, settings.numbers[parameter.name] ?? '');
  }
  errors['stop'] =
    settings.stop.filter((typed) => typed !== '').length > MAX_STOPS
      ? `Use at most ${MAX_STOPS} sequences.`
      : null;
  for (const [index, typed] of settings.stop.entries()) {
    errors[`stop[${index}]`] =
      unescaped(typed).length > MAX_TEXT_LENGTH ? `Use at most ${MAX_TEXT_LENGTH} characters.` : null;
  }
  if (settings.format === 'json_schema') {
    errors['schemaName'] = /^[\w-]{1,64}$/.test(settings.schemaName)
      ? null
      : 'Use 1 to 64 letters, digits, _ or -.';
    errors['schema'] = schemaError(settings.schema);
  }
  errors['user'] =
    settings.user.length > MAX_TEXT_LENGTH ? `Use at most ${MAX_TEXT_LENGTH} characters.` : null;
  const read = readTools(settings.tools);
  errors['tools'] = 'error' in read ? read.error : null;
  errors['tool_choice'] = 'tools' in read && read.tools.length > 0 ? choiceError(settings) : null;
  errors['chat_template_kwargs'] = variablesError(settings.templateVariables);
  return Object.fromEntries(
    Object.entries(errors).flatMap(([name, error]) => (error ? [[name, error]] : [])),
  );
}

/** Returns the numeric parameters that apply. */
export function numbersOf({ logprobs }: Settings): readonly NumberParameter[] {
  return logprobs ? NUMBERS : NUMBERS.filter((parameter) => parameter !== TOP_LOGPROBS);
}

/** Returns whether all settings have their defaults. */
export function areDefaults(settings: Settings): boolean {
  const numbers = Object.fromEntries(Object.entries(settings.numbers).filter(([, typed]) => typed !== ''));
  const stop = settings.stop.filter((typed) => typed !== '');
  return JSON.stringify({ ...DEFAULTS, ...settings, numbers, stop }) === JSON.stringify(DEFAULTS);
}

/** Counts the parameters in the advanced section that differ from their defaults. */
export function advancedSet(settings: Settings): number {
  const numbers = numbersOf(settings).filter(
    (parameter) =>
      !COMMON.includes(parameter) &&
      parameter !== BUDGET &&
      (settings.numbers[parameter.name] ?? '').trim() !== '',
  );
  const { stop, format, logprobs, user, stream } = settings;
  const others = [stop.some((typed) => typed !== ''), format !== 'text', logprobs, user !== '', !stream];
  return numbers.length + others.filter(Boolean).length;
}

/** Resolves the escapes of a stop sequence. */
export function unescaped(typed: string): string {
  return typed.replaceAll(/\\([nt\\])/g, (_, letter: string) =>
    letter === 'n' ? '\n' : letter === 't' ? '\t' : '\\',
  );
}

/** Returns the accepted range, such as `0 to 2`. */
export function boundsOf({ min, max, aboveMin, whole }: NumberParameter): string {
  const top = max === MAX_COUNT || max === Number.MAX_SAFE_INTEGER;
  if (min === Number.MIN_SAFE_INTEGER) return 'Any whole number';
  if (aboveMin) return `Greater than ${min}, at most ${max}`;
  if (top) return `${whole ? 'A whole number, ' : ''}${min} or more`;
  return `${min} to ${max}`;
}

/** Validates a typed number; null: valid or empty. */
function numberError(parameter: NumberParameter, typed: string): string | null {
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

function schemaError(text: string): string | null {
  const read = readJson(text);
  if ('error' in read) return read.error;
  if (!isObject(read.value)) return 'The schema must be a JSON object.';
  return JSON.stringify(read.value).length > MAX_SCHEMA_LENGTH
    ? `The schema must be at most ${MAX_SCHEMA_LENGTH} characters.`
    : null;
}

/** Validates template variables; null: valid or empty. The service refuses the names that it sets itself. */
export function variablesError(text: string): string | null {
  if (text.trim() === '') return null;
  const read = readJson(text);
  if ('error' in read) return read.error;
  if (!isObject(read.value)) return 'Enter a JSON object, such as { "enable_thinking": false }.';
  const names = Object.keys(read.value);
  if (names.length > MAX_VARIABLES) return `Use at most ${MAX_VARIABLES} variables.`;
  const invalid = names.find((name) => !VARIABLE_NAME.test(name));
  if (invalid !== undefined) {
    return `Invalid variable name ${JSON.stringify(invalid)}. Use a letter, followed by at most 63 letters, digits or _.`;
  }
  return JSON.stringify(read.value).length > MAX_VARIABLES_LENGTH
    ? `Use at most ${MAX_VARIABLES_LENGTH} characters of JSON.`
    : null;
}

function choiceError({ tools, toolChoice }: Settings): string | null {
  const name = chosenFunction(toolChoice);
  return name === null || toolNames(tools).includes(name) ? null : `No tool is named ${name}.`;
}
