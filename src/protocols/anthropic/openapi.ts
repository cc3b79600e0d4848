import { MAX_CALL_ID } from '../openai/fields.ts';
import { bodyBounds } from '../../json/json-body.ts';
import {
  errorResponses,
  generationOperation,
  imageUrl,
  KEY_OR_HEADER,
  list,
  MODEL_ERRORS,
  nothing,
  nullable,
  object,
  objectOfOtherType,
  objectSchema,
  reference,
} from '../openai/openapi.ts';
import type { EndpointDescription } from '../../core/protocol.ts';
import { ERROR_TYPES, statusOf } from './errors.ts';
import { COUNT_PATH } from './count.ts';
import { maxTokens, MESSAGES_FIELDS } from './fields.ts';
import { MEDIA } from './messages.ts';

const string = { type: 'string' };
const boolean = { type: 'boolean' };
const integer = { type: 'integer', minimum: 0 };
const id = { ...string, minLength: 1, maxLength: MAX_CALL_ID };
const name = { ...string, minLength: 1, maxLength: 128, pattern: '^[A-Za-z0-9_-]+$' };

/** Describes the endpoint for messages. */
export function describeMessages(): EndpointDescription {
  const operation = generationOperation('createMessage', 'Create a message.', reference('MessagesRequest'), {
    description: 'The message; with `stream`, server-sent events that end with `message_stop` or `error`.',
    whole: reference('MessagesResponse'),
    event: {
      type: 'object',
      description: 'One server-sent event. The type is in `event` and in the data.',
      required: ['event', 'data'],
      properties: {
        event: string,
        data: { ...string, contentMediaType: 'application/json', contentSchema: reference('MessagesEvent') },
      },
    },
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

function countOperation(): object {
  const json = (schema: object) => ({ 'application/json': { schema } });
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

/** An object of the type `type`. Other fields are ignored with a note. */
function typed(type: string, properties: Readonly<Record<string, object>>, ...optional: string[]): object {
  return object({ type: { const: type }, ...properties }, ...optional);
}

const contents = { anyOf: [string, list(reference('MessagesBlock'))] };
const text = typed('text', { text: string });
const signature = { ...string, description: 'Of an earlier response to the same account, unchanged.' };
const thinking = typed('thinking', { thinking: string, signature });
const toolUse = typed('tool_use', { id, name: { ...string, minLength: 1 }, input: { type: 'object' } });

const stopReason = nullable({ enum: ['end_turn', 'max_tokens', 'stop_sequence', 'tool_use', 'refusal'] });
const stop = { stop_reason: stopReason, stop_sequence: nullable(string), stop_details: nothing };
const index = integer;

const SCHEMAS = {
  MessagesMessage: {
    anyOf: [
      object({ role: { enum: ['user', 'system'] }, content: contents }),
      object({ role: { const: 'assistant' }, content: nullable(contents) }, 'content'),
    ],
  },
  MessagesBlock: {
    description: 'Blocks of other types are ignored with a note, except files, which are refused.',
    anyOf: [
      text,
      typed(
        'thinking',
        { thinking: nullable(string), signature: nullable(signature) },
        'thinking',
        'signature',
      ),
      toolUse,
      typed(
        'tool_result',
        { tool_use_id: id, content: nullable(contents), is_error: nullable(boolean) },
        'content',
        'is_error',
      ),
      typed('tool_reference', { tool_name: { ...string, minLength: 1 } }),
      typed('image', {
        source: {
          anyOf: [typed('base64', { media_type: string, data: string }), typed('url', { url: imageUrl })],
        },
      }),
      typed(
        'document',
        {
          source: {
            anyOf: [typed('text', { data: string }), typed('content', { content: contents })],
          },
          title: nullable(string),
          context: nullable(string),
        },
        'title',
        'context',
      ),
      typed(
        'search_result',
        { title: nullable(string), source: nullable(string), content: contents },
        'title',
        'source',
      ),
      objectOfOtherType('text', 'thinking', 'tool_use', 'tool_result', 'tool_reference', 'image', ...MEDIA),
    ],
  },
  MessagesTool: {
    description: 'Tools of other types are ignored with a note.',
    anyOf: [
      object(
        {
          type: nullable({ const: 'custom' }),
          name,
          description: nullable(string),
          input_schema: nullable({ type: 'object' }),
          strict: nullable(boolean),
          defer_loading: {
            ...nullable(boolean),
            description: 'If true, the model gets the tool only after a `tool_reference` has named it.',
          },
        },
        'type',
        'description',
        'input_schema',
        'strict',
        'defer_loading',
      ),
      objectOfOtherType('custom'),
    ],
  },
  MessagesToolChoice: {
    anyOf: [
      typed('tool', { name, disable_parallel_tool_use: nullable(boolean) }, 'disable_parallel_tool_use'),
      object(
        { type: { enum: ['auto', 'any', 'none'] }, disable_parallel_tool_use: nullable(boolean) },
        'disable_parallel_tool_use',
      ),
    ],
  },
  MessagesUsage: object(
    {
      input_tokens: { ...integer, description: 'Prompt tokens that were not cached.' },
      cache_creation_input_tokens: integer,
      cache_read_input_tokens: { ...integer, description: 'Prompt tokens that were cached.' },
      output_tokens: integer,
      output_tokens_details: object({ thinking_tokens: integer }),
      server_tool_use: nothing,
      cache_creation: nothing,
      inference_geo: nothing,
      service_tier: { const: 'standard' },
      speed: nothing,
    },
    'cache_creation',
    'inference_geo',
    'service_tier',
    'speed',
  ),
  MessagesResponseBlock: {
    anyOf: [
      typed('text', { text: string, citations: nothing }),
      thinking,
      typed('tool_use', { id, caller: typed('direct', {}), name: string, input: { type: 'object' } }),
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
