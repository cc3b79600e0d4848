import { REASONING_EFFORTS } from '../../core/generation.ts';
import { boolean, choice, hint, noted, number, refused, structured, type Field } from '../field.ts';
import * as chat from '../openai/fields.ts';
import { foreignFields } from '../foreign-fields.ts';
import { MAX_TOOLS, MAX_TOOLS_CHARACTERS } from '../tooling.ts';

/** The table of the fields of `POST /v1/responses`, from which parsing, `docs/responses.md` and OpenAPI are derived. */

export const { model, stop, stream, user } = chat;

const ITEMS = { type: 'array', items: { $ref: '#/components/schemas/ResponsesInputItem' } };

export const input = structured('input', {
  type: 'string or array of items',
  schema: {
    oneOf: [{ type: 'string' }, ITEMS],
  },
  required: true,
  feature: 'earlierCalls',
  bounds: 'at least 1 item, unless there are `instructions`',
  description: 'The conversation: the text of a user, or items in order.',
});

const inputImage = structured('input[].content[].image_url', {
  schema: { type: 'string' },
  feature: 'images',
  bounds: chat.messageImage.bounds,
  description:
    'An image of a user message, in a part of the type `input_image`; also in `output` of the result of a call. PNG, JPEG, GIF or WebP.',
});

export const instructions = structured('instructions', {
  type: 'string or array of items',
  schema: { oneOf: [{ type: 'string' }, ITEMS] },
  description: 'System message before the conversation, or items before those of `input`.',
});

export const maxOutputTokens = number('max_output_tokens', { type: 'integer', minimum: 1 }, null, {
  default: 'limit of the model and its context length',
  description: 'Maximum number of tokens to generate, including reasoning.',
});

export const text = structured('text', {
  schema: { type: 'object' },
  description: 'Options for the text of the response.',
});

const textFormat = structured('text.format', {
  type: 'object',
  schema: { $ref: '#/components/schemas/ResponsesTextFormat' },
  feature: 'chatFormat',
  default: '`{"type":"text"}`',
  description:
    'Format of the text: `text`, `json_object`, or `json_schema` with `name`, `schema` and `strict`, as in chat completions.',
});

export const reasoning = structured('reasoning', {
  schema: { type: 'object' },
  description: 'Options for reasoning models.',
});

export const reasoningBudget = number('reasoning.max_tokens', { type: 'integer', minimum: 1 }, null, {
  feature: 'reasoningBudget',
  default: chat.reasoningBudget.default,
  description: chat.reasoningBudget.description,
});

export const reasoningEffort = choice('reasoning.effort', REASONING_EFFORTS, {
  feature: 'reasoningEffort',
  default: "the model's default",
  description: chat.reasoningEffort.description,
});

const tools = structured('tools', {
  type: 'array of tools',
  schema: { type: 'array', items: { $ref: '#/components/schemas/ResponsesTool' } },
  feature: 'tools',
  bounds: `at most ${MAX_TOOLS} functions and custom tools, and ${MAX_TOOLS_CHARACTERS} characters of JSON`,
  description:
    'Tools that the model may call: `function`, `custom`, or a `namespace` of these. Tools of other types are ignored with a note.',
});

const toolChoice = structured('tool_choice', {
  type: 'string or object',
  schema: { $ref: '#/components/schemas/ResponsesToolChoice' },
  feature: 'toolChoice',
  bounds: '`none`, `auto`, `required`, a function, a custom tool, or `allowed_tools`',
  default: '`"auto"`',
  description:
    'Which tools the model calls. `{"type":"function","name"}` or `{"type":"custom","name"}`: this one. `{"type":"allowed_tools","mode","tools"}`: only these.',
});

export const parallelToolCalls = boolean('parallel_tool_calls', true, {
  feature: 'singleCalls',
  description: chat.parallelToolCalls.description,
});

export const include = structured('include', {
  type: 'array of strings',
  schema: { type: 'array', items: { type: 'string' } },
  feature: 'logprobs',
  description:
    'Additional output: `reasoning.encrypted_content`, or `message.output_text.logprobs`. Other values are ignored with a note.',
});

export const topLogprobs = number('top_logprobs', { type: 'integer', minimum: 0, maximum: 20 }, null, {
  feature: 'topLogprobs',
  default: '`0`',
  description:
    'Number of most likely tokens to return at each position, if `include` has `message.output_text.logprobs`.',
});

export const streamOptions = structured('stream_options', {
  schema: { type: 'object' },
  description: 'Options for streaming.',
});

const HINTS: readonly Field[] = [
  hint('stream_options.include_obfuscation', { description: 'Events are never padded.' }),
  hint('metadata', { description: 'Repeated in the response. Not stored.' }),
  hint('prompt_cache_key', { description: 'Cached prefixes are found without it.' }),
  hint('prompt_cache_options', { description: 'Cached prefixes are found without it.' }),
  hint('prompt_cache_retention', { description: 'The engine decides how long a prefix is cached.' }),
  hint('safety_identifier', { description: 'Repeated in the response. Not stored.' }),
  hint('service_tier', { description: 'There is only one tier.' }),
  hint('client_metadata', { description: 'Not stored.' }),
  hint('max_tool_calls', { description: 'Limits only tools that run on the server.' }),
];

const NOTED: readonly Field[] = [
  noted('store', { neutral: [false], description: 'Responses are never stored.' }),
  noted('truncation', { neutral: ['disabled'], description: 'A prompt is never truncated.' }),
  noted('context_management', { neutral: [[]], description: 'A conversation is never shortened.' }),
  noted('text.verbosity', { neutral: ['medium'], description: 'Not supported by any engine.' }),
  noted('reasoning.summary', { description: 'Reasoning is returned as it is, in `content`.' }),
  noted('reasoning.generate_summary', { description: 'Older name of `reasoning.summary`.' }),
];

/** The fields that need something stored, and what to send instead. */
export const INSTEAD: Readonly<Record<string, string>> = {
  previous_response_id: 'send the items of the conversation in `input`',
  conversation: 'send the items of the conversation in `input`',
  background: 'send the request without it, or with `stream`',
  prompt: 'send its text in `instructions` and `input`',
};

const REFUSALS: readonly Field[] = Object.entries(INSTEAD).map(([name, instead]) =>
  refused(name, {
    neutral: name === 'background' ? [false] : [],
    description: `Nothing is stored: ${instead}.`,
  }),
);

const OWN_FIELDS: readonly Field[] = [
  model,
  input,
  inputImage,
  instructions,
  stream,
  streamOptions,
  maxOutputTokens,
  ...Object.values(chat.SAMPLING_FIELDS),
  chat.logitBias,
  stop,
  text,
  textFormat,
  reasoning,
  reasoningEffort,
  reasoningBudget,
  tools,
  toolChoice,
  parallelToolCalls,
  include,
  topLogprobs,
  chat.templateVariables,
  user,
  ...HINTS,
  ...NOTED,
  ...REFUSALS,
];

/** All fields, in the order of the docs. */
export const RESPONSES_FIELDS: readonly Field[] = [...OWN_FIELDS, ...foreignFields('responses', OWN_FIELDS)];
