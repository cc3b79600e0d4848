import { IMAGE_DETAILS } from '../../core/generation.ts';
import {
  anyObject,
  boolean,
  given,
  integer,
  list,
  nothing,
  nullable,
  number,
  object,
  otherType,
  reference,
  string,
  typed,
  typedGiven,
} from '../schema-notation.ts';
import {
  callId,
  generationOperation,
  imageUrl,
  objectSchema,
  SCHEMA_FORMATS,
  typedEvent,
} from '../openai/openapi.ts';
import type { EndpointDescription } from '../../core/protocol.ts';
import { RESPONSES_FIELDS } from './fields.ts';

export function describeResponses(): EndpointDescription {
  const operation = generationOperation(
    'createResponse',
    'Create a response.',
    reference('ResponsesRequest'),
    {
      description:
        'The response; with `stream`, server-sent events that end with `response.completed`, `response.incomplete` or `response.failed`.',
      whole: reference('ResponsesResponse'),
      event: typedEvent(reference('ResponsesEvent')),
    },
  );
  return { operation, schemas: { ResponsesRequest: objectSchema(RESPONSES_FIELDS, ''), ...SCHEMAS } };
}

const contents = { anyOf: [string, list(reference('ResponsesInputPart'))] };
const tools = list(reference('ResponsesTool'));
const named = { name: callId, 'namespace?': callId };
const call = { call_id: callId, ...named };
const output = { call_id: callId, 'output?': contents };
const texts = list(given({ text: string }));
const notSealed = { 'encrypted_content?': { const: '' } };
const toolName = given({ type: { enum: ['function', 'custom'] }, ...named });
const grammar = { 'syntax?': string, definition: string };
const logprob = { token: string, logprob: number, bytes: list(integer) };
const logprobs = list(object({ ...logprob, top_logprobs: list(object(logprob)) }));

/** An event of a stream. */
function event(type: string, fields: Parameters<typeof typed>[1]) {
  return typed(type, { sequence_number: integer, ...fields });
}

/** The place of an event in the output. */
const inItem = { output_index: integer, item_id: string };
const inPart = { ...inItem, content_index: integer };

const item = { id: string, status: string };
const outputCall = { ...item, call_id: string, name: string, 'namespace?': string };
const outputParts = list(reference('ResponsesOutputPart'));

const SCHEMAS = {
  ResponsesInputPart: {
    anyOf: [
      given({ type: { enum: ['input_text', 'output_text', 'text'] }, text: string }),
      typedGiven('refusal', { refusal: string }),
      typedGiven('input_image', { image_url: imageUrl, 'detail?': { enum: IMAGE_DETAILS } }),
    ],
  },
  ResponsesInputItem: {
    description: 'Items of other types are ignored with a note.',
    anyOf: [
      given({
        'type?': { const: 'message' },
        role: { enum: ['user', 'system', 'developer'] },
        content: contents,
      }),
      given({ 'type?': { const: 'message' }, role: { const: 'assistant' }, 'content?': contents }),
      typedGiven('function_call', { ...call, arguments: string }),
      typedGiven('function_call_output', output),
      typedGiven('custom_tool_call', { ...call, input: string }),
      typedGiven('custom_tool_call_output', output),
      typedGiven('reasoning', {
        encrypted_content: {
          ...string,
          description: 'Of an earlier response to the same account, unchanged. The rest is then not read.',
        },
      }),
      typedGiven('reasoning', { content: { ...texts, minItems: 1 }, ...notSealed }),
      typedGiven('reasoning', { 'content?': list({}, { maxItems: 0 }), 'summary?': texts, ...notSealed }),
      typedGiven('additional_tools', { 'tools?': tools }),
      otherType(
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
      typedGiven('function', {
        name: callId,
        'description?': string,
        'parameters?': anyObject,
        'strict?': boolean,
      }),
      typedGiven('custom', {
        name: callId,
        'description?': string,
        'format?': {
          anyOf: [
            typedGiven('text', {}),
            typedGiven('grammar', grammar),
            typedGiven('grammar', { grammar: given(grammar) }),
          ],
        },
      }),
      typedGiven('namespace', { name: callId, 'tools?': tools }),
      otherType('function', 'custom', 'namespace'),
    ],
  },
  ResponsesToolChoice: {
    anyOf: [
      { ...string, enum: ['none', 'auto', 'required'] },
      toolName,
      typedGiven('allowed_tools', {
        'mode?': { enum: ['auto', 'required'] },
        tools: list({ anyOf: [toolName, otherType('function', 'custom')] }),
      }),
    ],
  },
  ResponsesTextFormat: {
    anyOf: [
      given({ type: { enum: ['text', 'json_object'] } }),
      ...SCHEMA_FORMATS.map((format) => typedGiven('json_schema', format)),
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
    metadata: anyObject,
    parallel_tool_calls: boolean,
    previous_response_id: nothing,
    prompt_cache_key: { description: 'As in the request.' },
    reasoning: object({ effort: nullable(string), summary: nothing }),
    safety_identifier: { description: 'As in the request.' },
    service_tier: { const: 'default' },
    store: { const: false },
    temperature: number,
    text: object({ format: anyObject, verbosity: { const: 'medium' } }),
    tool_choice: { description: 'As in the request.' },
    tools: list(anyObject),
    top_logprobs: integer,
    top_p: number,
    presence_penalty: number,
    frequency_penalty: number,
    truncation: { const: 'disabled' },
    user: nullable(string),
    background: { const: false },
    usage: nullable(reference('ResponsesUsage')),
  }),
  ResponsesOutputPart: {
    anyOf: [
      typed('output_text', { text: string, annotations: list({}, { maxItems: 0 }), logprobs }),
      typed('reasoning_text', { text: string }),
    ],
  },
  ResponsesOutputItem: {
    anyOf: [
      typed('message', { ...item, role: { const: 'assistant' }, content: outputParts }),
      typed('reasoning', {
        ...item,
        summary: list({}, { maxItems: 0 }),
        content: outputParts,
        'encrypted_content?': string,
      }),
      typed('function_call', { ...outputCall, arguments: string }),
      typed('custom_tool_call', { ...outputCall, input: string }),
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
