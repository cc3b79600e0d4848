import { REASONING_EFFORTS } from '../../core/generation.ts';
import { choice, hint, noted, number, refused, string, structured, type Field } from '../field.ts';
import * as chat from '../openai/fields.ts';
import { foreignFields } from '../foreign-fields.ts';
import { MAX_TOOLS, MAX_TOOLS_CHARACTERS } from '../tooling.ts';

/** The table of the fields of `POST /v1/messages`, from which parsing, `docs/messages.md` and OpenAPI are derived. */

export const { model, stream } = chat;

const messages = structured('messages', {
  type: 'array of messages',
  schema: { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/MessagesMessage' } },
  required: true,
  feature: 'earlierCalls',
  bounds: 'at least 1',
  description: 'The conversation, in order. The last message must not be one of the assistant.',
});

const imageSource = structured('messages[].content[].source', {
  schema: { type: 'object' },
  feature: 'images',
  bounds: 'of the type `base64`, or `url` if the model takes URLs',
  description:
    'An image, in a block of the type `image` of a user message or of a result. PNG, JPEG, GIF or WebP.',
});

export const system = structured('system', {
  type: 'string or array of text blocks',
  schema: {
    oneOf: [{ type: 'string' }, { type: 'array', items: { $ref: '#/components/schemas/MessagesBlock' } }],
  },
  description: 'System message before the conversation.',
});

export const maxTokens = number('max_tokens', { type: 'integer', minimum: 1 }, null, {
  required: true,
  description:
    'Maximum number of tokens to generate, including thinking. If the context has no room for so many, fewer are generated, with a note.',
});

/** More than in OpenAI's API, because Anthropic's clients send them. */
export const MAX_STOP_SEQUENCES = 16;

export const stopSequences = structured('stop_sequences', {
  type: 'array of strings',
  schema: {
    type: 'array',
    maxItems: MAX_STOP_SEQUENCES,
    items: { type: 'string', minLength: 1, maxLength: chat.MAX_STOP_LENGTH },
  },
  bounds: `at most ${MAX_STOP_SEQUENCES}, each 1 to ${chat.MAX_STOP_LENGTH} characters`,
  default: 'none',
  description: `${chat.stop.description} Some servers refuse more than ${chat.MAX_STOP_SEQUENCES}.`,
});

const tools = structured('tools', {
  type: 'array of tools',
  schema: { type: 'array', items: { $ref: '#/components/schemas/MessagesTool' } },
  feature: 'tools',
  bounds: `at most ${MAX_TOOLS} that the model gets, and ${MAX_TOOLS_CHARACTERS} characters of JSON`,
  description:
    'Tools that the model may call: `{"name","description","input_schema"}`. Tools with another `type` than `custom` are ignored with a note.',
});

const toolChoice = structured('tool_choice', {
  type: 'object',
  schema: { $ref: '#/components/schemas/MessagesToolChoice' },
  feature: 'toolChoice',
  bounds: 'of the type `auto`, `any`, `tool` or `none`',
  default: '`{"type":"auto"}`',
  description:
    'Which tools the model calls. `any`: at least one. `tool`: the one with this `name`. `disable_parallel_tool_use`: a response has at most one call.',
});

export const thinking = structured('thinking', {
  schema: { type: 'object' },
  description: 'Options for reasoning models.',
});

const THINKING_TYPES = ['enabled', 'adaptive', 'disabled'] as const;

export const thinkingType = choice('thinking.type', THINKING_TYPES, {
  required: true,
  description:
    '`disabled` turns thinking off. `adaptive`: the default of the model, or `output_config.effort`. `enabled`: `budget_tokens` is the maximum.',
});

export const thinkingBudget = number('thinking.budget_tokens', { type: 'integer', minimum: 1 }, null, {
  feature: 'reasoningBudget',
  description:
    'With `enabled`: number of tokens after which the thinking is ended and the answer begins. Without `output_config.effort`, up to 4,096 is the effort `low`, up to 16,384 `medium`, above `high`.',
});

export const thinkingDisplay = structured('thinking.display', {
  type: 'string',
  schema: {},
  default: '`"summarized"`',
  description: '`omitted`: only the signature is sent. Otherwise, all thinking is.',
});

export const outputConfig = structured('output_config', {
  schema: { type: 'object' },
  description: 'Options for the output.',
});

export const effort = choice('output_config.effort', REASONING_EFFORTS, {
  feature: 'reasoningEffort',
  default: "the model's default",
  description: 'How long a reasoning model thinks. Models without this setting ignore it.',
});

const format = structured('output_config.format', {
  schema: { type: 'object' },
  feature: 'chatFormat',
  default: 'text',
  description: '`{"type":"json_schema","schema"}`, with a schema that uses only supported keywords.',
});

export const metadata = structured('metadata', {
  schema: { type: 'object' },
  description: 'Information about the request.',
});

export const userId = string('metadata.user_id', { minLength: 0, maxLength: 1024 }, null, {
  description: chat.user.description,
});

const HINTS: readonly Field[] = [
  hint('cache_control', { description: 'Cached prefixes are found without it.' }),
  hint('service_tier', { description: 'There is only one tier.' }),
  hint('inference_geo', { description: 'The operator decides where models run.' }),
  hint('diagnostics', { description: 'Not supported.' }),
  hint('anthropic_version', { description: 'Sent by clients of other platforms.' }),
];

const NOTED: readonly Field[] = [
  noted('context_management', { description: 'A conversation is never shortened.' }),
  noted('container', { description: 'No tools run on the server.' }),
  noted('mcp_servers', { neutral: [[]], description: 'No tools run on the server.' }),
  noted('speed', { neutral: ['standard'], description: 'There is only one speed.' }),
  noted('output_config.task_budget', { description: 'Not supported by any engine.' }),
];

const REFUSALS: readonly Field[] = [
  refused('thread', { description: 'A conversation that the service would keep. Send all messages.' }),
];

const OWN_FIELDS: readonly Field[] = [
  model,
  messages,
  imageSource,
  system,
  maxTokens,
  stream,
  ...Object.values(chat.SAMPLING_FIELDS),
  chat.logitBias,
  stopSequences,
  tools,
  toolChoice,
  thinking,
  thinkingType,
  thinkingBudget,
  thinkingDisplay,
  outputConfig,
  effort,
  format,
  chat.templateVariables,
  metadata,
  userId,
  ...HINTS,
  ...NOTED,
  ...REFUSALS,
];

/** All fields, in the order of the docs. */
export const MESSAGES_FIELDS: readonly Field[] = [...OWN_FIELDS, ...foreignFields('messages', OWN_FIELDS)];
