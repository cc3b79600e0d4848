import assert from 'node:assert/strict';
import { test } from 'node:test';
import { EMPTY_DRAFT, withModel, type Draft } from '../../console/src/pages/playground/draft.ts';
import {
  CHOICES,
  NUMBERS,
  validationErrors,
  MAX_TEXT_LENGTH,
  MAX_STOPS,
  type Settings,
} from '../../console/src/pages/playground/settings.ts';
import { requestOf, sentRequest } from '../../console/src/pages/playground/request.ts';
import { Notes } from '../../src/core/notes.ts';
import { parseChatRequest } from '../../src/protocols/openai/request.ts';
import type { Field } from '../../src/protocols/field.ts';
import { FIELDS, MAX_STOP_LENGTH, MAX_STOP_SEQUENCES } from '../../src/protocols/openai/fields.ts';

const PARSING = { maxChoices: 16, notes: new Notes(true) };

/** Returns a draft with one model and these values and settings. */
function draftOf(values: Partial<Draft>, settings: Partial<Settings> = {}): Draft {
  const draft = { ...EMPTY_DRAFT, ...values, settings: { ...EMPTY_DRAFT.settings, ...settings } };
  return withModel(draft, 0, 'acme/one');
}

function bodyOf(draft: Draft): Readonly<Record<string, unknown>> {
  const [column] = draft.columns;
  assert.ok(column);
  return requestOf(draft, column, {});
}

/** All parameters. */
const EVERYTHING: Partial<Settings> = {
  numbers: {
    max_tokens: '64',
    temperature: '0.7',
    top_p: ' .9 ',
    top_k: '40',
    min_p: '0.05',
    seed: '-7',
    frequency_penalty: '-0.5',
    presence_penalty: '1e-1',
    repetition_penalty: '1.1',
    n: '2',
    top_logprobs: '3',
    'reasoning.max_tokens': '100',
  },
  stop: ['END', '\\n\\n', 'a\\\\b', ''],
  format: 'json_schema',
  schemaName: 'city',
  schema: '{"type":"object"}',
  logprobs: true,
  user: 'me',
  tools: '[{"name": "get_weather", "parameters": {"type": "object"}}]',
  toolChoice: 'function:get_weather',
  parallelToolCalls: false,
  reasoningEffort: 'low',
  templateVariables: '{"enable_thinking": true}',
};

test('default settings send only model and messages', () => {
  assert.deepEqual(bodyOf(draftOf({ input: 'Hello' })), {
    model: 'acme/one',
    messages: [{ role: 'user', content: 'Hello' }],
  });
});

test('the recommended sampling of the model is sent unless the user sets another value', () => {
  const draft = draftOf({ input: 'Hello' }, { numbers: { temperature: '0.9', top_k: '' } });
  const [column] = draft.columns;
  assert.ok(column);
  const { temperature, top_p, top_k } = requestOf(draft, column, {
    temperature: 0.2,
    top_p: 0.9,
    top_k: 20,
  });
  assert.deepEqual([temperature, top_p, top_k], [0.9, 0.9, 20]);
});

test('all settings are sent under their API names', () => {
  const body = bodyOf(draftOf({ system: 'Be brief.', input: 'Hello' }, EVERYTHING));
  assert.deepEqual(body, {
    model: 'acme/one',
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'user', content: 'Hello' },
    ],
    max_tokens: 64,
    temperature: 0.7,
    top_p: 0.9,
    top_k: 40,
    min_p: 0.05,
    seed: -7,
    frequency_penalty: -0.5,
    presence_penalty: 0.1,
    repetition_penalty: 1.1,
    n: 2,
    stop: ['END', '\n\n', 'a\\b'],
    logprobs: true,
    top_logprobs: 3,
    response_format: { type: 'json_schema', json_schema: { name: 'city', schema: { type: 'object' } } },
    user: 'me',
    tools: [{ type: 'function', function: { name: 'get_weather', parameters: { type: 'object' } } }],
    tool_choice: { type: 'function', function: { name: 'get_weather' } },
    parallel_tool_calls: false,
    reasoning: { max_tokens: 100 },
    reasoning_effort: 'low',
    chat_template_kwargs: { enable_thinking: true },
  });
});

test('chats without tools send no settings of tools', () => {
  const chat = bodyOf(draftOf({ input: 'Hello' }, { ...EVERYTHING, tools: ' ' }));
  for (const name of ['tools', 'tool_choice', 'parallel_tool_calls']) {
    assert.ok(!(name in chat), name);
  }
});

test('the service accepts every request with valid settings', () => {
  const chat = draftOf({ input: 'Hello' }, EVERYTHING);
  assert.deepEqual(validationErrors(chat.settings), {});
  assert.equal(parseChatRequest(bodyOf(chat), PARSING).logprobs, 3);
});

