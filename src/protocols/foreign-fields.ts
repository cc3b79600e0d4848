import { noted, refused, type Field } from './field.ts';
import type { GenerationKind } from '../core/generation.ts';

/** The APIs that generate text. */
export type TextApi = 'chat' | 'text' | 'responses' | 'messages';

/** Names that APIs have for the same thing. */
interface Equivalents {
  readonly names: readonly string[];
  /** The values besides null that change nothing. */
  readonly neutral?: readonly unknown[];
  /** By API, the fields to use. Empty: it has none. Absent: it ignores these names, because they change nothing. */
  readonly use: Readonly<Partial<Record<TextApi, readonly string[]>>>;
}

/** The fields for the format of the text. */
const FORMAT: Equivalents['use'] = {
  chat: ['response_format'],
  text: ['response_format'],
  responses: ['text.format'],
  messages: ['output_config.format'],
};

/** Fields of the other APIs of this service and of other servers. Without them, the response would mean something else. */
const EQUIVALENTS: readonly Equivalents[] = [
  {
    names: [
      'max_tokens',
      'max_completion_tokens',
      'max_output_tokens',
      'max_new_tokens',
      'n_predict',
      'num_predict',
    ],
    use: {
      chat: ['max_completion_tokens'],
      text: ['max_tokens'],
      responses: ['max_output_tokens'],
      messages: ['max_tokens'],
    },
  },
  {
    names: ['messages', 'input', 'prompt'],
    use: { chat: ['messages'], text: ['prompt'], responses: ['input'], messages: ['messages'] },
  },
  {
    names: ['instructions', 'system'],
    use: { chat: ['messages'], text: ['prompt'], responses: ['instructions'], messages: ['system'] },
  },
  {
    names: ['previous_response_id', 'conversation', 'thread'],
    use: { chat: ['messages'], text: ['prompt'], responses: ['input'], messages: ['messages'] },
  },
  {
    names: ['stop', 'stop_sequences'],
    neutral: [[]],
    use: { chat: ['stop'], text: ['stop'], responses: ['stop'], messages: ['stop_sequences'] },
  },
  {
    names: ['response_format', 'output_format', 'text'],
    neutral: [{ type: 'text' }],
    use: FORMAT,
  },
  {
    // vLLM, SGLang, llama-server and Ollama.
    names: [
      'guided_json',
      'guided_regex',
      'guided_choice',
      'guided_grammar',
      'structured_outputs',
      'grammar',
      'json_schema',
      'regex',
      'ebnf',
      'format',
    ],
    neutral: [''],
    use: FORMAT,
  },
  {
    names: ['output_config'],
    use: {
      chat: ['reasoning_effort', 'response_format'],
      text: ['response_format'],
      responses: ['reasoning.effort', 'text.format'],
    },
  },
  {
    names: ['reasoning_effort', 'reasoning', 'thinking'],
    use: { responses: ['reasoning.effort'], messages: ['output_config.effort'] },
  },
  { names: ['n', 'best_of'], neutral: [1], use: { chat: ['n'], responses: [], messages: [] } },
  { names: ['logprobs'], neutral: [false], use: { responses: ['include'], messages: [] } },
  { names: ['top_logprobs'], neutral: [0], use: { text: ['logprobs'], messages: [] } },
  {
    names: ['echo', 'background'],
    neutral: [false],
    use: { chat: [], text: [], responses: [], messages: [] },
  },
  { names: ['suffix'], neutral: [''], use: { chat: [], responses: [], messages: [] } },
  { names: ['modalities'], neutral: [['text']], use: { text: [], responses: [], messages: [] } },
  {
    names: ['tools', 'functions'],
    neutral: [[]],
    use: { text: [], responses: ['tools'], messages: ['tools'] },
  },
  {
    names: ['tool_choice', 'function_call'],
    neutral: ['none', 'auto'],
    use: { text: [], responses: ['tool_choice'], messages: ['tool_choice'] },
  },
  {
    names: ['parallel_tool_calls'],
    neutral: [true],
    use: { messages: ['tool_choice.disable_parallel_tool_use'] },
  },
];

/** Fields of other servers whose names are close to one of ours, or that benchmarks send, and why they are ignored. */
const IGNORED: readonly Field[] = [
  ['min_tokens', "The model's end of the text is never suppressed."],
  ['ignore_eos', "The model's end of the text is never suppressed."],
  ['stop_token_ids', 'Tokens of the model that end a text always do. Use texts as stop sequences.'],
  ['top_a', 'Not supported by any engine.'],
  ['models', 'A request names one model.'],
  ['mode', 'The endpoint decides whether a chat template is used.'],
  ['speed', 'There is only one speed.'],
].map(([name = '', description = '']) => noted(name, { description }));

/**
 * Returns the fields of other APIs that an API does not have: they are refused with the field to use, or ignored with a note.
 * `own`: the fields of the API.
 */
export function foreignFields(
  api: TextApi,
  own: readonly Field[],
  kinds?: readonly GenerationKind[],
): readonly Field[] {
  const taken = new Set(own.map(({ path }) => path));
  const options = kinds === undefined ? {} : { kinds };
  const fields = EQUIVALENTS.flatMap(({ names, neutral = [], use }) => {
    const instead = use[api];
    if (instead === undefined) return [];
    const description =
      instead.length === 0 ? 'Not supported by this API.' : `Of other APIs; use ${listOf(instead)}.`;
    return names.map((name) => refused(name, { ...options, neutral, instead, description }));
  });
  return [...fields, ...IGNORED].filter(({ path }) => !taken.has(path));
}

/** Formats the names of fields for messages and docs. */
export function listOf(names: readonly string[]): string {
  return names.map((name) => `\`${name}\``).join(' and ');
}
