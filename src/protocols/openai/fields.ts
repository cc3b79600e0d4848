import { MAX_TOOL_CALLS, REASONING_EFFORTS, type CompletionKind } from '../../core/generation.ts';
import { SAMPLING_LIST, type LimitedSampling, type SamplingNumber } from '../../core/sampling.ts';
import {
  boolean,
  number,
  string,
  structured,
  type Field,
  type FieldOptions,
  type FieldSchema,
  type ScalarField,
  choice,
  hint,
  noted,
  refused,
} from '../field.ts';
import { foreignFields } from '../foreign-fields.ts';
import { MAX_TOOLS, MAX_TOOLS_CHARACTERS } from '../tooling.ts';

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
  description:
    'Model ID, as listed by `GET /v1/models`, or what follows the slash in it if only one model has that name.',
});

export const prompt = structured('prompt', {
  type: 'string or array of strings',
  schema: {
    oneOf: [
      { type: 'string', minLength: 1 },
      { type: 'array', minItems: 1, items: { type: 'string', minLength: 1 } },
    ],
  },
  kinds: TEXT,
  required: true,
  feature: 'severalPrompts',
  bounds: 'not empty; number of prompts × `n` is at most `limits.choices`',
  description:
    'One or more texts to complete, with `n` choices each. Arrays of token IDs are not supported. Some engines support only one prompt.',
});

export const maxTokens = number('max_tokens', { type: 'integer', minimum: 1 }, null, {
  default: 'limit of the model, its context length and what is left of calendar limits',
  description:
    'Maximum number of tokens to generate for each choice. The text can end earlier: at a stop sequence, when the model ends it, or at the end of the context.',
});

export const maxCompletionTokens = number('max_completion_tokens', { type: 'integer', minimum: 1 }, null, {
  kinds: CHAT,
  default: '`max_tokens`',
  description: 'Newer name for `max_tokens`. Takes precedence if both are set.',
});

/** The sampling parameters that are numbers. A parameter whose fallback is null has no default. */
export const SAMPLING_FIELDS = Object.fromEntries(
  SAMPLING_LIST.map(([id, { name, schema, fallback, servers, gguf, ...parameter }]) => {
    const otherwise = parameter.default ?? `\`${fallback}\``;
    return [
      id,
      number(name, schema, fallback, {
        description: parameter.description,
        ...(parameter.bounds !== undefined && { bounds: parameter.bounds }),
        ...(gguf !== undefined && { default: `as the model recommends, otherwise ${otherwise}` }),
        feature: servers === undefined ? null : (id as LimitedSampling),
      }),
    ];
  }),
) as Readonly<Record<SamplingNumber, ScalarField<number | null>>>;

const BIAS = { type: 'number', minimum: -100, maximum: 100 } as const satisfies FieldSchema;

export const logitBias = structured('logit_bias', {
  schema: {
    type: 'object',
    maxProperties: MAX_BIASED_TOKENS,
    propertyNames: { pattern: TOKEN_ID.source },
    additionalProperties: BIAS,
  },
  feature: 'logitBias',
  bounds: `at most ${MAX_BIASED_TOKENS} token IDs, each -100 to 100`,
  default: 'none',
  description: 'Maps token IDs, as strings, to values that are added to their logits.',
});

export const stop = structured('stop', {
  type: 'string or array of strings',
  schema: {
    oneOf: [
      { type: 'string', minLength: 1, maxLength: MAX_STOP_LENGTH },
      {
        type: 'array',
        maxItems: MAX_STOP_SEQUENCES,
        items: { type: 'string', minLength: 1, maxLength: MAX_STOP_LENGTH },
      },
    ],
  },
  bounds: `at most ${MAX_STOP_SEQUENCES}, each 1 to ${MAX_STOP_LENGTH} characters`,
  default: 'none',
  description: 'Sequences that end the text. They are not included in it.',
});

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
    'Format of the text: `text`, `json_object`, or `json_schema`. With `strict`, its schema has only supported keywords and is always followed; without, it may have any keyword, or be absent.',
};

const chatResponseFormat = structured('response_format', {
  type: 'object',
  schema: { $ref: '#/components/schemas/ResponseFormat' },
  ...FORMATS,
  kinds: CHAT,
  feature: 'chatFormat',
});

const textResponseFormat = structured('response_format', {
  type: 'object',
  schema: { $ref: '#/components/schemas/ResponseFormat' },
  ...FORMATS,
  kinds: TEXT,
  feature: 'textFormat',
});

