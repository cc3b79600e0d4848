import type { Dialect } from '../generation.ts';
import { boolean, hint, number, refused, string, structured, type Field } from './field.ts';

/**
 * The one table of request fields. Parsing, `docs/api.md` and the OpenAPI document come from it. `honouredBy`
 * follows the request models and samplers of the servers themselves (vLLM `protocol.py`, SGLang `protocol.py`,
 * llama-server `server-schema.cpp`, TGI `lib.rs`); a field that a server takes and leaves unused is not honoured.
 */

/** Most stop sequences of a request. */
export const MAX_STOP_SEQUENCES = 4;
/** Longest stop sequence, in UTF-16 units: as much text as may be held back. */
export const MAX_STOP_LENGTH = 1024;
/** Most entries of `logit_bias`. */
export const MAX_BIASED_TOKENS = 1024;
/** A token id as the name of a field. */
export const TOKEN_ID = /^(0|[1-9][0-9]{0,8})$/;
/** Largest 32-bit signed integer: what every engine can hold as a count of tokens or a token id. */
export const MAX_INT32 = 2_147_483_647;

const SAMPLERS: readonly Dialect[] = ['sluice', 'vllm', 'sglang', 'llama-server'];
const MANY_CHOICES: readonly Dialect[] = ['sluice', 'vllm', 'sglang'];
const CHAT = ['chat'] as const;
const TEXT = ['text'] as const;

export const model = string('model', { minLength: 1, maxLength: 256 }, null, {
  required: true,
  description: 'Id of the model, as `GET /v1/models` lists it.',
});

export const messages = structured(
  'messages',
  'array of messages',
  { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/RequestMessage' } },
  {
    kinds: CHAT,
    required: true,
    bounds: 'at least 1',
    description:
      'The conversation, in order. An assistant message of an answer can be sent back as it came: `reasoning_content`, `refusal: null`, `annotations: []` and an empty `tool_calls` pass. `name` is refused, because chat templates would drop it.',
  },
);

export const messageRole = structured(
  'messages[].role',
  'string',
  { type: 'string', enum: ['system', 'developer', 'user', 'assistant'] },
  {
    kinds: CHAT,
    required: true,
    bounds: '`system`, `developer`, `user` or `assistant`',
    description: 'Who speaks. `developer` is read as `system`; `tool` is refused by name.',
  },
);

export const messageContent = structured(
  'messages[].content',
  'string or array of text parts',
  {
    oneOf: [
      { type: 'string' },
      { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/TextPart' } },
    ],
  },
  {
    kinds: CHAT,
    required: true,
    description:
      'The text. Parts of type `text` are joined with nothing between them; other types are refused.',
  },
);

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
    honouredBy: MANY_CHOICES,
    bounds: 'none empty; prompts x `n` at most `limits.choices`',
    description:
      'The text to go on from, or several, with `n` choices each. Arrays of token ids are refused. One prompt is honoured by every engine.',
  },
);

export const maxTokens = number('max_tokens', { type: 'integer', minimum: 1 }, null, {
  default: 'what the model and its context leave',
  description: 'Most tokens to generate for each choice. The model and its context may end the text earlier.',
});

export const maxCompletionTokens = number('max_completion_tokens', { type: 'integer', minimum: 1 }, null, {
  kinds: CHAT,
  default: '`max_tokens`',
  description: 'The newer name of `max_tokens`; it wins where both are given.',
});

export const temperature = number('temperature', { type: 'number', minimum: 0, maximum: 2 }, 1, {
  description: 'Sampling temperature. 0 always takes the likeliest token.',
});

export const topP = number('top_p', { type: 'number', exclusiveMinimum: 0, maximum: 1 }, 1, {
  description: 'Nucleus sampling: the likeliest tokens that together have this probability are kept.',
});

export const topK = number('top_k', { type: 'integer', minimum: 0, maximum: MAX_INT32 }, null, {
  neutral: [0],
  honouredBy: SAMPLERS,
  description: 'How many of the likeliest tokens are kept; 0 keeps all.',
});

