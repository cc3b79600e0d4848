import {
  anyObject,
  boolean,
  given,
  integer,
  list,
  nothing,
  nullable,
  object,
  otherType,
  reference,
  string,
  typed,
  typedGiven,
} from '../schema-notation.ts';
import { bodyBounds } from '../../json/json-body.ts';
import {
  callId as id,
  errorResponses,
  generationOperation,
  imageUrl,
  KEY_OR_HEADER,
  MODEL_ERRORS,
  objectSchema,
  typedEvent,
  type Json,
} from '../openai/openapi.ts';
import type { EndpointDescription } from '../../core/protocol.ts';
import { ERROR_TYPES, statusOf } from './errors.ts';
import { COUNT_PATH } from './count.ts';
import { maxTokens, MESSAGES_FIELDS } from './fields.ts';
import { MEDIA } from './messages.ts';

const name = { ...string, minLength: 1, maxLength: 128, pattern: '^[A-Za-z0-9_-]+$' };
const calledName = { ...string, minLength: 1 };

export function describeMessages(): EndpointDescription {
  const operation = generationOperation('createMessage', 'Create a message.', reference('MessagesRequest'), {
    description: 'The message; with `stream`, server-sent events that end with `message_stop` or `error`.',
    whole: reference('MessagesResponse'),
    event: typedEvent(reference('MessagesEvent')),
    errors: ERRORS,
  });
  return {
    operation: { ...operation, security: KEY_OR_HEADER },
    schemas: {
      MessagesRequest: objectSchema(MESSAGES_FIELDS, ''),
      MessagesCountRequest: objectSchema(
        MESSAGES_FIELDS.filter((field) => field !== maxTokens),
        '',
      ),
      ...SCHEMAS,
    },
    paths: { [COUNT_PATH]: { post: countOperation() } },
    models: {
      header: {
        name: 'anthropic-version',
        in: 'header',
        required: false,
        description: "If it is sent, models and errors have the form of Anthropic's API.",
        schema: string,
      },
      list: 'MessagesModelList',
      one: 'MessagesModel',
    },
  };
}

const ERRORS = { schema: 'MessagesError', statusOf };

function countOperation(): Json {
  const json = (schema: Json): Json => ({ 'application/json': { schema } });
  return {
    operationId: 'countMessageTokens',
    summary: 'Count the prompt tokens of a message.',
    security: KEY_OR_HEADER,
    requestBody: {
      description: bodyBounds('`limits.bodyBytes`'),
      required: true,
      content: json(reference('MessagesCountRequest')),
    },
    responses: {
      200: {
        description:
          'The count. If no engine can count, it is an estimate that is not below it, with a note.',
        content: json(object({ input_tokens: integer })),
      },
      ...errorResponses(MODEL_ERRORS, ERRORS),
    },
  };
}

const contents = { anyOf: [string, list(reference('MessagesBlock'))] };
const signature = { ...string, description: 'Of an earlier response to the same account, unchanged.' };

const stopReason = nullable({ enum: ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal'] });
const stop = { stop_reason: stopReason, stop_sequence: nullable(string), stop_details: nothing };
const index = integer;

const SCHEMAS = {
  MessagesMessage: {
    anyOf: [
      given({ role: { enum: ['user', 'system'] }, content: contents }),
      given({ role: { const: 'assistant' }, 'content?': contents }),
    ],
  },
  MessagesBlock: {
    description: 'Blocks of other types are ignored with a note, except files, which are refused.',
    anyOf: [
      typedGiven('text', { text: string }),
      typedGiven('thinking', { 'thinking?': string, 'signature?': signature }),
      typedGiven('tool_use', { id, name: calledName, input: anyObject }),
      typedGiven('tool_result', { tool_use_id: id, 'content?': contents, 'is_error?': boolean }),
      typedGiven('tool_reference', { tool_name: calledName }),
      typedGiven('image', {
        source: {
          anyOf: [
            typedGiven('base64', { media_type: string, data: string }),
            typedGiven('url', { url: imageUrl }),
          ],
        },
      }),
      typedGiven('document', {
        source: {
          anyOf: [typedGiven('text', { data: string }), typedGiven('content', { content: contents })],
        },
        'title?': string,
        'context?': string,
      }),
      typedGiven('search_result', { 'title?': string, 'source?': string, content: contents }),
      otherType('text', 'thinking', 'tool_use', 'tool_result', 'tool_reference', 'image', ...MEDIA),
    ],
  },
  MessagesTool: {
    description: 'Tools of other types are ignored with a note.',
    anyOf: [
      given({
        'type?': { const: 'custom' },
        name,
        'description?': string,
        'input_schema?': anyObject,
        'strict?': boolean,
        'defer_loading?': {
          ...boolean,
          description: 'If true, the model gets the tool only after a `tool_reference` has named it.',
        },
      }),
      otherType('custom'),
    ],
  },
  MessagesToolChoice: {
    anyOf: [
      typedGiven('tool', { name, 'disable_parallel_tool_use?': boolean }),
      given({ type: { enum: ['auto', 'any', 'none'] }, 'disable_parallel_tool_use?': boolean }),
    ],
  },
  MessagesUsage: object({
    input_tokens: { ...integer, description: 'Prompt tokens that were not cached.' },
    cache_creation_input_tokens: integer,
    cache_read_input_tokens: { ...integer, description: 'Prompt tokens that were cached.' },
    output_tokens: integer,
    output_tokens_details: object({ thinking_tokens: integer }),
    server_tool_use: nothing,
    'cache_creation?': nothing,
    'inference_geo?': nothing,
    'service_tier?': { const: 'standard' },
    'speed?': nothing,
  }),
  MessagesResponseBlock: {
    anyOf: [
      typed('text', { text: string, citations: nothing }),
      typed('thinking', { thinking: string, signature }),
      typed('tool_use', { id, caller: typed('direct', {}), name: string, input: anyObject }),
    ],
  },
  MessagesResponse: object({
    id: string,
    type: { const: 'message' },
    role: { const: 'assistant' },
    model: string,
    content: list(reference('MessagesResponseBlock')),
    ...stop,
    container: nothing,
    diagnostics: nothing,
    usage: reference('MessagesUsage'),
  }),
  MessagesEvent: {
    anyOf: [
      typed('message_start', { message: reference('MessagesResponse') }),
      typed('content_block_start', { index, content_block: reference('MessagesResponseBlock') }),
      typed('content_block_delta', {
        index,
        delta: {
          anyOf: [
            typed('text_delta', { text: string }),
            typed('thinking_delta', { thinking: string }),
            typed('signature_delta', { signature: string }),
            typed('input_json_delta', { partial_json: string }),
          ],
        },
      }),
      typed('content_block_stop', { index }),
      typed('message_delta', { delta: object(stop), usage: reference('MessagesUsage') }),
      typed('message_stop', {}),
      typed('ping', {}),
      reference('MessagesError'),
    ],
  },
  MessagesModel: object({
    type: { const: 'model' },
    id: string,
    display_name: string,
    created_at: { ...string, format: 'date-time' },
    max_input_tokens: integer,
    max_tokens: integer,
    capabilities: nothing,
    lifecycle: { const: 'active' },
    line: nothing,
    deprecated_at: nothing,
    retires_at: nothing,
  }),
  MessagesModelList: object({
    data: list(reference('MessagesModel')),
    has_more: { const: false },
    first_id: nullable(string),
    last_id: nullable(string),
  }),
  MessagesError: object({
    type: { const: 'error' },
    error: object({ type: { ...string, enum: ERROR_TYPES }, message: string }),
    request_id: string,
  }),
};