export const stream = boolean('stream', false, {
  description: 'Whether to stream the response as server-sent events.',
});

export const streamOptions = structured('stream_options', {
  schema: { type: 'object' },
  description: 'Options for streaming. Ignored without `stream`.',
});

export const includeUsage = boolean('stream_options.include_usage', null, {
  description:
    'If true, the usage is sent in an additional last chunk with empty `choices`, and is null in all other chunks. Otherwise, it is in the chunk with the `finish_reason`.',
});

export const user = string('user', { minLength: 0, maxLength: 1024 }, null, {
  description: 'Identifier of your end user. Not logged, and has no effect.',
});

// Fields that only chats have: messages, tools and reasoning.

/** Maximum length of the description of a function, in code points. */
export const MAX_TOOL_DESCRIPTION = 65_536;
/** Names of functions and response formats. */
export const NAME = /^[A-Za-z0-9_-]{1,64}$/;
/** Maximum length of the ID of a call, in code points. */
export const MAX_CALL_ID = 256;
/** Variables of a chat template. */
export const MAX_TEMPLATE_VARIABLES = 64;
/** Maximum size of `chat_template_kwargs`, in characters of JSON. */
export const MAX_TEMPLATE_CHARACTERS = 65_536;
export const TEMPLATE_VARIABLE = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/**
 * Variables that callers must not set. The service or the engine sets them, and a caller could use them to replace
 * the conversation or its format.
 */
export const RESERVED_VARIABLES = [
  'messages',
  'tools',
  'tool_choice',
  'chat_template',
  'tokenize',
  'add_generation_prompt',
  'continue_final_message',
  'bos_token',
  'eos_token',
  'unk_token',
  'pad_token',
  'raise_exception',
  'strftime_now',
] as const;

