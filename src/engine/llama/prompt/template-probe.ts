import type { ChatRequest, Message } from '../../../core/generation.ts';

/** The part of a request that is rendered. */
export type RenderedRequest = Pick<
  ChatRequest,
  'messages' | 'tools' | 'toolChoice' | 'reasoningEffort' | 'templateVariables'
>;

/** Returns a request with one user message. */
export function userSays(content: string): RenderedRequest {
  return withMessages([{ role: 'user', content }]);
}

/** A request with tools, calls with and without text, and results. */
export const CALLS: RenderedRequest = {
  ...withMessages([
    { role: 'user', content: 'Hello' },
    {
      role: 'assistant',
      content: 'Let me see.',
      reasoning: null,
      toolCalls: [call('1', 'get_weather', 'New York'), call('2', 'get_time', 'San José')],
    },
    { role: 'tool', toolCallId: callId('1'), content: 'It rains.' },
    { role: 'tool', toolCallId: callId('2'), content: 'Half past.' },
    { role: 'assistant', content: 'Well.', reasoning: null, toolCalls: [] },
    { role: 'user', content: 'Again' },
    { role: 'assistant', content: null, reasoning: null, toolCalls: [call('3', 'get_time', 'Cape Town')] },
    { role: 'tool', toolCallId: callId('3'), content: 'Too late.' },
  ]),
  tools: [tool('get_weather', 'Gets it now.'), tool('get_time', null), tool('find_place', 'Finds it.')],
};

/** Whether the prompt of `CALLS` has the tools, the calls, the text beside them and the results. */
export function isComplete(prompt: string | null): boolean {
  return prompt !== null && PARTS.every((part) => prompt.includes(part));
}

const PARTS = [
  'find_place',
  'Let me see.',
  'New York',
  'San José',
  'It rains.',
  'Half past.',
  'Cape Town',
  'Too late.',
];

function withMessages(messages: readonly Message[]): RenderedRequest {
  return { messages, tools: [], toolChoice: { type: 'auto' }, reasoningEffort: null, templateVariables: {} };
}

function callId(suffix: string): string {
  return `call_${suffix.padStart(24, '0')}`;
}

function call(id: string, name: string, place: string): { id: string; name: string; arguments: string } {
  return { id: callId(id), name, arguments: JSON.stringify({ place, days: 2, at: { units: ['a b'] } }) };
}

function tool(name: string, description: string | null): ChatRequest['tools'][number] {
  const parameters = {
    type: 'object',
    properties: {
      place: { type: 'string', description: 'Where it is.' },
      days: { type: 'integer' },
      at: { type: 'object', properties: { units: { type: 'array', items: { type: 'string' } } } },
    },
    required: ['place'],
  };
  return { name, description, parameters, strict: false };
}
