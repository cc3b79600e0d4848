import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { chat, refuses } from './samples.ts';

const USER = { role: 'user', content: 'Hi' };
const call = (id: unknown, text: unknown = '{}', name: unknown = 'f') => ({
  id,
  type: 'function',
  function: { name, arguments: text },
});
const calling = (...ids: string[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => call(id)),
});
const result = (tool_call_id: string, content: unknown = 'x') => ({ role: 'tool', tool_call_id, content });
const parse = (...messages: unknown[]) => chat({ messages }).request.messages;

test('calls and their results are kept, in the order of the calls, with null for content that is absent', () => {
  const calls = [
    { id: 'a', name: 'f', arguments: '{"city":"Köln"}' },
    { id: 'b', name: 'f', arguments: '{}' },
  ];
  const sent = [call('a', '{"city":"Köln"}'), { ...call('b', ''), index: 1, extra_content: {} }];
  for (const content of [{}, { content: null }]) {
    assert.deepEqual(
      parse(
        USER,
        { role: 'assistant', ...content, tool_calls: sent },
        result('b'),
        result('a', [{ type: 'text', text: 'y' }]),
      ),
      [
        USER,
        { role: 'assistant', content: null, reasoning: null, toolCalls: calls },
        { role: 'tool', toolCallId: 'a', content: 'y' },
        { role: 'tool', toolCallId: 'b', content: 'x' },
      ],
    );
  }
  const spoken = { ...calling('a'), content: 'Let me see.' };
  assert.deepEqual(parse(spoken, result('a'))[0], {
    role: 'assistant',
    content: 'Let me see.',
    reasoning: null,
    toolCalls: [{ id: 'a', name: 'f', arguments: '{}' }],
  });
});

test('calls of earlier messages are a feature', () => {
  const { used } = chat({ messages: [calling('a'), result('a')] });
  assert.deepEqual(used, ['messages[].tool_calls']);
});

test('reasoning is read from reasoning_content, then from reasoning', () => {
  const reasoningOf = (fields: object) => {
    const [message] = parse({ role: 'assistant', content: 'x', ...fields });
    return message?.role === 'assistant' ? message.reasoning : undefined;
  };
  assert.equal(reasoningOf({ reasoning_content: 'a', reasoning: 'b' }), 'a');
  assert.equal(reasoningOf({ reasoning_content: '', reasoning: 'b' }), 'b');
  assert.equal(reasoningOf({ reasoning: null }), null);
  refuses(() => reasoningOf({ reasoning: 1 }), 'invalid_type', 'messages[0].reasoning');
  refuses(() => parse({ ...USER, reasoning: 1 }), 'invalid_type', 'messages[0].reasoning');
  refuses(
    () => reasoningOf({ reasoning_content: '\ud800' }),
    'invalid_value',
    'messages[0].reasoning_content',
  );
});

test('a message of the assistant may have no content', () => {
  for (const content of [{}, { content: null }, { content: [] }]) {
    for (const reasoning of ['Hm.', null])
      assert.deepEqual(parse(USER, { role: 'assistant', ...content, reasoning_content: reasoning })[1], {
        role: 'assistant',
        content: '',
        reasoning,
        toolCalls: [],
      });
  }
});

test('system messages without text have no effect, unless there are no other messages', () => {
  const empty = { role: 'system', content: '' };
  assert.deepEqual(parse(empty, USER, { role: 'developer', content: [] }), [USER]);
  assert.deepEqual(parse(empty, empty), [empty]);
});

test('a refusal is the text of a message, in its own field or in a part', () => {
  const said = (fields: object) => {
    const [, message] = parse(USER, { role: 'assistant', ...fields });
    return message?.content;
  };
  assert.equal(said({ content: null, refusal: 'No.' }), 'No.');
  assert.equal(said({ content: [{ type: 'refusal', refusal: 'No.' }] }), 'No.');
  assert.equal(said({ content: 'Yes.', refusal: '' }), 'Yes.');
  refuses(() => said({ content: null, refusal: 1 }), 'invalid_type', 'messages[1].refusal');
  const part = { content: [{ type: 'refusal' }] };
  refuses(() => said(part), 'missing_required_parameter', 'messages[1].content[0].refusal');
});

