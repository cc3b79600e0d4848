import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { Notes } from '../../../src/core/notes.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { parseChatRequest } from '../../../src/protocols/openai/request.ts';
import { NEUTRAL, NO_TOOLS, STREAMED } from '../../generation-requests.ts';
import { CALLER, chat, refuses } from './samples.ts';

const withMessage = (...messages: unknown[]) => chat({ messages }).request.messages;

test('a request with only required fields gets all defaults', () => {
  assert.deepEqual(chat().request, {
    kind: 'chat',
    model: 'ns/m',
    messages: [{ role: 'user', content: 'Hi' }],
    sampling: NEUTRAL,
    ...STREAMED,
    ...NO_TOOLS,
    stream: false,
  });
});

test('additional fields that official clients send have no effect', () => {
  const extras = {
    user: 'u',
    metadata: { a: 'b' },
    store: true,
    service_tier: 'auto',
    parallel_tool_calls: true,
    safety_identifier: 's',
    prompt_cache_key: 'k',
    prompt_cache_retention: '24h',
    modalities: ['text'],
    tools: [],
    tool_choice: 'auto',
    functions: null,
    n: 1,
    logprobs: false,
    top_logprobs: 0,
    presence_penalty: 0,
    frequency_penalty: 0,
    logit_bias: {},
    stop: [],
    response_format: { type: 'text' },
    stream_options: { include_obfuscation: false },
  };
  const { request, used } = chat(extras);
  assert.deepEqual(used, []);
  // Providers get the parameters that the caller set, whatever their values.
  const sampling = { ...request.sampling, explicit: new Set() };
  assert.deepEqual({ ...request, user: null, sampling }, chat().request);
});

test('fields that have an effect ask for features', () => {
  const { used } = chat({
    seed: 1,
    top_k: 5,
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    logit_bias: { 5: 1 },
    min_p: 0.1,
  });
  assert.deepEqual(used, ['logit_bias', 'logprobs', 'min_p', 'n', 'seed', 'top_k', 'top_logprobs']);
  assert.deepEqual(chat({ response_format: { type: 'json_object' } }).used, ['response_format']);
});

test('an assistant message of a response is accepted unchanged', () => {
  const message = { role: 'assistant', content: 'Hello', refusal: null, annotations: [], tool_calls: [] };
  assert.deepEqual(withMessage(message), [
    { role: 'assistant', content: 'Hello', reasoning: null, toolCalls: [] },
  ]);
});

test('the role developer becomes system, and content parts are joined', () => {
  const parts = [
    { type: 'text', text: 'a' },
    { type: 'text', text: 'b' },
  ];
  assert.deepEqual(withMessage({ role: 'developer', content: parts }), [{ role: 'system', content: 'ab' }]);
});

test('any well-formed content is kept', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (content) => {
      assert.equal(withMessage({ role: 'user', content })[0]?.content, content);
      assert.equal(
        withMessage({ role: 'user', content: [{ type: 'text', text: content }] })[0]?.content,
        content,
      );
    }),
  );
});

test('errors in messages have the path of the field', () => {
  const ok = { role: 'user', content: 'x' };
  const faults: [unknown, Parameters<typeof refuses>[1], string][] = [
    ['x', 'invalid_type', ''],
    [null, 'invalid_type', ''],
    [{ content: 'x' }, 'missing_required_parameter', '.role'],
    [{ role: 1, content: 'x' }, 'invalid_type', '.role'],
    [{ role: 'function', content: 'x', name: 'f' }, 'unsupported_parameter', '.role'],
    [{ role: 'robot', content: 'x' }, 'invalid_value', '.role'],
    [{ role: 'user' }, 'missing_required_parameter', '.content'],
    [{ role: 'user', content: 1 }, 'invalid_type', '.content'],
    [{ role: 'user', content: '\ud800' }, 'invalid_value', '.content'],
    [{ role: 'user', content: ['x'] }, 'invalid_type', '.content[0]'],
    [{ role: 'user', content: [{ text: 'x' }] }, 'missing_required_parameter', '.content[0].type'],
    [{ role: 'user', content: [{ type: 'image' }] }, 'unsupported_parameter', '.content[0].type'],
    [
      { role: 'user', content: [{ type: 'image_url' }] },
      'missing_required_parameter',
      '.content[0].image_url',
    ],
    [{ role: 'user', content: [{ type: 'text' }] }, 'missing_required_parameter', '.content[0].text'],
    [{ role: 'user', content: [{ type: 'text', text: 1 }] }, 'invalid_type', '.content[0].text'],
    [{ role: 'user', content: [{ type: 'text', text: '', x: 1 }] }, 'unsupported_parameter', '.content[0].x'],
    [{ ...ok, tool_call_id: 'c' }, 'unsupported_parameter', '.tool_call_id'],
    [{ ...ok, function_call: {} }, 'unsupported_parameter', '.function_call'],
    [{ ...ok, colour: 'red' }, 'unsupported_parameter', '.colour'],
  ];
  for (const [message, code, path] of faults) {
    refuses(() => withMessage(ok, ok, message), code, `messages[2]${path}`);
  }
  refuses(() => chat({ messages: [] }), 'invalid_value', 'messages');
  refuses(() => chat({ messages: 'x' }), 'invalid_type', 'messages');
});

