import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ServiceError, type ErrorCode } from '../../../src/core/errors.ts';
import { Notes } from '../../../src/core/notes.ts';
import { read, sealing } from './samples.ts';

/** Asserts that a body is refused with this code, field and message. */
function assertRefused(fields: object, code: ErrorCode, param: string, message: RegExp = /./): void {
  assert.throws(
    () => read(fields),
    (error) => {
      assert.ok(error instanceof ServiceError, String(error));
      assert.deepEqual([error.code, error.param], [code, param], error.message);
      assert.match(error.message, message);
      return true;
    },
  );
}

const user = (content: unknown) => ({ role: 'user', content });
const called = (id: string, name = 'f', text = '{}') => ({
  type: 'function_call',
  call_id: id,
  name,
  arguments: text,
});
const result = (id: string, output: unknown = 'ok') => ({
  type: 'function_call_output',
  call_id: id,
  output,
});
const fn = (name: string, more: object = {}) => ({
  type: 'function',
  name,
  parameters: { type: 'object' },
  ...more,
});

test('a text is a user message, and instructions are the system message before it', () => {
  const { messages, notes } = read({ instructions: 'Be brief.', input: 'Hello' });
  assert.deepEqual(messages, [
    { role: 'system', content: 'Be brief.' },
    { role: 'user', content: 'Hello' },
  ]);
  assert.deepEqual(notes, []);
});

test('items need no type, ID or status, and parts of text are joined', () => {
  const { messages } = read({
    input: [
      user([
        { type: 'input_text', text: 'One' },
        { type: 'input_text', text: ' two' },
      ]),
      {
        role: 'assistant',
        content: [
          { type: 'output_text', text: 'Three' },
          { type: 'refusal', refusal: ' no' },
        ],
      },
      user('Four'),
    ],
  });
  assert.deepEqual(messages, [
    { role: 'user', content: 'One two' },
    { role: 'assistant', content: 'Three no', reasoning: null, toolCalls: [] },
    { role: 'user', content: 'Four' },
  ]);
});

test('system and developer messages at the start are one message, and later ones are user messages with a note', () => {
  const { messages, notes } = read({
    instructions: 'A',
    input: [
      { role: 'developer', content: 'B' },
      { role: 'system', content: 'C' },
      user('D'),
      { role: 'developer', content: 'E' },
    ],
  });
  assert.deepEqual(messages, [
    { role: 'system', content: 'A\n\nB\n\nC' },
    { role: 'user', content: 'D' },
    { role: 'user', content: 'E' },
  ]);
  assert.deepEqual(notes, ['input[3] sent as a user message (not at the start)']);
});

test('reasoning, text and calls without another item between them are one assistant message', () => {
  const { messages } = read({
    input: [
      user('Go'),
      { type: 'reasoning', summary: [], content: [{ type: 'reasoning_text', text: 'Hm.' }] },
      { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'Two calls.' }] },
      called('1'),
      called('2', 'g', '{"a":1}'),
      result('2', [{ type: 'input_text', text: 'second' }]),
      result('1', 'first'),
    ],
  });
  assert.deepEqual(messages.slice(1), [
    {
      role: 'assistant',
      content: 'Two calls.',
      reasoning: 'Hm.',
      toolCalls: [
        { id: '1', name: 'f', arguments: '{}' },
        { id: '2', name: 'g', arguments: '{"a":1}' },
      ],
    },
    { role: 'tool', toolCallId: '1', content: 'first' },
    { role: 'tool', toolCallId: '2', content: 'second' },
  ]);
});

test('results follow the message with their calls, even if other items come between', () => {
  const { messages } = read({ input: [called('1'), called('2'), result('1'), user('wait'), result('2')] });
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['assistant', 'tool', 'tool', 'user'],
  );
});

test('the ID of a call can be used again after its result', () => {
  const { messages } = read({ input: [called('1'), result('1'), called('1'), result('1')] });
  assert.equal(messages.length, 4);
});

test('empty turns of the assistant are accepted', () => {
  for (const content of ['', [], null, [{ type: 'output_text', text: '' }]]) {
    const { messages } = read({ input: [user('a'), { role: 'assistant', content }, user('b')] });
    assert.deepEqual(messages[1], { role: 'assistant', content: '', reasoning: null, toolCalls: [] });
  }
});