const messages = structured('messages', {
  type: 'array of messages',
  schema: { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/RequestMessage' } },
  kinds: CHAT,
  required: true,
  bounds: 'at least 1',
  description:
    'The messages of the conversation, in order. Assistant messages can be sent back unchanged. System messages without text have no effect.',
});

export const messageRole = structured('messages[].role', {
  schema: { type: 'string', enum: ['system', 'developer', 'user', 'assistant', 'tool'] },
  kinds: CHAT,
  required: true,
  bounds: '`system`, `developer`, `user`, `assistant` or `tool`',
  description:
    'Author of the message. `developer` is treated as `system`. A message with the role `tool` is the result of a tool call.',
});

const messageContent = structured('messages[].content', {
  type: 'string or array of parts',
  schema: {
    oneOf: [{ type: 'string' }, { type: 'array', items: { $ref: '#/components/schemas/ContentPart' } }],
  },
  kinds: CHAT,
  default: 'required for the roles `system` and `user`',
  description:
    'Text of the message, or parts of the types `text`, `image_url` and `refusal`; other types are refused. Texts are joined without a separator. May be null in messages of the roles `assistant` and `tool`.',
});

export const messageImage = structured('messages[].content[].image_url', {
  schema: { type: 'object' },
  kinds: CHAT,
  default: 'required in a part of this type',
  feature: 'images',
  bounds: 'a data URI, or an `https` URL if the model takes URLs',
  description:
    'An image of a user message or of the result of a tool: `{"url","detail"}`, in a part of the type `image_url`. PNG, JPEG, GIF or WebP.',
});

const messageToolCalls = structured('messages[].tool_calls', {
  type: 'array of tool calls',
  schema: {
    type: 'array',
    maxItems: MAX_TOOL_CALLS,
    items: { $ref: '#/components/schemas/RequestToolCall' },
  },
  kinds: CHAT,
  feature: 'earlierCalls',
  bounds: `at most ${MAX_TOOL_CALLS}, with unique IDs`,
  description:
    'Calls of an assistant message, as in the response. The next messages must contain their results: one message of role `tool` per call. `arguments` is the JSON text of an object; an empty string is the same as `{}`, and any other text is sent to the model as `{"INVALID_JSON":"…"}`.',
});

export const messageToolCallId = string(
  'messages[].tool_call_id',
  { minLength: 1, maxLength: MAX_CALL_ID },
  null,
  {
    kinds: CHAT,
    default: 'required for the role `tool`',
    description: 'In messages of role `tool`: the `id` of the call whose result the message contains.',
  },
);

const messageReasoningContent = structured('messages[].reasoning_content', {
  schema: { type: 'string' },
  kinds: CHAT,
  description:
    'Reasoning of an earlier response. Sent to models whose chat template uses it; most ignore the reasoning of earlier turns.',
});

const messageRefusal = structured('messages[].refusal', {
  schema: { type: 'string' },
  kinds: CHAT,
  description:
    'Text of an assistant message that another service returned instead of `content`. Responses of Sluice have none.',
});

const messageReasoning = structured('messages[].reasoning', {
  schema: { type: 'string' },
  kinds: CHAT,
  description: 'Alias of `reasoning_content`. Ignored if both are set.',
});

const tools = structured('tools', {
  type: 'array of functions',
  schema: { type: 'array', maxItems: MAX_TOOLS, items: { $ref: '#/components/schemas/Tool' } },
  kinds: CHAT,
  feature: 'tools',
  bounds: `at most ${MAX_TOOLS} with unique names, and ${MAX_TOOLS_CHARACTERS} characters of JSON`,
  description:
    'Functions that the model may call: `{"type":"function","function":{"name","description","parameters"}}`. `parameters` is a JSON Schema of the arguments. Tools of other types are ignored with a note.',
});

export const toolStrict = boolean('tools[].function.strict', false, {
  kinds: CHAT,
  feature: 'strictTools',
  description:
    'If true, arguments always satisfy the schema, which must have the type `object` and only supported keywords. If false, the schema may have any keyword, and the engine follows it only if it can.',
});

const toolChoice = structured('tool_choice', {
  type: 'string or object',
  schema: { $ref: '#/components/schemas/ToolChoice' },
  kinds: CHAT,
  feature: 'toolChoice',
  bounds: '`none`, `auto`, `required`, a function, or `allowed_tools`',
  default: '`"auto"`',
  description:
    'Which functions the model calls. `none`: no function. `auto`: the model decides. `required`: at least one. `{"type":"function","function":{"name"}}`: this one. `{"type":"allowed_tools","allowed_tools":{"mode","tools"}}`: only these, with the mode `auto` or `required`.',
});

export const parallelToolCalls = boolean('parallel_tool_calls', true, {
  kinds: CHAT,
  feature: 'singleCalls',
  description: 'Whether a response may have several calls. Has no effect without tools.',
});

export const reasoningEffort = choice('reasoning_effort', REASONING_EFFORTS, {
  kinds: CHAT,
  feature: 'reasoningEffort',
  default: "the model's default",
  description:
    'How long a reasoning model thinks; `none` turns reasoning off. Models without this setting ignore it.',
});

export const reasoning = structured('reasoning', {
  schema: { type: 'object' },
  kinds: CHAT,
  description: "Options for reasoning models, in OpenRouter's form.",
});

export const nestedEffort = choice('reasoning.effort', REASONING_EFFORTS, {
  kinds: CHAT,
  default: "the model's default",
  description: 'The same as `reasoning_effort`, which takes precedence.',
});

export const reasoningBudget = number('reasoning.max_tokens', { type: 'integer', minimum: 1 }, null, {
  kinds: CHAT,
  feature: 'reasoningBudget',
  default: 'that of the effort',
  description:
    'Number of reasoning tokens after which the reasoning is ended and the answer begins. The variable `thinking_budget` of `chat_template_kwargs` does the same.',
});

export const templateVariables = structured('chat_template_kwargs', {
  schema: {
    type: 'object',
    maxProperties: MAX_TEMPLATE_VARIABLES,
    propertyNames: { pattern: TEMPLATE_VARIABLE.source, not: { enum: RESERVED_VARIABLES } },
  },
  kinds: CHAT,
  feature: 'templateVariables',
  bounds: `at most ${MAX_TEMPLATE_VARIABLES} variables and ${MAX_TEMPLATE_CHARACTERS} characters of JSON`,
  default: 'none',
  description:
    "Variables for the model's chat template, such as `enable_thinking`. Variables that the service sets, such as `messages`, are refused.",
});

// Fields without effect and fields that are refused.

const hintInChat = (path: string, description: string): Field => hint(path, { kinds: CHAT, description });

/** Fields that client libraries and agents send. */
const HINTS: readonly Field[] = [
  hint('stream_options.include_obfuscation', { description: 'Chunks are never padded.' }),
  hintInChat('messages[].name', 'Chat templates ignore it.'),
  hintInChat('messages[].annotations', 'Not sent to the model.'),
  hintInChat('messages[].reasoning_details', 'Not sent to the model. Use `reasoning_content`.'),
  hintInChat('messages[].provider_specific_fields', 'Added by LiteLLM to responses. Not sent to the model.'),
  hintInChat('messages[].parsed', "Added by OpenAI's libraries to structured output. Not sent to the model."),
  hintInChat('messages[].cache_control', 'Cached prefixes are found without it.'),
  hintInChat('cache_control', 'Cached prefixes are found without it.'),
  hint('metadata', { description: 'Not stored.' }),
  hint('store', { description: 'Responses are never stored.' }),
  hint('service_tier', { description: 'There is only one tier.' }),
  hint('safety_identifier', { description: 'Not stored.' }),
  hint('prompt_cache_key', { description: 'Cached prefixes are found without it.' }),
  hintInChat('promptCacheKey', "opencode's name for `prompt_cache_key`."),
  hintInChat('prompt_cache_options', 'Cached prefixes are found without it.'),
  hint('prompt_cache_retention', { description: 'The engine decides how long a prefix is cached.' }),
];

const notedInChat = (path: string, description: string, ...neutral: unknown[]): Field =>
  noted(path, { kinds: CHAT, neutral, description });

/** Fields that agents and other providers' clients send, and that cannot be honored. */
const NOTED: readonly Field[] = [
  notedInChat('messages[].audio', 'Only text is supported.'),
  notedInChat('audio', 'Only text is supported.'),
  notedInChat('prediction', 'Predicted outputs are not supported.'),
  notedInChat('include_reasoning', 'Reasoning is always returned.', true),
  notedInChat('reasoning.enabled', 'Use `reasoning.effort`.', true),
  notedInChat('reasoning.exclude', 'Reasoning is always returned.', false),
  notedInChat('thinking', "Other providers' name for `reasoning_effort`."),
  notedInChat('enable_thinking', 'A variable of some chat templates; use `chat_template_kwargs`.'),
  notedInChat('verbosity', 'Not supported by any engine.', 'medium'),
  notedInChat('web_search_options', 'Web search is not supported.'),
];

/** Fields without which the response would mean something else. */
const REFUSALS: readonly Field[] = [
  refused('messages[].function_call', {
    kinds: CHAT,
    instead: ['tool_calls'],
    description: 'Older name for `tool_calls`.',
  }),
  refused('functions', {
    kinds: CHAT,
    neutral: [[]],
    instead: ['tools'],
    description: 'Older name for `tools`.',
  }),
  refused('function_call', {
    kinds: CHAT,
    neutral: ['none', 'auto'],
    instead: ['tool_choice'],
    description: 'Older name for `tool_choice`.',
  }),
  refused('modalities', { kinds: CHAT, neutral: [['text']], description: 'Only text is supported.' }),
  refused('suffix', {
    kinds: ['text'],
    neutral: [''],
    description: 'Text insertion (fill in the middle) is not supported.',
  }),
  refused('best_of', {
    kinds: ['text'],
    neutral: [1],
    description: 'Accepted only if it is 1 or equals `n`; it has no effect.',
  }),
];

/** The fields of these APIs, in the order of the docs. */
const OWN_FIELDS: readonly Field[] = [
  model,
  messages,
  messageRole,
  messageContent,
  messageImage,
  messageToolCalls,
  messageToolCallId,
  messageReasoningContent,
  messageReasoning,
  messageRefusal,
  prompt,
  stream,
  streamOptions,
  includeUsage,
  maxTokens,
  maxCompletionTokens,
  ...Object.values(SAMPLING_FIELDS),
  logitBias,
  stop,
  choices,
  chatLogprobs,
  topLogprobs,
  textLogprobs,
  echo,
  chatResponseFormat,
  textResponseFormat,
  tools,
  toolStrict,
  toolChoice,
  parallelToolCalls,
  reasoningEffort,
  reasoning,
  nestedEffort,
  reasoningBudget,
  templateVariables,
  user,
  ...HINTS,
  ...NOTED,
  ...REFUSALS,
];

function fieldsOf(kind: CompletionKind): readonly Field[] {
  const own = OWN_FIELDS.filter(({ kinds }) => kinds.includes(kind));
  return [...own, ...foreignFields(kind, own, [kind])];
}

/** The fields of each request. */
export const FIELDS_OF: Readonly<Record<CompletionKind, readonly Field[]>> = {
  chat: fieldsOf('chat'),
  text: fieldsOf('text'),
};

/** All fields of both requests, in the order of the docs. */
export const FIELDS: readonly Field[] = [...new Set([...OWN_FIELDS, ...FIELDS_OF.chat, ...FIELDS_OF.text])];
