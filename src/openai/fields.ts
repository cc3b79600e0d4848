import * as chat from './chat-fields.ts';
import { boolean, number, string, structured, type Field, type FieldOptions } from './field.ts';
import { HINTS, REFUSALS } from './ignored-fields.ts';

/** The table of request fields, from which parsing, `docs/api.md` and the OpenAPI document are derived. */

export const MAX_STOP_SEQUENCES = 4;
/** Maximum length of a stop sequence, in code points. A stream may hold back this much text. */
export const MAX_STOP_LENGTH = 1024;
export const MAX_BIASED_TOKENS = 1024;
export const TOKEN_ID = /^(0|[1-9][0-9]{0,8})$/;
/** The largest token count or token ID that every engine can represent. */
export const MAX_INT32 = 2_147_483_647;

const CHAT = ['chat'] as const;
const TEXT = ['text'] as const;

export const model = string('model', { minLength: 1, maxLength: 256 }, null, {
  required: true,
  description: 'Model ID, as listed by `GET /v1/models`.',
});

export const prompt = structured(
  'prompt',
  'string or array of strings',
  {
    oneOf: [
      { type: 'string', minLength: 1 },
      { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } },
    ],
  },
  {
    kinds: TEXT,
    required: true,
    feature: 'severalPrompts',
    bounds: 'not empty; number of prompts × `n` is at most `limits.choices`',
    description:
      'One or more texts to complete, with `n` choices each. Arrays of token IDs are not supported. Some engines support only one prompt.',
  },
);

export const maxTokens = number('max_tokens', { type: 'integer', minimum: 1 }, null, {
  default: 'limit of the model and its context length',
  description:
    'Maximum number of tokens to generate for each choice. The text can end earlier: at a stop sequence, when the model ends it, or at the end of the context.',
});

export const maxCompletionTokens = number('max_completion_tokens', { type: 'integer', minimum: 1 }, null, {
  kinds: CHAT,
  default: '`max_tokens`',
  description: 'Newer name for `max_tokens`. Takes precedence if both are set.',
});

export const temperature = number('temperature', { type: 'number', minimum: 0, maximum: 2 }, 1, {
  description: 'Sampling temperature. 0 always selects the most likely token.',
});

export const topP = number('top_p', { type: 'number', exclusiveMinimum: 0, maximum: 1 }, 1, {
  description:
    'Nucleus sampling: samples from the smallest set of tokens whose probabilities add up to this value.',
});

export const topK = number('top_k', { type: 'integer', minimum: 0, maximum: MAX_INT32 }, null, {
  feature: 'topK',
  description: 'Samples from this number of most likely tokens; 0 means all.',
});

export const minP = number('min_p', { type: 'number', minimum: 0, maximum: 1 }, 0, {
  feature: 'minP',
  description: 'Excludes tokens whose probability is below this fraction of the highest probability.',
});

export const seed = number('seed', { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 }, null, {
  bounds: 'signed 64-bit',
  feature: 'seed',
  description:
    'Makes sampling reproducible: the same request with the same seed and engine generates the same text, on a best-effort basis. Only the lower 32 bits are used.',
});

export const presencePenalty = number('presence_penalty', { type: 'number', minimum: -2, maximum: 2 }, 0, {
  feature: 'presencePenalty',
  description: 'Values above 0 lower the probability of tokens that have already occurred.',
});

export const frequencyPenalty = number('frequency_penalty', { type: 'number', minimum: -2, maximum: 2 }, 0, {
  feature: 'frequencyPenalty',
  description: 'Values above 0 make tokens less likely each time they occur.',
});

export const repetitionPenalty = number(
  'repetition_penalty',
  { type: 'number', exclusiveMinimum: 0, maximum: 2 },
  1,
  {
    feature: 'repetitionPenalty',
    description:
      'Values above 1 lower the probability of tokens that have already occurred: positive logits are divided by this value, negative ones are multiplied by it. The embedded engine also counts tokens of the prompt, unless `presence_penalty` or `frequency_penalty` is set.',
  },
);

export const logitBias = structured(
  'logit_bias',
  'object',
  {
    type: 'object',
    maxProperties: MAX_BIASED_TOKENS,
    propertyNames: { pattern: TOKEN_ID.source },
    additionalProperties: { type: 'number', minimum: -100, maximum: 100 },
  },
  {
    feature: 'logitBias',
    bounds: `at most ${MAX_BIASED_TOKENS} token IDs, each -100 to 100`,
    default: 'none',
    description: 'Maps token IDs, as strings, to values that are added to their logits.',
  },
);