test('a summary is the reasoning of an item without content', () => {
  const { messages } = read({
    input: [
      user('a'),
      { type: 'reasoning', summary: [{ type: 'summary_text', text: 'Short.' }] },
      { role: 'assistant', content: 'b' },
    ],
  });
  assert.deepEqual(messages[1], { role: 'assistant', content: 'b', reasoning: 'Short.', toolCalls: [] });
});

test('arguments that are not the JSON of an object are sent to the model as a member of one', () => {
  const { messages } = read({ input: [called('1', 'f', '{"a":'), result('1')] });
  const [message] = messages;
  assert.ok(message?.role === 'assistant');
  assert.equal(message.toolCalls[0]?.arguments, '{"INVALID_JSON":"{\\"a\\":"}');
});

test('sealed reasoning is accepted from the account that received it, and refused if it was forged or is foreign', () => {
  const sealed = sealing.of('account').seal('Secret thought.');
  const item = (encrypted_content: string) => ({ type: 'reasoning', summary: [], encrypted_content });
  assert.ok(!sealed.includes('Secret'));
  const { messages } = read({ input: [user('a'), item(sealed), { role: 'assistant', content: 'b' }] });
  assert.ok(messages[1]?.role === 'assistant');
  assert.equal(messages[1].reasoning, 'Secret thought.');
  const other = sealed.at(-5) === 'A' ? 'B' : 'A';
  const foreign = sealing.of('other').seal('Secret thought.');
  for (const text of [
    foreign,
    `${sealed.slice(0, -5)}${other}${sealed.slice(-4)}`,
    'gAAAAABforged',
    'a1b2c3d4',
  ]) {
    // Clients that get this code send the request again without the item.
    assertRefused(
      { input: [user('a'), item(text)] },
      'invalid_encrypted_content',
      'input[1].encrypted_content',
      /another account|not created by this service/,
    );
  }
});

test('calls and results that do not belong together are refused', () => {
  for (const [input, param, message] of [
    [[user('a'), called('1')], 'input', /No tool output found for function call 1\./],
    [[result('1'), called('1')], 'input[0].call_id', /No tool call found/],
    [[called('1'), result('2')], 'input[1].call_id', /No tool call found/],
    [[called('1'), called('1')], 'input[1].call_id', /unique/],
    [[called('1'), result('1'), result('1')], 'input[2].call_id', /No tool call found/],
  ] as const)
    assertRefused({ input }, 'invalid_value', param, message);
});

test('fields that need something stored are refused with what to send instead', () => {
  for (const [fields, param, message] of [
    [{ previous_response_id: 'x' }, 'previous_response_id', /send the items of the conversation in `input`/],
    [{ conversation: 'x' }, 'conversation', /send the items of the conversation in `input`/],
    [{ background: true }, 'background', /`stream`/],
    [{ prompt: { id: 'p' } }, 'prompt', /`instructions`/],
    [
      { input: [{ type: 'item_reference', id: 'x' }] },
      'input[0]',
      /Send the items themselves: .* `store: false`/,
    ],
  ] as const)
    assertRefused(fields, 'unsupported_parameter', param, message);
  assert.deepEqual(read({ background: false, previous_response_id: null }).notes, []);
});

test('what has no effect is noted, and refused in strict requests', () => {
  const fields = {
    store: true,
    truncation: 'auto',
    text: { verbosity: 'low' },
    reasoning: { summary: 'auto' },
    include: ['web_search_call.action.sources'],
    tools: [{ type: 'web_search' }, fn('f', { defer_loading: true })],
    input: [user('a'), { type: 'web_search_call', id: 'x' }, { type: 'compaction', encrypted_content: 'x' }],
    new_field: 1,
  };
  assert.deepEqual(read(fields).notes.sort(), [
    'include[0] ignored',
    'input[1] ignored (web_search_call)',
    'input[2] ignored (compaction)',
    'new_field ignored (unknown field)',
    'reasoning.summary ignored',
    'store ignored',
    'text.verbosity ignored',
    'tools[0] ignored (web_search)',
    'tools[1].defer_loading ignored (unknown field)',
    'truncation ignored',
  ]);
  for (const [name, value] of Object.entries(fields)) {
    assert.throws(() => read({ [name]: value }, new Notes(true)), { code: 'unsupported_parameter' }, name);
  }
});

test('a misspelled field is refused with the right name', () => {
  assertRefused({ max_output_token: 1 }, 'unsupported_parameter', 'max_output_token', /`max_output_tokens`/);
});