test('errors in calls and results have the path of the field', () => {
  const withCall = (value: unknown) => ({ role: 'assistant', tool_calls: [call('a'), value] });
  const calls: [unknown, Parameters<typeof refuses>[1], string][] = [
    ['x', 'invalid_type', ''],
    [{ ...call('b'), type: 'custom' }, 'unsupported_parameter', '.type'],
    [{ id: 'b', type: 'function' }, 'missing_required_parameter', '.function'],
    [{ ...call('b'), x: 1 }, 'unsupported_parameter', '.x'],
    [call(null), 'missing_required_parameter', '.id'],
    [call(1), 'invalid_type', '.id'],
    [call(''), 'invalid_value', '.id'],
    [call('x'.repeat(257)), 'invalid_value', '.id'],
    [call('a'), 'invalid_value', '.id'],
    [call('b', '{}', ''), 'invalid_value', '.function.name'],
    [call('b', '{}', 'x'.repeat(257)), 'invalid_value', '.function.name'],
    [call('b', '{}', null), 'missing_required_parameter', '.function.name'],
    [call('b', null), 'missing_required_parameter', '.function.arguments'],
    [call('b', {}), 'invalid_type', '.function.arguments'],
  ];
  for (const [value, code, path] of calls) {
    refuses(() => parse(withCall(value)), code, `messages[0].tool_calls[1]${path}`);
  }
  const many = Array.from({ length: 129 }, (_, index) => call(`c${index}`));
  const messages: [unknown, Parameters<typeof refuses>[1], string][] = [
    [{ role: 'assistant', tool_calls: 'x' }, 'invalid_type', '.tool_calls'],
    [{ role: 'assistant', tool_calls: many }, 'invalid_value', '.tool_calls'],
    [{ ...USER, tool_calls: [call('a')] }, 'unsupported_parameter', '.tool_calls'],
    [{ role: 'tool', content: 'x' }, 'missing_required_parameter', '.tool_call_id'],
    [{ ...calling('a'), function_call: {} }, 'unsupported_parameter', '.function_call'],
  ];
  for (const [message, code, path] of messages) refuses(() => parse(message), code, `messages[0]${path}`);
});

/** Returns the calls of a message with these arguments. */
const callsWith = (...texts: string[]) => {
  const calls = texts.map((text, index) => call(`c${index}`, text));
  const results = calls.map(({ id }) => result(String(id)));
  const [message] = parse({ role: 'assistant', tool_calls: calls }, ...results);
  assert.ok(message?.role === 'assistant');
  return message.toolCalls;
};

test('arguments and names that a model can write are accepted, and arguments become the text of an object', () => {
  fc.assert(
    fc.property(fc.oneof(fc.json(), fc.string({ unit: 'binary' })), (text) => {
      let isObject = false;
      try {
        const value: unknown = JSON.parse(text);
        isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
      } catch {
        // Not JSON.
      }
      const [parsed] = callsWith(text);
      const expected =
        text === '' ? '{}' : isObject ? text : JSON.stringify({ INVALID_JSON: text.toWellFormed() });
      assert.equal(parsed?.arguments, expected);
    }),
  );
  const text = '{"a":"\\ud800"}';
  assert.equal(callsWith(text)[0]?.arguments, JSON.stringify({ INVALID_JSON: text }));
  assert.ok(parse({ role: 'assistant', tool_calls: [call('a', '{"a', 'fs.read')] }, result('a')));
});

