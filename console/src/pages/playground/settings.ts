import { faultOfNumber, NUMBERS, TEXT_TOP_LOGPROBS, type Mode, type NumberParameter } from './parameters.ts';

/** All that a request says beside its prompt, as it was typed: what is wrong is kept until it is mended. */
export interface Settings {
  /** By the names of the interface; what is not there, or empty, is not sent. */
  numbers: Readonly<Partial<Record<NumberParameter['name'], string>>>;
  /** With `\n`, `\t` and `\\` as programmers write them. */
  stop: readonly string[];
  format: 'text' | 'json_object' | 'json_schema';
  schemaName: string;
  schema: string;
  logprobs: boolean;
  /** The text begins with its prompt; text completions alone. */
  echo: boolean;
  /** A JSON object of token ids; empty: none. */
  logitBias: string;
  user: string;
  stream: boolean;
}

const EXAMPLE_SCHEMA = {
  type: 'object',
  properties: { city: { type: 'string', maxLength: 40 }, capital: { type: 'boolean' } },
  required: ['city', 'capital'],
  additionalProperties: false,
};

/** Those of a fresh playground: everything as the service has it by itself. */
export const DEFAULTS: Settings = {
  numbers: {},
  stop: [],
  format: 'text',
  schemaName: 'answer',
  schema: JSON.stringify(EXAMPLE_SCHEMA, null, 2),
  logprobs: false,
  echo: false,
  logitBias: '',
  user: '',
  stream: true,
};

export const MOST_STOPS = 4;
/** Of a stop sequence and of `user`, in UTF-16 units. */
export const LONGEST_TEXT = 1024;
export const MOST_BIASES = 1024;
/** Of a schema, in characters of JSON. */
const LARGEST_SCHEMA = 65_536;

/** What is wrong, by the name of the field. */
export type Faults = Readonly<Record<string, string>>;

/** What is wrong with those of the settings that this kind of request sends. */
export function faultsOf(settings: Settings, mode: Mode): Faults {
  const faults: Record<string, string | null> = {};
  for (const parameter of numbersOf(mode, settings)) {
    faults[parameter.name] = faultOfNumber(parameter, settings.numbers[parameter.name] ?? '');
  }
  for (const [index, typed] of settings.stop.entries()) {
    faults[`stop[${index}]`] =
      unescaped(typed).length > LONGEST_TEXT ? `At most ${LONGEST_TEXT} characters.` : null;
  }
  if (settings.format === 'json_schema') {
    faults['schemaName'] = /^[\w-]{1,64}$/.test(settings.schemaName)
      ? null
      : 'Expected 1 to 64 letters, digits, _ or -.';
    faults['schema'] = faultOfSchema(settings.schema);
  }
  faults['logit_bias'] = faultOfBiases(settings.logitBias);
  faults['user'] = settings.user.length > LONGEST_TEXT ? `At most ${LONGEST_TEXT} characters.` : null;
  faults['echo'] =
    mode === 'text' && settings.echo && settings.logprobs
      ? 'Not together with log probabilities: turn one of them off.'
      : null;
  return Object.fromEntries(
    Object.entries(faults).flatMap(([name, fault]) => (fault ? [[name, fault]] : [])),
  );
}

/** The numbers that this kind of request sends. */
export function numbersOf(mode: Mode, { logprobs }: Settings): readonly NumberParameter[] {
  return NUMBERS.flatMap((parameter) => {
    if (parameter.name !== 'top_logprobs') return [parameter];
    if (!logprobs) return [];
    return [mode === 'chat' ? parameter : TEXT_TOP_LOGPROBS];
  });
}

/** A stop sequence as it is sent. */
export function unescaped(typed: string): string {
  return typed.replaceAll(/\\([nt\\])/g, (_, letter: string) =>
    letter === 'n' ? '\n' : letter === 't' ? '\t' : '\\',
  );
}

/** What JSON has here; a `fault` in words where it is none. */
export function readJson(text: string): { value: unknown } | { fault: string } {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch (error) {
    return { fault: `This is no JSON: ${error instanceof Error ? error.message : 'it cannot be read'}.` };
  }
}

function faultOfSchema(text: string): string | null {
  const read = readJson(text);
  if ('fault' in read) return read.fault;
  if (!isObject(read.value)) return 'A schema is a JSON object.';
  return JSON.stringify(read.value).length > LARGEST_SCHEMA
    ? `A schema has at most ${LARGEST_SCHEMA} characters.`
    : null;
}

function faultOfBiases(text: string): string | null {
  if (text.trim() === '') return null;
  const read = readJson(text);
  if ('fault' in read) return read.fault;
  if (!isObject(read.value)) return 'Expected a JSON object, such as { "198": -100 }.';
  const biases = Object.entries(read.value);
  if (biases.length > MOST_BIASES) return `At most ${MOST_BIASES} tokens.`;
  for (const [token, bias] of biases) {
    if (!/^(?:0|[1-9]\d{0,9})$/.test(token)) return `${JSON.stringify(token)} is not the id of a token.`;
    if (typeof bias !== 'number' || Math.abs(bias) > 100) return `The bias of ${token} is to be -100 to 100.`;
  }
  return null;
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
