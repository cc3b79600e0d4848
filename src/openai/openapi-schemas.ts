import { FINISH_REASONS } from '../generation.ts';
import { MAX_CALL_ID, MAX_TOOL_DESCRIPTION, MAX_TOOLS, NAME } from './chat-fields.ts';
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

const SCHEMA_BOUNDS = `A JSON Schema that uses only supported keywords, with at most ${MAX_SCHEMA_CHARACTERS} characters and ${MAX_SCHEMA_NODES} schemas, nested at most ${MAX_SCHEMA_DEPTH} levels deep. Engines refuse some combinations of keywords and some patterns.`;

/** An object that allows no other fields. */
function closed(properties: Readonly<Record<string, object>>, ...optional: string[]): object {
  return { ...object(properties, ...optional), additionalProperties: false };
}

const functionName = { type: 'string', pattern: NAME.source };

/** Schemas of request objects that the field table does not describe. */
export const REQUEST_SCHEMAS = {
  TextPart: closed({ type: { const: 'text' }, text: string, cache_control: {} }, 'cache_control'),
  RequestToolCall: closed(
    {
      id: { type: 'string', minLength: 1, maxLength: MAX_CALL_ID },
      type: { const: 'function' },
      function: closed({
        name: { type: 'string', minLength: 1, maxLength: MAX_CALL_ID },
        arguments: {
          type: 'string',
          description:
            'JSON text of an object. An empty string means `{}`. Any other text is sent to the model as `{"INVALID_JSON":"…"}`.',
        },
      }),
      index: {},
      extra_content: {},
      cache_control: {},
    },
    'index',
    'extra_content',
    'cache_control',
  ),
  Tool: closed(
    {
      type: { const: 'function' },
      function: closed(
        {
          name: functionName,
          description: nullable({ type: 'string', maxLength: MAX_TOOL_DESCRIPTION }),
          parameters: nullable({
            type: 'object',
            description:
              'JSON Schema of the arguments. Null: no arguments. With `strict`, only supported keywords are allowed.',
          }),
          strict: nullable({ type: 'boolean' }),
        },
        'description',
        'parameters',
        'strict',
      ),
      cache_control: {},
      name: {},
    },
    'cache_control',
    'name',
  ),
  ToolChoice: {
    anyOf: [
      { type: 'string', enum: ['none', 'auto', 'required'] },
      reference('FunctionChoice'),
      closed({
        type: { const: 'allowed_tools' },
        allowed_tools: closed({
          mode: { type: 'string', enum: ['auto', 'required'] },
          tools: { type: 'array', minItems: 1, maxItems: MAX_TOOLS, items: reference('FunctionChoice') },
        }),
      }),
    ],
  },
  FunctionChoice: closed({ type: { const: 'function' }, function: closed({ name: functionName }) }),
  ResponseFormat: {
    anyOf: [
      { ...object({ type: { enum: ['text', 'json_object'] } }), additionalProperties: false },
      {
        ...object({
          type: { const: 'json_schema' },
          json_schema: {
            ...object(
              {
                name: functionName,
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

const finishReason = { type: 'string', enum: FINISH_REASONS };
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
  /** Only chats have `completion_tokens_details`. */
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
  /** The first delta of a call has every field, with empty arguments; later deltas have a part of the arguments. */
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