test('the other fields are those of a chat', () => {
  const parameters = { type: 'object', properties: {}, additionalProperties: false };
  const { request, notes } = read({
    max_output_tokens: 5,
    temperature: 0,
    top_p: 0.5,
    stop: ['x'],
    seed: 7,
    reasoning: { effort: 'high' },
    parallel_tool_calls: false,
    tools: [fn('f', { description: 'F.', strict: true, parameters })],
    text: { format: { type: 'json_schema', name: 'out', strict: true, schema: { type: 'object' } } },
    include: ['message.output_text.logprobs', 'reasoning.encrypted_content'],
    top_logprobs: 2,
    store: false,
    metadata: { a: 'b' },
    prompt_cache_key: 'k',
    safety_identifier: 's',
    client_metadata: {},
    service_tier: 'auto',
    user: 'u',
    stream: true,
  });
  assert.deepEqual(notes, []);
  assert.partialDeepStrictEqual(request, {
    maxTokens: 5,
    sampling: { temperature: 0, topP: 0.5, seed: 7 },
    stop: ['x'],
    reasoningEffort: 'high',
    parallelToolCalls: false,
    logprobs: 2,
    user: 'u',
    stream: true,
  });
  assert.deepEqual(request.tools, [{ name: 'f', description: 'F.', strict: true, parameters }]);
  const format = { type: 'json_schema', name: 'out', strict: true, schema: { type: 'object' } };
  assert.deepEqual(request.responseFormat, format);
});

test('errors of schemas name the field of the Responses API', () => {
  const schema = { type: 'object', properties: { a: { type: 'string', contentEncoding: 'x' } } };
  const path = 'properties.a.contentEncoding';
  assertRefused(
    { text: { format: { type: 'json_schema', name: 'a', schema, strict: true } } },
    'unsupported_parameter',
    `text.format.schema.${path}`,
  );
  const tools = [
    { type: 'web_search' },
    { type: 'namespace', name: 'n', tools: [fn('f'), fn('g', { strict: true, parameters: schema })] },
  ];
  assertRefused({ tools }, 'unsupported_parameter', `tools[1].tools[1].parameters.${path}`);
  const { parsed } = read({ tools: [{ type: 'web_search' }, fn('f')] });
  assert.deepEqual(
    [parsed.schemaPath(0), parsed.schemaPath(null)],
    ['tools[1].parameters', 'text.format.schema'],
  );
});

test('a custom tool is a function with one text, with its grammar in the description', () => {
  const { request } = read({
    tools: [
      {
        type: 'custom',
        name: 'patch',
        description: 'Patches.',
        format: { type: 'grammar', syntax: 'lark', definition: 'start: "a"' },
      },
      { type: 'custom', name: 'plain' },
      { type: 'custom', name: 'default', format: { type: 'grammar', syntax: null, definition: 'x' } },
    ],
    input: [
      { type: 'custom_tool_call', call_id: '1', name: 'patch', input: 'a "b"' },
      { type: 'custom_tool_call_output', call_id: '1', output: 'done' },
    ],
  });
  assert.match(request.tools[0]?.description ?? '', /^Patches\.\n\n.*\(lark\):\nstart: "a"$/s);
  assert.match(request.tools[2]?.description ?? '', /\(lark\):\nx$/);
  assert.deepEqual(request.tools[1]?.parameters, {
    type: 'object',
    properties: { input: { type: 'string' } },
    required: ['input'],
    additionalProperties: false,
  });
  assert.ok(request.messages[0]?.role === 'assistant');
  assert.deepEqual(request.messages[0].toolCalls, [
    { id: '1', name: 'patch', arguments: '{"input":"a \\"b\\""}' },
  ]);
});

test('tools of a namespace have names that the model accepts, in tools and in calls', () => {
  const long = 'x'.repeat(60);
  const { request } = read({
    tools: [
      { type: 'namespace', name: 'mcp__weather', tools: [fn('get'), fn(long)] },
      { type: 'namespace', name: 'my server', tools: [fn('get.it')] },
    ],
    input: [{ ...called('1', 'get'), namespace: 'mcp__weather' }, result('1')],
  });
  assert.equal(request.tools[0]?.name, 'mcp__weather__get');
  for (const { name } of request.tools) assert.match(name, /^[\w-]{1,64}$/);
  assert.equal(new Set(request.tools.map(({ name }) => name)).size, 3);
  assert.ok(request.messages[0]?.role === 'assistant');
  assert.equal(request.messages[0].toolCalls[0]?.name, 'mcp__weather__get');
});