export const minP = number('min_p', { type: 'number', minimum: 0, maximum: 1 }, 0, {
  neutral: [0],
  honouredBy: SAMPLERS,
  description: 'Tokens less likely than this share of the likeliest are dropped.',
});

export const seed = number('seed', { type: 'integer', minimum: -(2 ** 63), maximum: 2 ** 63 }, null, {
  bounds: 'signed 64 bits',
  honouredBy: ['sluice', 'vllm', 'llama-server', 'tgi'],
  description:
    'The same seed, request and engine give the same text, as far as the engine can promise it. Its lower 32 bits count.',
});

export const presencePenalty = number('presence_penalty', { type: 'number', minimum: -2, maximum: 2 }, 0, {
  neutral: [0],
  honouredBy: SAMPLERS,
  description: 'Above 0, tokens that have occurred become less likely.',
});

export const frequencyPenalty = number('frequency_penalty', { type: 'number', minimum: -2, maximum: 2 }, 0, {
  neutral: [0],
  honouredBy: [...SAMPLERS, 'tgi'],
  description: 'Above 0, tokens become less likely with each occurrence.',
});

export const repetitionPenalty = number(
  'repetition_penalty',
  { type: 'number', exclusiveMinimum: 0, maximum: 2 },
  1,
  {
    neutral: [1],
    honouredBy: SAMPLERS,
    description: 'Above 1, the odds of tokens that have occurred are divided by it.',
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
    neutral: [{}],
    honouredBy: SAMPLERS,
    bounds: `at most ${MAX_BIASED_TOKENS} token ids, each -100 to 100`,
    default: 'none',
    description: 'Token ids, as strings, to what is added to their logits.',
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
    neutral: [[]],
    bounds: `at most ${MAX_STOP_SEQUENCES}, each 1 to ${MAX_STOP_LENGTH} characters`,
    default: 'none',
    description: 'Sequences that end the text; they are not part of it.',
  },
);

export const choices = number('n', { type: 'integer', minimum: 1, maximum: 128 }, 1, {
  neutral: [1],
  honouredBy: MANY_CHOICES,
  bounds: '1 to `limits.choices`',
  description: 'Choices to generate for each prompt.',
});

export const chatLogprobs = boolean('logprobs', false, {
  kinds: CHAT,
  neutral: [false],
  honouredBy: SAMPLERS,
  description: 'Whether each token comes with its log probability.',
});

export const topLogprobs = number('top_logprobs', { type: 'integer', minimum: 0, maximum: 20 }, null, {
  kinds: CHAT,
  neutral: [0],
  honouredBy: SAMPLERS,
  default: '`0`',
  description:
    'How many of the likeliest tokens are listed at each position; above 0 it needs `logprobs: true`.',
});

export const textLogprobs = number('logprobs', { type: 'integer', minimum: 0, maximum: 5 }, null, {
  kinds: TEXT,
  honouredBy: SAMPLERS,
  description: 'Log probabilities of the tokens, with this many alternatives each.',
});

export const echo = boolean('echo', false, {
  kinds: TEXT,
  neutral: [false],
  honouredBy: MANY_CHOICES,
  description: 'Whether each text begins with its prompt. Not together with `logprobs`.',
});

export const responseFormat = structured(
  'response_format',
  'object',
  { $ref: '#/components/schemas/ResponseFormat' },
  {
    neutral: [{ type: 'text' }],
    honouredBy: SAMPLERS,
    default: '`{"type":"text"}`',
    description:
      'The form of the text: `text`, `json_object`, or `json_schema` with a schema of the supported keywords.',
  },
);

export const stream = boolean('stream', false, {
  description: 'Whether the answer comes as server-sent events.',
});

export const streamOptions = structured(
  'stream_options',
  'object',
  { type: 'object' },
  { neutral: [{}], description: 'How a stream is told; without `stream` it changes nothing.' },
);