test('max_completion_tokens takes precedence over max_tokens, and both are checked', () => {
  assert.equal(chat({ max_tokens: 5 }).request.maxTokens, 5);
  assert.equal(chat({ max_tokens: 5, max_completion_tokens: 7 }).request.maxTokens, 7);
  assert.equal(chat({ max_tokens: 5, max_completion_tokens: null }).request.maxTokens, 5);
  assert.equal(chat({ max_tokens: 1e18 }).request.maxTokens, 2_147_483_647);
  refuses(() => chat({ max_tokens: 0, max_completion_tokens: 7 }), 'invalid_value', 'max_tokens');
});

const seedOf = (seed: number) => chat({ seed }).request.sampling.seed;

test('only the lower 32 bits of a seed are used', () => {
  assert.equal(seedOf(42), 42);
  assert.equal(seedOf(-1), 0xffff_ffff);
  assert.equal(seedOf(2 ** 32 + 7), 7);
  assert.equal(seedOf(JSON.parse('9223372036854775807') as number), 0);
});

test('stop is a string or up to 4 strings, none empty', () => {
  assert.deepEqual(chat({ stop: 'x' }).request.stop, ['x']);
  assert.deepEqual(chat({ stop: ['a', 'b', 'c', 'd'] }).request.stop, ['a', 'b', 'c', 'd']);
  assert.deepEqual(chat({ stop: '😀'.repeat(1024) }).request.stop, ['😀'.repeat(1024)]);
  refuses(() => chat({ stop: '😀'.repeat(1025) }), 'invalid_value', 'stop');
  refuses(() => chat({ stop: ['a', 'b', 'c', 'd', 'e'] }), 'invalid_value', 'stop');
  refuses(() => chat({ stop: '' }), 'invalid_value', 'stop');
  refuses(() => chat({ stop: ['a', ''] }), 'invalid_value', 'stop[1]');
  refuses(() => chat({ stop: ['a', 'x'.repeat(1025)] }), 'invalid_value', 'stop[1]');
  refuses(() => chat({ stop: ['a', 1] }), 'invalid_type', 'stop[1]');
  refuses(() => chat({ stop: 1 }), 'invalid_type', 'stop');
});

test('logit_bias maps token IDs to numbers from -100 to 100', () => {
  assert.deepEqual(
    chat({ logit_bias: { 0: -100, 123: 100 } }).request.sampling.logitBias,
    new Map([
      [0, -100],
      [123, 100],
    ]),
  );
  refuses(() => chat({ logit_bias: { 123: 100.1 } }), 'invalid_value', 'logit_bias.123');
  refuses(() => chat({ logit_bias: { 123: '1' } }), 'invalid_type', 'logit_bias.123');
  refuses(() => chat({ logit_bias: { hello: 1 } }), 'invalid_value', 'logit_bias.hello');
  refuses(() => chat({ logit_bias: { 2147483648: 1 } }), 'invalid_value', 'logit_bias.2147483648');
  refuses(() => chat({ logit_bias: [] }), 'invalid_type', 'logit_bias');
  const many = Object.fromEntries(Array.from({ length: 1025 }, (_, id) => [id, 1]));
  refuses(() => chat({ logit_bias: many }), 'invalid_value', 'logit_bias');
});

test('a misspelled field is refused with the nearest known name, at any depth, and an unknown one in strict requests', () => {
  const ok = { role: 'user', content: 'x' };
  for (const [body, message] of [
    [{ max_token: 5 }, 'Unknown field: `max_token`. Did you mean `max_tokens`?'],
    [{ topK: 5 }, 'Unknown field: `topK`. Did you mean `top_k`?'],
    [
      { stream_options: { includeUsage: true } },
      'Unknown field: `stream_options.includeUsage`. Did you mean `include_usage`?',
    ],
    [
      { messages: [{ ...ok, contnet: 'x' }] },
      'Unknown field: `messages[0].contnet`. Did you mean `content`?',
    ],
    [{ assistant_id: 'x' }, '`assistant_id` would be ignored (unknown field), and the request is strict.'],
  ] as const) {
    assert.throws(() => chat(body), { code: 'unsupported_parameter', message });
  }
});