export const stop = structured(
  'stop',
  'string or array of strings',
  {
    oneOf: [
      { type: 'string', minLength: 1, maxLength: MAX_STOP_LENGTH },
      {
        type: 'array',
        maxItems: MAX_STOP_SEQUENCES,
        items: { type: 'string', minLength: 1, maxLength: MAX_STOP_LENGTH },
      },
    ],
  },
  {
    bounds: `at most ${MAX_STOP_SEQUENCES}, each 1 to ${MAX_STOP_LENGTH} characters`,
    default: 'none',
    description: 'Sequences that end the text. They are not included in it.',
  },
);

export const choices = number('n', { type: 'integer', minimum: 1, maximum: 128 }, 1, {
  feature: 'choices',
  bounds: '1 to `limits.choices`',
  description: 'Number of choices to generate for each prompt.',
});

export const chatLogprobs = boolean('logprobs', false, {
  kinds: CHAT,
  feature: 'logprobs',
  description: 'Whether to return the log probability of each token.',
});

export const topLogprobs = number('top_logprobs', { type: 'integer', minimum: 0, maximum: 20 }, null, {
  kinds: CHAT,
  feature: 'topLogprobs',
  default: '`0`',
  description:
    'Number of most likely tokens to return at each position. Values above 0 require `logprobs: true`.',
});

export const textLogprobs = number('logprobs', { type: 'integer', minimum: 0, maximum: 5 }, null, {
  kinds: TEXT,
  feature: 'logprobs',
  description: 'Returns the log probability of each token, with this many alternatives.',
});

export const echo = boolean('echo', false, {
  kinds: TEXT,
  feature: 'echo',
  description: 'Whether each text starts with its prompt. Cannot be combined with `logprobs`.',
});

const FORMATS: Pick<FieldOptions, 'default' | 'description'> = {
  default: '`{"type":"text"}`',
  description:
    'Format of the text: `text`, `json_object`, or `json_schema` with a schema that uses only supported keywords.',
};

export const chatResponseFormat = structured(
  'response_format',
  'object',
  { $ref: '#/components/schemas/ResponseFormat' },
  { ...FORMATS, kinds: CHAT, feature: 'chatFormat' },
);

export const textResponseFormat = structured(
  'response_format',
  'object',
  { $ref: '#/components/schemas/ResponseFormat' },
  { ...FORMATS, kinds: TEXT, feature: 'textFormat' },
);

export const stream = boolean('stream', false, {
  description: 'Whether to stream the response as server-sent events.',
});

export const streamOptions = structured(
  'stream_options',
  'object',
  { type: 'object' },
  { description: 'Options for streaming. Ignored without `stream`.' },
);

export const includeUsage = boolean('stream_options.include_usage', null, {
  description:
    'If true, the usage is sent in an additional last chunk with empty `choices`, and is null in all other chunks. Otherwise, it is in the chunk with the `finish_reason`.',
});

export const user = string('user', { minLength: 0, maxLength: 1024 }, null, {
  description: 'Identifier of your end user. Not logged, and has no effect.',
});

/** All fields of both requests, in the order of the docs. */
export const FIELDS: readonly Field[] = [
  model,
  chat.messages,
  chat.messageRole,
  chat.messageContent,
  chat.messageToolCalls,
  chat.messageToolCallId,
  chat.messageReasoningContent,
  chat.messageReasoning,
  prompt,
  stream,
  streamOptions,
  includeUsage,
  maxTokens,
  maxCompletionTokens,
  temperature,
  topP,
  topK,
  minP,
  seed,
  presencePenalty,
  frequencyPenalty,
  repetitionPenalty,
  logitBias,
  stop,
  choices,
  chatLogprobs,
  topLogprobs,
  textLogprobs,
  echo,
  chatResponseFormat,
  textResponseFormat,
  chat.tools,
  chat.toolStrict,
  chat.toolChoice,
  chat.parallelToolCalls,
  chat.reasoningEffort,
  chat.templateVariables,
  user,
  ...HINTS,
  ...REFUSALS,
];