test('tools that the model cannot tell apart are refused', () => {
  const space = { type: 'namespace', name: 'a', tools: [fn('b')] };
  assertRefused({ tools: [fn('f'), fn('f')] }, 'invalid_value', 'tools[1].name', /unique/);
  assertRefused({ tools: [fn('a__b'), space] }, 'invalid_value', 'tools[1].tools[0].name', /`a__b`/);
  assertRefused(
    {
      tools: [
        { type: 'namespace', name: 'a', tools: [fn('b__c')] },
        { type: 'namespace', name: 'a__b', tools: [fn('c')] },
      ],
    },
    'invalid_value',
    'tools[1].tools[0].name',
    /`a__b__c`/,
  );
  const additional = { type: 'additional_tools', tools: [fn('f')] };
  assertRefused(
    { tools: [fn('f')], input: [user('a'), additional] },
    'invalid_value',
    'input[1].tools[0].name',
    /unique/,
  );
});

test('tools of the input join the others', () => {
  const { request, notes } = read({
    tools: [fn('f')],
    input: [{ type: 'additional_tools', tools: [fn('g')] }, user('a')],
  });
  assert.deepEqual(
    request.tools.map(({ name }) => name),
    ['f', 'g'],
  );
  assert.deepEqual(notes, []);
});

test('more than 1,024 tools are refused, wherever they are', () => {
  const many = Array.from({ length: 1025 }, (_, index) => fn(`f${index}`));
  assert.equal(read({ tools: many.slice(1) }).request.tools.length, 1024);
  assertRefused({ tools: many }, 'invalid_value', 'tools', /1024/);
  assertRefused({ tools: [{ type: 'namespace', name: 'n', tools: many }] }, 'invalid_value', 'tools', /1024/);
});

test('a tool choice names a tool of the request', () => {
  const tools = [
    fn('f'),
    { type: 'custom', name: 'c' },
    { type: 'namespace', name: 'n', tools: [fn('g')] },
    { type: 'web_search' },
  ];
  const choose = (tool_choice: unknown) => read({ tools, tool_choice }).request.toolChoice;
  assert.deepEqual(choose('required'), { type: 'required' });
  assert.deepEqual(choose({ type: 'function', name: 'f' }), { type: 'function', name: 'f' });
  assert.deepEqual(choose({ type: 'custom', name: 'c' }), { type: 'function', name: 'c' });
  assert.deepEqual(choose({ type: 'function', name: 'g', namespace: 'n' }), {
    type: 'function',
    name: 'n__g',
  });
  const allowed = (mode: string, ...named: object[]) => ({ type: 'allowed_tools', mode, tools: named });
  assert.deepEqual(choose(allowed('required', { type: 'function', name: 'f' }, { type: 'web_search' })), {
    type: 'allowed',
    mode: 'required',
    names: ['f'],
  });
  assert.deepEqual(choose(allowed('auto', { type: 'web_search' })), { type: 'none' });
  assert.deepEqual(choose({ ...allowed('auto', { type: 'function', name: 'f' }), mode: null }), {
    type: 'allowed',
    mode: 'auto',
    names: ['f'],
  });
  assertRefused(
    { tools, tool_choice: allowed('required', { type: 'web_search' }) },
    'invalid_value',
    'tool_choice.tools',
  );
  assertRefused(
    { tools, tool_choice: { type: 'web_search' } },
    'unsupported_parameter',
    'tool_choice',
    /`web_search`/,
  );
  assertRefused({ tools, tool_choice: { type: 'function', name: 'x' } }, 'invalid_value', 'tool_choice.name');
  assertRefused({ tools: [{ type: 'web_search' }], tool_choice: 'required' }, 'invalid_value', 'tool_choice');
  assert.deepEqual(read({ tools: [], tool_choice: 'auto' }).request.toolChoice, { type: 'auto' });
});

test('a request needs an input', () => {
  assertRefused({ input: null }, 'missing_required_parameter', 'input');
  assertRefused({ input: [] }, 'invalid_value', 'input');
  assertRefused({ input: 5 }, 'invalid_type', 'input');
  assertRefused({ input: [{}] }, 'missing_required_parameter', 'input[0].type');
  assertRefused({ input: [{ role: 'robot', content: '' }] }, 'invalid_value', 'input[0].role');
});
