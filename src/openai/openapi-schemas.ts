import {
  ANNOTATIONS,
  MAX_SCHEMA_CHARACTERS,
  MAX_SCHEMA_DEPTH,
  MAX_SCHEMA_NODES,
  SUPPORTED_KEYWORDS,
} from './json-schema.ts';

const string = { type: 'string' };
const integer = { type: 'integer', minimum: 0 };
const nullable = (schema: object): object => ({ anyOf: [schema, { type: 'null' }] });
const list = (items: object): object => ({ type: 'array', items });
export const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });

/** An object with these fields, all required except `optional`. */
function object(properties: Readonly<Record<string, object>>, ...optional: string[]): object {
  const required = Object.keys(properties).filter((name) => !optional.includes(name));
  return { type: 'object', required, properties };
}

const SCHEMA_BOUNDS = `A JSON Schema of supported keywords, with at most ${MAX_SCHEMA_CHARACTERS} characters and ${MAX_SCHEMA_NODES} schemas, nested at most ${MAX_SCHEMA_DEPTH} levels deep. Engines refuse some combinations of keywords and some patterns.`;

/** Schemas of objects in requests that the table of fields does not describe. */
export const REQUEST_SCHEMAS = {
  TextPart: { ...object({ type: { const: 'text' }, text: string }), additionalProperties: false },
  RequestMessage: {
    ...object(
      {
        role: { type: 'string', enum: ['system', 'developer', 'user', 'assistant'] },
        content: { anyOf: [string, { type: 'array', minItems: 1, items: reference('TextPart') }] },
        reasoning_content: {},
        refusal: { type: 'null' },
        annotations: nullable({ type: 'array', maxItems: 0 }),
        tool_calls: nullable({ type: 'array', maxItems: 0 }),
      },
      'reasoning_content',
      'refusal',
      'annotations',
      'tool_calls',
    ),
    additionalProperties: false,
  },
  ResponseFormat: {
    anyOf: [
      { ...object({ type: { enum: ['text', 'json_object'] } }), additionalProperties: false },
      {
        ...object({
          type: { const: 'json_schema' },
          json_schema: {
            ...object(
              {
                name: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
                description: nullable(string),
                schema: {
                  anyOf: [
                    { const: true },
                    { type: 'object', propertyNames: { enum: [...SUPPORTED_KEYWORDS, ...ANNOTATIONS] } },
                  ],
                  description: SCHEMA_BOUNDS,
                },
                strict: nullable({ type: 'boolean' }),
              },
              'description',
              'strict',
            ),
            additionalProperties: false,
          },
        }),
        additionalProperties: false,
      },
    ],
  },
};

const finishReason = { type: 'string', enum: ['stop', 'length', 'tool_calls'] };
const usage = reference('Usage');
const chatLogprobs = nullable(reference('ChatLogprobs'));
const textLogprobs = nullable(reference('TextLogprobs'));
const logprob = { token: string, logprob: { type: 'number' }, bytes: nullable(list(integer)) };
const head = (name: string): Record<string, object> => ({
  id: string,
  object: { const: name },
  created: integer,
  model: string,
});

/** Schemas of responses and chunks. */
export const RESPONSE_SCHEMAS = {
  /** The details of the completion are present in chats only. */
  Usage: object(
    {
      prompt_tokens: integer,
      completion_tokens: integer,
      total_tokens: integer,
      prompt_tokens_details: object({ cached_tokens: integer }),
      completion_tokens_details: object({ reasoning_tokens: integer }),
    },
    'completion_tokens_details',
  ),
  ToolCall: object({
    id: string,
    type: { const: 'function' },
    function: object({
      name: string,
      arguments: {
        ...string,
        description: 'JSON text of an object, incomplete if `finish_reason` is `length`.',
      },
    }),
  }),
  /** The first delta of a call has every field, with empty arguments; the others have a part of the arguments. */
  ToolCallDelta: object(
    {
      index: integer,
      id: string,
      type: { const: 'function' },
      function: object({ name: string, arguments: string }, 'name'),
    },
    'id',
    'type',
  ),
  ChatLogprobs: object({
    content: list(object({ ...logprob, top_logprobs: list(object(logprob)) })),
    refusal: { type: 'null' },
  }),
  TextLogprobs: object({
    tokens: list(string),
    token_logprobs: list({ type: 'number' }),
    top_logprobs: list({ type: 'object', additionalProperties: { type: 'number' } }),
    text_offset: list(integer),
  }),
  ChatResponse: object({
    ...head('chat.completion'),
    choices: list(
      object({
        index: integer,
        message: object(
          {
            role: { const: 'assistant' },
            content: nullable(string),
            reasoning_content: string,
            tool_calls: { ...list(reference('ToolCall')), minItems: 1 },
            refusal: { type: 'null' },
          },
          'reasoning_content',
          'tool_calls',
        ),
        logprobs: chatLogprobs,
        finish_reason: finishReason,
      }),
    ),
    usage,
  }),
  ChatChunk: object(
    {
      ...head('chat.completion.chunk'),
      choices: list(
        object(
          {
            index: integer,
            delta: object(
              {
                role: { const: 'assistant' },
                content: string,
                reasoning_content: string,
                tool_calls: { ...list(reference('ToolCallDelta')), minItems: 1, maxItems: 1 },
              },
              'role',
              'content',
              'reasoning_content',
              'tool_calls',
            ),
            logprobs: chatLogprobs,
            finish_reason: nullable(finishReason),
          },
          'logprobs',
        ),
      ),
      usage: nullable(usage),
    },
    'usage',
  ),
  TextResponse: object({
    ...head('text_completion'),
    choices: list(
      object({ index: integer, text: string, logprobs: textLogprobs, finish_reason: finishReason }),
    ),
    usage,
  }),
  TextChunk: object(
    {
      ...head('text_completion'),
      choices: list(
        object({
          index: integer,
          text: string,
          logprobs: textLogprobs,
          finish_reason: nullable(finishReason),
        }),
      ),
      usage: nullable(usage),
    },
    'usage',
  ),
  Model: object({
    id: string,
    object: { const: 'model' },
    created: integer,
    owned_by: string,
    architecture: object({ instruct_type: nullable(string), modality: string, tokenizer: string }),
    context_length: integer,
    max_completion_tokens: integer,
    pricing: object({ prompt: string, completion: string }),
    quantization: string,
  }),
  ModelList: object({ data: list(reference('Model')) }),
};