export const includeUsage = boolean('stream_options.include_usage', null, {
  description:
    'True: the usage comes in a chunk of its own, with empty `choices`, and is null in all others. Else it is on the last chunk, beside `finish_reason`.',
});

export const continuousUsage = boolean('stream_options.continuous_usage_stats', false, {
  internal: true,
  description: 'Whether each chunk tells the usage so far.',
});

export const cacheSalt = string('cache_salt', { minLength: 1, maxLength: 256 }, null, {
  internal: true,
  description: 'Prefixes are reused only between requests of the same salt.',
});

export const user = string('user', { minLength: 0, maxLength: 1024 }, null, {
  description: "The caller's own name for its end user. Kept out of logs; changes nothing.",
});

const hints = [
  hint('stream_options.include_obfuscation', { description: 'Chunks are never padded.' }),
  hint('messages[].reasoning_content', {
    kinds: CHAT,
    description: 'Reasoning of an earlier response; not sent to the model.',
  }),
  hint('metadata', { description: 'Labels of the caller; not kept.' }),
  hint('store', { description: 'Nothing is stored, whatever it says.' }),
  hint('service_tier', { description: 'There is one tier.' }),
  hint('safety_identifier', { description: 'Not kept.' }),
  hint('prompt_cache_key', { description: 'Prefixes are found without it.' }),
  hint('prompt_cache_options', { kinds: CHAT, description: 'Prefixes are found without it.' }),
  hint('prompt_cache_retention', { description: 'The engine decides how long a prefix is kept.' }),
  hint('parallel_tool_calls', { kinds: CHAT, description: 'Without tools it changes nothing.' }),
];

const refusals = [
  refused('messages[].name', { kinds: CHAT, description: 'Chat templates would drop it.' }),
  refused('messages[].refusal', { kinds: CHAT, description: 'Answers here never refuse in this field.' }),
  refused('messages[].annotations', { kinds: CHAT, neutral: [[]], description: 'There are none.' }),
  refused('messages[].tool_calls', { kinds: CHAT, neutral: [[]], description: 'Tools are not supported.' }),
  refused('messages[].function_call', { kinds: CHAT, description: 'Tools are not supported.' }),
  refused('messages[].audio', { kinds: CHAT, description: 'Text only.' }),
  refused('tools', { kinds: CHAT, neutral: [[]], description: 'Tools are not supported.' }),
  refused('tool_choice', { kinds: CHAT, neutral: ['none', 'auto'], description: 'Tools are not supported.' }),
  refused('functions', { kinds: CHAT, neutral: [[]], description: 'The older name of `tools`.' }),
  refused('function_call', {
    kinds: CHAT,
    neutral: ['none', 'auto'],
    description: 'The older `tool_choice`.',
  }),
  refused('modalities', { kinds: CHAT, neutral: [['text']], description: 'Text only.' }),
  refused('audio', { kinds: CHAT, description: 'Text only.' }),
  refused('prediction', { kinds: CHAT, description: 'Predicted outputs are not supported.' }),
  refused('reasoning_effort', {
    kinds: CHAT,
    neutral: ['none'],
    description: 'No model here has this dial.',
  }),
  refused('verbosity', { kinds: CHAT, neutral: ['medium'], description: 'No model here has this dial.' }),
  refused('web_search_options', { kinds: CHAT, description: 'There is no search.' }),
  refused('suffix', {
    kinds: TEXT,
    neutral: [''],
    description: 'Filling in before a suffix is not supported.',
  }),
];

const bestOf = refused('best_of', {
  kinds: TEXT,
  neutral: [1],
  description: 'Passes only where it equals `n`, which is where it changes nothing.',
});

/** Every field of both requests, in the order in which documents list them. */
export const FIELDS: readonly Field[] = [
  model,
  messages,
  messageRole,
  messageContent,
  prompt,
  stream,
  streamOptions,
  includeUsage,
  continuousUsage,
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
  responseFormat,
  cacheSalt,
  user,
  ...hints,
  ...refusals,
  bestOf,
];