test('the request contains the turns before the response, without empty responses', () => {
  const said = (id: string, role: 'user' | 'assistant', text: string) => ({
    id,
    role,
    text,
    images: [],
    calls: [],
    answer: null,
  });
  const turns = [
    said('1', 'user', 'one'),
    said('2', 'assistant', ''),
    said('3', 'user', 'three'),
    said('4', 'assistant', 'four'),
  ];
  const column = { model: 'acme/one', turns };
  const draft = { ...EMPTY_DRAFT, columns: [column] };
  const contents = (body: Readonly<Record<string, unknown>>) =>
    (body['messages'] as { content: string }[]).map(({ content }) => content);
  assert.deepEqual(contents(requestOf(draft, column, {}, '4')), ['one', 'three']);
  assert.deepEqual(contents(requestOf(draft, column, {}, '3')), ['one']);
  // Code samples show the last request until there is new input.
  assert.deepEqual(contents(sentRequest(draft, column, {})), ['one', 'three']);
  assert.deepEqual(contents(sentRequest({ ...draft, input: 'five' }, column, {})), [
    'one',
    'three',
    'four',
    'five',
  ]);
});

test('streamed requests include usage; others have no stream options', () => {
  const draft = draftOf({ input: 'Hello' });
  const [column] = draft.columns;
  assert.ok(column);
  const { stream, stream_options } = sentRequest(draft, column, {});
  assert.deepEqual({ stream, stream_options }, { stream: true, stream_options: { include_usage: true } });
  const whole = draftOf({ input: 'Hello' }, { stream: false });
  assert.equal('stream' in sentRequest(whole, column, {}), false);
});

test('invalid settings are reported for their field', () => {
  const errors = (settings: Partial<Settings>) =>
    Object.keys(validationErrors({ ...EMPTY_DRAFT.settings, ...settings }));
  assert.deepEqual(errors({ numbers: { temperature: '2.1' } }), ['temperature']);
  assert.deepEqual(errors({ numbers: { repetition_penalty: '0' } }), ['repetition_penalty']);
  assert.deepEqual(errors({ numbers: { max_tokens: '1.5', seed: 'x' } }), ['max_tokens', 'seed']);
  assert.deepEqual(errors({ numbers: { temperature: '' } }), []);
  assert.deepEqual(errors({ stop: ['fine', 'x'.repeat(1025)] }), ['stop[1]']);
  assert.deepEqual(errors({ format: 'json_schema', schema: '{', schemaName: 'a b' }), [
    'schemaName',
    'schema',
  ]);
  assert.deepEqual(errors({ format: 'json_schema', schema: '[]' }), ['schema']);
  assert.deepEqual(errors({ format: 'text', schema: '{' }), []);
  // Without log probabilities the value is ignored.
  assert.deepEqual(errors({ logprobs: true, numbers: { top_logprobs: '99' } }), ['top_logprobs']);
  assert.deepEqual(errors({ numbers: { top_logprobs: '99' } }), []);
});

test('bounds and defaults match the API', () => {
  for (const { name, min, max, aboveMin, whole, fallback } of NUMBERS) {
    // The console only accepts seeds that are exact in JavaScript.
    if (name === 'seed') continue;
    const field: Field | undefined = FIELDS.find(
      ({ path, kinds }) => path === name && kinds.includes('chat'),
    );
    assert.ok(field, `${name} is not a field of chats`);
    const { minimum, maximum, exclusiveMinimum, type } = field.schema;
    assert.equal(aboveMin ? exclusiveMinimum : minimum, min, name);
    if (!name.endsWith('max_tokens')) assert.equal(maximum, max, name);
    assert.equal(type, whole ? 'integer' : 'number', name);
    // Some defaults begin with what the model recommends.
    if (/^[\d.]+$/.test(fallback)) assert.ok(field.default.endsWith(`\`${fallback}\``), name);
  }
  assert.equal(CHOICES.max, FIELDS.find(({ path }) => path === 'n')?.schema.maximum);
  assert.deepEqual([MAX_STOPS, MAX_TEXT_LENGTH], [MAX_STOP_SEQUENCES, MAX_STOP_LENGTH]);
});

test('every generation field of chats has a setting, except `logit_bias`', () => {
  const known = new Set([
    'model',
    'messages',
    'stream',
    'stream_options',
    'max_completion_tokens',
    'logit_bias',
  ]);
  const chat = bodyOf(draftOf({ input: 'Hello' }, EVERYTHING));
  const missing = FIELDS.filter(
    ({ use, path, kinds }) => use === 'generation' && kinds.includes('chat') && !/[.[]/.test(path),
  )
    .map(({ path }) => path)
    .filter((path) => !known.has(path) && !(path in chat));
  assert.deepEqual(missing, []);
});
