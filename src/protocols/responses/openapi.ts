import { IMAGE_DETAILS } from '../../core/generation.ts';
import { MAX_CALL_ID } from '../openai/fields.ts';
import {
  generationOperation,
  imageUrl,
  list,
  nullable,
  object,
  objectOfOtherType,
  objectSchema,
  nothing,
  reference,
  looseSchema,
  strictSchema,
} from '../openai/openapi.ts';
import type { EndpointDescription } from '../../core/protocol.ts';
import { RESPONSES_FIELDS } from './fields.ts';

const string = { type: 'string' };
const integer = { type: 'integer', minimum: 0 };
const name = { ...string, minLength: 1, maxLength: MAX_CALL_ID };

/** Describes the endpoint for responses. */
export function describeResponses(): EndpointDescription {
  const operation = generationOperation(
    'createResponse',
    'Create a response.',
    reference('ResponsesRequest'),
    {
      description:
        'The response; with `stream`, server-sent events that end with `response.completed`, `response.incomplete` or `response.failed`.',
      whole: reference('ResponsesResponse'),
      event: {
        type: 'object',
        description: 'One server-sent event. The type is in `event` and in the data.',
        required: ['event', 'data'],
        properties: {
          event: string,
          data: {
            ...string,
            contentMediaType: 'application/json',
            contentSchema: reference('ResponsesEvent'),
          },
        },
      },
    },
  );
  return { operation, schemas: { ResponsesRequest: objectSchema(RESPONSES_FIELDS, ''), ...SCHEMAS } };
}

const contents = { anyOf: [string, list(reference('ResponsesInputPart'))] };
const call = { call_id: name, name, namespace: nullable(name) };
const texts = list(object({ text: string }));
const notSealed = { encrypted_content: { enum: [null, ''] } };
const toolName = object(
  { type: { enum: ['function', 'custom'] }, name, namespace: nullable(name) },
  'namespace',
);
const grammar = { syntax: string, definition: string };
const logprobs = list(
  object({
    token: string,
    logprob: { type: 'number' },
    bytes: list(integer),
    top_logprobs: list(object({ token: string, logprob: { type: 'number' }, bytes: list(integer) })),
  }),
);

/** An event of a stream. */
function event(type: string, properties: Readonly<Record<string, object>>): object {
  return typed(type, { sequence_number: integer, ...properties });
}

/** The place of an event in the output. */
const inItem = { output_index: integer, item_id: string };
const inPart = { ...inItem, content_index: integer };

/** An object of the type `type`. Other fields are ignored with a note. */
function typed(type: string, properties: Readonly<Record<string, object>>, ...optional: string[]): object {
  return object({ type: { const: type }, ...properties }, ...optional);
}