test('arguments beyond the depth and the number of values of all calls are not parsed', () => {
  const isParsed = (...texts: string[]) =>
    callsWith(...texts).map((each) => !each.arguments.startsWith('{"INVALID_JSON"'));
  const nested = (depth: number) => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;
  const wide = (values: number) => `{"a":[${'1,'.repeat(values - 3)}1]}`;
  assert.deepEqual(isParsed(nested(64)), [true]);
  assert.deepEqual(isParsed('{}', nested(65)), [true, false]);
  assert.deepEqual(isParsed('['.repeat(1_000_000)), [false]);
  assert.deepEqual(isParsed(wide(25_000), wide(24_990)), [true, true]);
  assert.deepEqual(isParsed(wide(25_000), wide(25_010)), [true, false]);
});

test('the error for a part of another type names what is not supported', () => {
  const types = {
    image: 'images of this type',
    input_audio: 'audio inputs',
    video_url: 'videos',
    file: 'files',
  };
  for (const [type, media] of Object.entries(types)) {
    refuses(
      () => parse({ role: 'user', content: [{ type }] }),
      'unsupported_parameter',
      'messages[0].content[0].type',
      `must be \`text\` or \`image_url\`; ${media} are not supported`,
    );
  }
});

test('calls must be followed by their results; otherwise, the error matches the OpenAI API', () => {
  const text =
    "`messages[1]`: An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ";
  for (const [messages, ids] of [
    [[USER, calling('call_1')], 'call_1'],
    [[USER, calling('call_1', 'call_2'), result('call_2')], 'call_1'],
    [[USER, calling('call_1'), USER, result('call_1')], 'call_1'],
    [[USER, calling('call_1'), calling('call_2'), result('call_2')], 'call_1'],
    [[USER, calling('My secret', 'b')], '…, b'],
    [[USER, calling('a', 'b', 'c', 'd', 'e', 'f', 'g')], 'a, b, c, d, e, and 2 others'],
  ] as const) {
    assert.throws(() => parse(...messages), {
      code: 'invalid_value',
      param: 'messages[1]',
      message: `${text}${ids}.`,
    });
  }
});

test('each result belongs to a call of the message before the results', () => {
  const start = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'.";
  for (const [index, messages] of [
    [0, [result('a')]],
    [1, [USER, result('a')]],
    [2, [calling('a'), result('a'), result('a')]],
    [1, [calling('a'), result('b')]],
    [3, [calling('a'), result('a'), USER, result('a')]],
  ] as const) {
    refuses(() => parse(...messages), 'invalid_value', `messages[${index}]`, start);
  }
});

test('a conversation is accepted if, and only if, calls and results match', () => {
  const id = fc.constantFrom('a', 'b', 'c');
  const message = fc.oneof(
    fc.constant(USER),
    fc.uniqueArray(id, { minLength: 1 }).map((ids) => calling(...ids)),
    id.map((one) => result(one)),
  );
  fc.assert(
    fc.property(fc.array(message, { minLength: 1, maxLength: 6 }), (messages) => {
      // The calls whose results must still follow.
      let pending: string[] = [];
      let paired = true;
      for (const one of messages) {
        if ('tool_call_id' in one) {
          paired &&= pending.includes(one.tool_call_id);
          pending = pending.filter((other) => other !== one.tool_call_id);
        } else {
          paired &&= pending.length === 0;
          pending = 'tool_calls' in one ? one.tool_calls.map((each) => String(each.id)) : [];
        }
      }
      paired &&= pending.length === 0;
      if (paired) assert.equal(parse(...messages).length, messages.length);
      else assert.throws(() => parse(...messages), ServiceError);
    }),
  );
});

test('additional fields that clients send in messages have no effect', () => {
  const extras = {
    name: 'Ann',
    cache_control: { type: 'ephemeral' },
    reasoning_details: [{}],
    annotations: [{}],
    provider_specific_fields: { refusal: null },
  };
  const part = { type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } };
  assert.deepEqual(parse({ ...USER, ...extras, content: [part], tool_calls: [], tool_call_id: null }), [
    USER,
  ]);
});