test('misspelled fields are looked for only until the notes are full, because 25,000 would take seconds', () => {
  const unknown = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, id) => [`x-${id}`, 1]));
  const read = (count: number): number => {
    const notes = new Notes();
    chat({ ...unknown(count), max_token: 5 }, { ...CALLER, notes });
    return notes.count;
  };
  refuses(() => read(63), 'unsupported_parameter', 'max_token');
  assert.equal(read(64), 65);
});

test('top_logprobs requires logprobs', () => {
  assert.equal(chat({ logprobs: true }).request.logprobs, 0);
  assert.equal(chat({ logprobs: true, top_logprobs: 20 }).request.logprobs, 20);
  refuses(() => chat({ top_logprobs: 1 }), 'invalid_value', 'top_logprobs');
});

test('n is at most maxChoices', () => {
  const options = { ...CALLER, maxChoices: 16 };
  assert.equal(chat({ n: 16 }, options).request.choices, 16);
  refuses(() => chat({ n: 17 }, options), 'invalid_value', 'n');
});

const format = (value: unknown) => chat({ response_format: value }).request.responseFormat;

test('errors in response_format have the path of the field', () => {
  const schema = { type: 'object', properties: {}, additionalProperties: false };
  assert.deepEqual(format({ type: 'json_object' }), { type: 'json_object' });
  assert.deepEqual(format({ type: 'json_schema', json_schema: { name: 'a', schema, description: 'd' } }), {
    type: 'json_schema',
    name: 'a',
    schema,
    strict: null,
  });
  const named = (json_schema: object) => ({ type: 'json_schema', json_schema });
  for (const [value, code, path] of [
    ['json', 'invalid_type', ''],
    [{}, 'missing_required_parameter', '.type'],
    [{ type: 'xml' }, 'invalid_value', '.type'],
    [{ type: 'text', x: 1 }, 'unsupported_parameter', '.x'],
    [{ type: 'json_schema' }, 'missing_required_parameter', '.json_schema'],
    [named({ schema }), 'missing_required_parameter', '.json_schema.name'],
    [named({ name: 'a b', schema }), 'invalid_value', '.json_schema.name'],
    [named({ name: 'a', strict: true }), 'missing_required_parameter', '.json_schema.schema'],
    [named({ name: 'a', schema, strict: 1 }), 'invalid_type', '.json_schema.strict'],
  ] as const)
    refuses(() => format(value), code, `response_format${path}`);
});

test('a schema that is not strict may have any keyword, or be absent', () => {
  const loose = (schema: unknown, strict?: boolean | null) =>
    format({ type: 'json_schema', json_schema: { name: 'a', schema, strict } });
  const at = 'response_format.json_schema.schema';
  for (const strict of [undefined, null, false]) {
    for (const schema of [
      { type: 'array', uniqueItems: true },
      { type: 'number', multipleOf: 2 },
      { if: {}, patternProperties: { '^a': {} } },
      { oneOf: [{ const: 'x' }], discriminator: { propertyName: 'k' } },
      { type: 'string', maxLength: 65_536, pattern: '(?=a)' },
      { $ref: 'https://example.org/a.json' },
      true,
    ]) {
      assert.deepEqual(loose(schema, strict), {
        type: 'json_schema',
        name: 'a',
        schema,
        strict: strict ?? null,
      });
      if (schema !== true) assert.throws(() => loose(schema, true), ServiceError);
    }
    assert.deepEqual(loose(undefined, strict), { type: 'json_object' });
    refuses(() => loose('x', strict), 'invalid_type', at);
    refuses(() => loose(false, strict), 'invalid_type', at);
    refuses(() => loose({ title: 'x'.repeat(65_536) }, strict), 'invalid_value', at);
  }
});

test('fields of other servers that the service sets itself are refused', () => {
  for (const field of ['cache_salt', 'return_token_ids'])
    refuses(() => chat({ [field]: 'x' }), 'unsupported_parameter', field);
});

test('a body of the Responses API is refused with its endpoint', () => {
  assert.throws(
    () => parseChatRequest({ model: 'ns/m', input: 'Hi' }, CALLER),
    (error) => {
      assert.ok(error instanceof ServiceError);
      assert.deepEqual([error.code, error.param], ['missing_required_parameter', 'messages']);
      assert.match(error.message, /`POST \/v1\/responses`/);
      return true;
    },
  );
});