const SCHEMAS = {
  ResponsesInputPart: {
    anyOf: [
      object({ type: { enum: ['input_text', 'output_text', 'text'] }, text: string }),
      typed('refusal', { refusal: string }),
      typed('input_image', { image_url: imageUrl, detail: nullable({ enum: IMAGE_DETAILS }) }, 'detail'),
    ],
  },
  ResponsesInputItem: {
    description: 'Items of other types are ignored with a note.',
    anyOf: [
      object(
        {
          type: nullable({ const: 'message' }),
          role: { enum: ['user', 'system', 'developer'] },
          content: contents,
        },
        'type',
      ),
      object(
        {
          type: nullable({ const: 'message' }),
          role: { const: 'assistant' },
          content: nullable(contents),
        },
        'type',
        'content',
      ),
      typed('function_call', { ...call, arguments: string }, 'namespace'),
      typed('function_call_output', { call_id: name, output: nullable(contents) }, 'output'),
      typed('custom_tool_call', { ...call, input: string }, 'namespace'),
      typed('custom_tool_call_output', { call_id: name, output: nullable(contents) }, 'output'),
      typed('reasoning', {
        encrypted_content: {
          ...string,
          description: 'Of an earlier response to the same account, unchanged. The rest is then not read.',
        },
      }),
      typed('reasoning', { content: { ...texts, minItems: 1 }, ...notSealed }, 'encrypted_content'),
      typed(
        'reasoning',
        { content: nullable({ type: 'array', maxItems: 0 }), summary: nullable(texts), ...notSealed },
        'content',
        'summary',
        'encrypted_content',
      ),
      typed('additional_tools', { tools: nullable(list(reference('ResponsesTool'))) }, 'tools'),
      objectOfOtherType(
        'message',
        'function_call',
        'function_call_output',
        'custom_tool_call',
        'custom_tool_call_output',
        'reasoning',
        'additional_tools',
        'item_reference',
      ),
    ],
  },
  ResponsesTool: {
    description: 'Tools of other types are ignored with a note.',
    anyOf: [
      typed(
        'function',
        {
          name,
          description: nullable(string),
          parameters: nullable({ type: 'object' }),
          strict: nullable({ type: 'boolean' }),
        },
        'description',
        'parameters',
        'strict',
      ),
      typed(
        'custom',
        {
          name,
          description: nullable(string),
          format: nullable({
            anyOf: [
              typed('text', {}),
              typed('grammar', grammar, 'syntax'),
              typed('grammar', { grammar: object(grammar, 'syntax') }),
            ],
          }),
        },
        'description',
        'format',
      ),
      typed('namespace', { name, tools: nullable(list(reference('ResponsesTool'))) }, 'tools'),
      objectOfOtherType('function', 'custom', 'namespace'),
    ],
  },
  ResponsesToolChoice: {
    anyOf: [
      { ...string, enum: ['none', 'auto', 'required'] },
      toolName,
      typed(
        'allowed_tools',
        {
          mode: { enum: ['auto', 'required'] },
          tools: list({ anyOf: [toolName, objectOfOtherType('function', 'custom')] }),
        },
        'mode',
      ),
    ],
  },
  ResponsesTextFormat: {
    anyOf: [
      object({ type: { enum: ['text', 'json_object'] } }),
      typed(
        'json_schema',
        { name, description: nullable(string), schema: strictSchema, strict: { const: true } },
        'description',
      ),
      typed(
        'json_schema',
        { name, description: nullable(string), schema: looseSchema, strict: { enum: [false, null] } },
        'description',
        'schema',
        'strict',
      ),
    ],
  },
  ResponsesUsage: object({
    input_tokens: integer,
    input_tokens_details: object({ cached_tokens: integer }),
    output_tokens: integer,
    output_tokens_details: object({ reasoning_tokens: integer }),
    total_tokens: integer,
  }),
  ResponsesResponse: object({
    id: string,
    object: { const: 'response' },
    created_at: integer,
    completed_at: nullable(integer),
    status: { enum: ['in_progress', 'completed', 'incomplete', 'failed'] },
    error: nullable(object({ code: string, message: string })),
    incomplete_details: nullable(object({ reason: { enum: ['max_output_tokens', 'content_filter'] } })),
    model: string,
    output: list(reference('ResponsesOutputItem')),
    instructions: { description: 'As in the request.' },
    max_output_tokens: nullable(integer),
    max_tool_calls: nothing,
    metadata: { type: 'object' },
    parallel_tool_calls: { type: 'boolean' },
    previous_response_id: nothing,
    prompt_cache_key: { description: 'As in the request.' },
    reasoning: object({ effort: nullable(string), summary: nothing }),
    safety_identifier: { description: 'As in the request.' },
    service_tier: { const: 'default' },
    store: { const: false },
    temperature: { type: 'number' },
    text: object({ format: { type: 'object' }, verbosity: { const: 'medium' } }),
    tool_choice: { description: 'As in the request.' },
    tools: list({ type: 'object' }),
    top_logprobs: integer,
    top_p: { type: 'number' },
    presence_penalty: { type: 'number' },
    frequency_penalty: { type: 'number' },
    truncation: { const: 'disabled' },
    user: nullable(string),
    background: { const: false },
    usage: nullable(reference('ResponsesUsage')),
  }),
  ResponsesOutputPart: {
    anyOf: [
      typed('output_text', { text: string, annotations: { ...list({}), maxItems: 0 }, logprobs }),
      typed('reasoning_text', { text: string }),
    ],
  },
  ResponsesOutputItem: {
    anyOf: [
      typed('message', {
        id: string,
        status: string,
        role: { const: 'assistant' },
        content: list(reference('ResponsesOutputPart')),
      }),
      typed(
        'reasoning',
        {
          id: string,
          status: string,
          summary: { ...list({}), maxItems: 0 },
          content: list(reference('ResponsesOutputPart')),
          encrypted_content: string,
        },
        'encrypted_content',
      ),
      typed(
        'function_call',
        { id: string, status: string, call_id: string, name: string, namespace: string, arguments: string },
        'namespace',
      ),
      typed(
        'custom_tool_call',
        { id: string, status: string, call_id: string, name: string, namespace: string, input: string },
        'namespace',
      ),
    ],
  },
  ResponsesEvent: {
    anyOf: [
      ...['created', 'in_progress', 'completed', 'incomplete', 'failed'].map((state) =>
        event(`response.${state}`, { response: reference('ResponsesResponse') }),
      ),
      ...['added', 'done'].flatMap((state) => [
        event(`response.output_item.${state}`, {
          output_index: integer,
          item: reference('ResponsesOutputItem'),
        }),
        event(`response.content_part.${state}`, { ...inPart, part: reference('ResponsesOutputPart') }),
      ]),
      event('response.output_text.delta', { ...inPart, delta: string, logprobs }),
      event('response.output_text.done', { ...inPart, text: string, logprobs }),
      event('response.reasoning_text.delta', { ...inPart, delta: string }),
      event('response.reasoning_text.done', { ...inPart, text: string }),
      event('response.function_call_arguments.delta', { ...inItem, delta: string }),
      event('response.function_call_arguments.done', { ...inItem, name: string, arguments: string }),
      event('response.custom_tool_call_input.delta', { ...inItem, delta: string }),
      event('response.custom_tool_call_input.done', { ...inItem, input: string }),
    ],
  },
};
