import { REASONING_EFFORTS } from '../generation.ts';
import { boolean, choice, string, structured } from './field.ts';

/** Fields that only chats have: messages, tools and reasoning. Part of the table in `fields.ts`. */

/** Functions per request, as in OpenAI's API. */
export const MAX_TOOLS = 128;
/** Maximum size of `tools`, in characters of JSON. */
export const MAX_TOOLS_CHARACTERS = 1_048_576;
/** Maximum length of the description of a function, in code points. */
export const MAX_TOOL_DESCRIPTION = 65_536;
/** Names of functions and response formats. */
export const NAME = /^[A-Za-z0-9_-]{1,64}$/;
/** Calls per message. */
export const MAX_TOOL_CALLS = 128;
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

const CHAT = ['chat'] as const;

export const messages = structured(
  'messages',
  'array of messages',
  { type: 'array', minItems: 1, items: { $ref: '#/components/schemas/RequestMessage' } },
  {
    kinds: CHAT,
    required: true,
    bounds: 'at least 1',
    description:
      'The messages of the conversation, in order. Assistant messages can be sent back unchanged: `refusal: null` and `annotations` are accepted.',
  },
);

export const messageRole = structured(
  'messages[].role',
  'string',
  { type: 'string', enum: ['system', 'developer', 'user', 'assistant', 'tool'] },
  {
    kinds: CHAT,
    required: true,
    bounds: '`system`, `developer`, `user`, `assistant` or `tool`',
    description:
      'Author of the message. `developer` is treated as `system`. A message with the role `tool` is the result of a tool call.',
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
      'Text of the message. Parts of type `text` are joined without a separator; other types are refused. May be null in assistant messages with `tool_calls` or reasoning.',
  },
);

export const messageToolCalls = structured(
  'messages[].tool_calls',
  'array of tool calls',
  { type: 'array', maxItems: MAX_TOOL_CALLS, items: { $ref: '#/components/schemas/RequestToolCall' } },
  {
    kinds: CHAT,
    feature: 'earlierCalls',
    bounds: `at most ${MAX_TOOL_CALLS}, with unique IDs`,
    description:
      'Calls of an assistant message, as in the response. The next messages must contain their results: one message of role `tool` per call. `arguments` is the JSON text of an object; an empty string is the same as `{}`, and any other text is sent to the model as `{"INVALID_JSON":"…"}`.',
  },
);

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

export const messageReasoningContent = structured(
  'messages[].reasoning_content',
  'string',
  { type: 'string' },
  {
    kinds: CHAT,
    description:
      'Reasoning of an earlier response. Sent to models whose chat template uses it; most ignore the reasoning of earlier turns.',
  },
);

export const messageReasoning = structured(
  'messages[].reasoning',
  'string',
  { type: 'string' },
  { kinds: CHAT, description: 'Alias of `reasoning_content`. Ignored if both are set.' },
);

export const tools = structured(
  'tools',
  'array of functions',
  { type: 'array', maxItems: MAX_TOOLS, items: { $ref: '#/components/schemas/Tool' } },
  {
    kinds: CHAT,
    feature: 'tools',
    bounds: `at most ${MAX_TOOLS} with unique names, and ${MAX_TOOLS_CHARACTERS} characters of JSON`,
    description:
      'Functions that the model may call: `{"type":"function","function":{"name","description","parameters"}}`. `parameters` is a JSON Schema of the arguments. Other types of tools are refused.',
  },
);

export const toolStrict = boolean('tools[].function.strict', false, {
  kinds: CHAT,
  feature: 'strictTools',
  description:
    'If true, arguments always satisfy the schema, which must have the type `object` and only supported keywords. If false, the schema may have any keyword, and the engine follows it only if it can.',
});

export const toolChoice = structured(
  'tool_choice',
  'string or object',
  { $ref: '#/components/schemas/ToolChoice' },
  {
    kinds: CHAT,
    feature: 'toolChoice',
    bounds: '`none`, `auto`, `required`, a function, or `allowed_tools`',
    default: '`"auto"`',
    description:
      'Which functions the model calls. `none`: no function. `auto`: the model decides. `required`: at least one. `{"type":"function","function":{"name"}}`: this one. `{"type":"allowed_tools","allowed_tools":{"mode","tools"}}`: only these, with the mode `auto` or `required`.',
  },
);

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

export const templateVariables = structured(
  'chat_template_kwargs',
  'object',
  {
    type: 'object',
    maxProperties: MAX_TEMPLATE_VARIABLES,
    propertyNames: { pattern: TEMPLATE_VARIABLE.source, not: { enum: RESERVED_VARIABLES } },
  },
  {
    kinds: CHAT,
    feature: 'templateVariables',
    bounds: `at most ${MAX_TEMPLATE_VARIABLES} variables and ${MAX_TEMPLATE_CHARACTERS} characters of JSON`,
    default: 'none',
    description:
      "Variables for the model's chat template, such as `enable_thinking`. Variables that the service sets, such as `messages`, are refused.",
  },
);
