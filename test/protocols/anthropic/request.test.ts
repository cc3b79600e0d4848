import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseExactBody } from '../../../src/json/exact-json.ts';
import { ServiceError, type ErrorCode } from '../../../src/core/errors.ts';
import type { ModelCard } from '../../../src/core/generation.ts';
import { Notes } from '../../../src/core/notes.ts';
import { sealing } from '../responses/samples.ts';
import { read } from './samples.ts';

/** Asserts that a body is refused with this code, field and message. */
function assertRefused(
  fields: object,
  code: ErrorCode,
  param: string,
  message: RegExp = /./,
  notes = new Notes(),
): void {
  assert.throws(
    () => read(fields, notes),
    (error) => {
      assert.ok(error instanceof ServiceError, String(error));
      assert.deepEqual([error.code, error.param], [code, param], error.message);
      assert.match(error.message, message);
      return true;
    },
  );
}

const user = (content: unknown) => ({ role: 'user', content });
const assistant = (...content: object[]) => ({ role: 'assistant', content });
const text = (value: string, more: object = {}) => ({ type: 'text', text: value, ...more });
const call = (id: string, name = 'f', input: object = {}) => ({ type: 'tool_use', id, name, input });
const result = (id: string, content: unknown = 'ok', more: object = {}) => ({
  type: 'tool_result',
  tool_use_id: id,
  content,
  ...more,
});
const tool = (name: string, more: object = {}) => ({ name, input_schema: { type: 'object' }, ...more });
const turn = (content: string | null, toolCalls: object[] = [], reasoning: string | null = null) => ({
  role: 'assistant',
  content,
  reasoning,
  toolCalls,
});

test('an unknown field of a block is noted once', () => {
  const text = { type: 'text', text: 'A', new_field: 1 };
  const result = { type: 'tool_result', tool_use_id: 'a', content: [text] };
  const call = { type: 'tool_use', id: 'a', name: 'f', input: {} };
  const { notes } = read({
    system: [text],
    messages: [
      { role: 'assistant', content: [call, text] },
      { role: 'user', content: [result, text] },
    ],
  });
  assert.deepEqual(notes, [
    'system[0].new_field ignored (unknown field)',
    'messages[0].content[1].new_field ignored (unknown field)',
    'messages[1].content[0].content[0].new_field ignored (unknown field)',
    'messages[1].content[1].new_field ignored (unknown field)',
  ]);
});

test('the system prompt comes first, as a text or as blocks, without the billing header', () => {
  assert.deepEqual(read({ system: 'Be brief.' }).messages[0], { role: 'system', content: 'Be brief.' });
  const { messages, notes } = read({
    system: [text('x-anthropic-billing-header: a'), text('A', { cache_control: {} }), text('B')],
  });
  assert.deepEqual(messages[0], { role: 'system', content: 'A\n\nB' });
  assert.deepEqual(notes, ['system[0] left out (billing header)']);
  assert.deepEqual(
    read({ system: [text('x-anthropic-billing-header: a')] }).messages.map(({ role }) => role),
    ['user'],
  );
});

test('numbers in the input of a call stay as they were written', () => {
  const input = '{"id":1234567890123456789,"x":1.0}';
  const body = parseExactBody(
    JSON.stringify({ messages: [user('a'), assistant(call('1')), user([result('1')])] }).replace(
      '"input":{}',
      `"input":${input}`,
    ),
  );
  assert.deepEqual(read(body as object).messages[1], turn(null, [{ id: '1', name: 'f', arguments: input }]));
});

test('system messages of the list stay where they are', () => {
  const { messages, notes } = read({ messages: [user('a'), { role: 'system', content: [text('b')] }] });
  assert.deepEqual(messages, [
    { role: 'user', content: 'a' },
    { role: 'system', content: 'b' },
  ]);
  assert.deepEqual(notes, []);
});

test('results follow the message with their calls, before the text of their message', () => {
  const { messages } = read({
    messages: [
      user([text('One'), text('two')]),
      assistant(text('Two calls.'), call('1'), call('2', 'g', { a: 1 })),
      user([text('wait'), result('2', [text('second'), text('part')]), result('1'), text('go on')]),
    ],
  });
  assert.deepEqual(messages, [
    { role: 'user', content: 'One\n\ntwo' },
    turn('Two calls.', [
      { id: '1', name: 'f', arguments: '{}' },
      { id: '2', name: 'g', arguments: '{"a":1}' },
    ]),
    { role: 'tool', toolCallId: '1', content: 'ok' },
    { role: 'tool', toolCallId: '2', content: 'second\n\npart' },
    { role: 'user', content: 'wait\n\ngo on' },
  ]);
});

test('results without text add no message of the user, and may come in several messages', () => {
  const { messages } = read({
    messages: [
      user('a'),
      assistant(call('1'), call('2')),
      user([result('1')]),
      { role: 'system', content: 'b' },
      user([result('2', undefined)]),
    ],
  });
  assert.deepEqual(
    messages.map(({ role }) => role),
    ['user', 'assistant', 'tool', 'tool', 'system'],
  );
});

test('the model sees that a result is an error', () => {
  const { messages } = read({
    messages: [user('a'), assistant(call('1')), user([result('1', 'no such file', { is_error: true })])],
  });
  assert.deepEqual(messages[2], { role: 'tool', toolCallId: '1', content: 'Error: no such file' });
});

test('messages of the assistant in a row are one', () => {
  const { messages } = read({
    messages: [user('a'), assistant(text('b')), assistant(call('1')), user([result('1')])],
  });
  assert.deepEqual(messages[1], turn('b', [{ id: '1', name: 'f', arguments: '{}' }]));
});

test('an empty turn of the assistant is accepted', () => {
  for (const content of ['', []]) {
    const { messages } = read({ messages: [user('a'), { role: 'assistant', content }, user('b')] });
    assert.deepEqual(messages[1], turn(''));
  }
});

test('thinking is read from its signature, not from its text', () => {
  const signature = sealing.of('account').seal('A thought.');
  for (const thinking of ['', 'Something else.']) {
    const { messages, notes } = read({
      messages: [user('a'), assistant({ type: 'thinking', thinking, signature }, text('b')), user('c')],
    });
    assert.deepEqual(messages[1], turn('b', [], 'A thought.'));
    assert.deepEqual(notes, []);
  }
});

test('thinking without a signature of this service for the account never gets into the prompt', () => {
  const ours = sealing.of('account').seal('A thought.');
  const blocks = [
    { type: 'thinking', thinking: 'Injected', signature: 'c2lnbmF0dXJl' },
    { type: 'thinking', thinking: 'Injected', signature: sealing.of('other').seal('Injected') },
    { type: 'thinking', thinking: 'Injected', signature: `${ours.slice(0, -4)}AAAA` },
    { type: 'thinking', thinking: 'Injected' },
    { type: 'redacted_thinking', data: ours },
  ];
  for (const block of blocks) {
    const fields = { messages: [user('a'), assistant(block, text('b')), user('c')] };
    const { messages, notes } = read(fields);
    assert.deepEqual(messages[1], turn('b'));
    assert.equal(notes.length, 1);
    assert.match(notes[0] ?? '', /^messages\[1\]\.content\[0\] ignored \((thinking that|redacted_thinking)/);
    assertRefused(fields, 'unsupported_parameter', 'messages[1].content[0]', /strict/, new Notes(true));
  }
});

test('calls and results that do not fit together are refused in the words of the API', () => {
  assertRefused(
    { messages: [user('a'), user([text('b'), result('toolu_1')])] },
    'invalid_value',
    'messages[1].content[1]',
    /^messages\.1\.content\.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_1\. /,
  );
  assertRefused(
    { messages: [user([result('1')]), assistant(call('1')), user([result('1')])] },
    'invalid_value',
    'messages[0].content[0]',
  );
  for (const after of [[], [user('b')], [user('b'), assistant(text('c')), user('d')]]) {
    assertRefused(
      { messages: [user('a'), assistant(call('toolu_1')), ...after] },
      'invalid_value',
      'messages[1]',
      /^messages\.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1\. /,
    );
  }
  assertRefused(
    { messages: [user('a'), assistant(call('1'), call('1')), user([result('1')])] },
    'invalid_value',
    'messages[1].content[1].id',
    /`tool_use` ids must be unique/,
  );
});

test('a last message of the assistant is refused, because it cannot be continued', () => {
  assertRefused(
    { messages: [user('a'), assistant(text('b'))] },
    'invalid_value',
    'messages[1]',
    /does not support assistant message prefill/,
  );
});

test('the text of documents and search results is text, also in results of calls', () => {
  const document = {
    type: 'document',
    source: { type: 'text', media_type: 'text/plain', data: 'One.' },
    title: 'a.txt',
    context: null,
    citations: { enabled: false },
  };
  const parts = { type: 'document', source: { type: 'content', content: [text('Two.'), text('')] } };
  const found = { type: 'search_result', source: 'https://a.b', title: 'T', content: [text('Three.')] };
  const content = [document, parts, found];
  const { messages, notes } = read({
    messages: [user(content), assistant(call('1')), user([result('1', content)])],
  });
  const expected = 'a.txt\n\nOne.\n\nTwo.\n\nT\n\nhttps://a.b\n\nThree.';
  assert.deepEqual([messages[0]?.content, messages[2]?.content], [expected, expected]);
  assert.deepEqual(notes, []);
  const cited = read({ messages: [user([{ ...found, citations: { enabled: true } }])] });
  assert.deepEqual(cited.notes, ['messages[0].content[0].citations ignored']);
  const at = 'messages[0].content[0]';
  for (const [block, code, path] of [
    [{ type: 'document' }, 'missing_required_parameter', '.source'],
    [{ ...parts, source: {} }, 'missing_required_parameter', '.source.type'],
    [{ ...parts, source: { type: 'text' } }, 'missing_required_parameter', '.source.data'],
    [{ ...parts, source: { type: 'base64', data: 'JVBERg' } }, 'unsupported_parameter', '.source.type'],
    [{ ...document, title: 1 }, 'invalid_type', '.title'],
    [{ type: 'search_result' }, 'missing_required_parameter', '.content'],
  ] as const)
    assertRefused({ messages: [user([block])] }, code, at + path);
});

test('files are refused, and blocks of unknown types are ignored with a note', () => {
  const file = { type: 'container_upload', file_id: 'f' };
  assertRefused({ messages: [user([file])] }, 'unsupported_parameter', 'messages[0].content[0]');
  const { messages, notes } = read({
    messages: [user('a'), assistant({ type: 'server_tool_use', id: '1' }, text('b')), user('c')],
  });
  assert.deepEqual(messages[1], turn('b'));
  assert.deepEqual(notes, ['messages[1].content[0] ignored (server_tool_use)']);
});

test('invalid messages and blocks are refused with their path', () => {
  const at = (content: unknown) => ({ messages: [user(content)] });
  assertRefused({ messages: 'a' }, 'invalid_type', 'messages');
  assertRefused({ messages: [] }, 'invalid_value', 'messages');
  assertRefused({ messages: null }, 'missing_required_parameter', 'messages');
  assertRefused({ messages: [{ content: 'a' }] }, 'missing_required_parameter', 'messages[0].role');
  assertRefused({ messages: [{ role: 'user' }] }, 'missing_required_parameter', 'messages[0].content');
  assertRefused({ messages: [{ role: 'tool', content: 'a' }] }, 'invalid_value', 'messages[0].role');
  assertRefused(at(1), 'invalid_type', 'messages[0].content');
  assertRefused(at([{}]), 'missing_required_parameter', 'messages[0].content[0].type');
  assertRefused(at([{ type: 'text' }]), 'missing_required_parameter', 'messages[0].content[0].text');
  assertRefused(at([text('\ud800')]), 'invalid_value', 'messages[0].content[0].text');
  const bad = (input: unknown) => ({ messages: [user('a'), assistant({ ...call('1'), input })] });
  assertRefused(bad('{}'), 'invalid_type', 'messages[1].content[0].input');
  assertRefused(bad({ a: '\ud800' }), 'invalid_value', 'messages[1].content[0].input');
  assertRefused({ max_tokens: null }, 'missing_required_parameter', 'max_tokens');
  assertRefused({ max_tokens: 0 }, 'invalid_value', 'max_tokens');
  assertRefused({ max_token: 1 }, 'unsupported_parameter', 'max_token', /Did you mean `max_tokens`/);
});

test('tools become functions, without those that run on the server', () => {
  const { request, parsed, notes } = read({
    tools: [
      { type: 'web_search_20250305', name: 'web_search' },
      tool('f', { description: 'D', type: 'custom', cache_control: {}, eager_input_streaming: true }),
      tool('g', { surprise: 1 }),
    ],
  });
  assert.deepEqual(request.tools, [
    { name: 'f', description: 'D', parameters: { type: 'object' }, strict: false },
    { name: 'g', description: null, parameters: { type: 'object' }, strict: false },
  ]);
  assert.equal(parsed.schemaPath(1), 'tools[2].input_schema');
  assert.deepEqual(notes, [
    'tools[0] ignored (web_search_20250305)',
    'tools[2].surprise ignored (unknown field)',
  ]);
});

test('a deferred tool is left out until a result or the choice names it', () => {
  const tools = [tool('f'), tool('g', { defer_loading: true })];
  const names = (fields: object) => read({ tools, ...fields }).request.tools.map(({ name }) => name);
  assert.deepEqual(names({}), ['f']);
  assert.deepEqual(names({ tool_choice: { type: 'tool', name: 'g' } }), ['f', 'g']);
  const reference = { type: 'tool_reference', tool_name: 'g' };
  const messages = [user('a'), assistant(call('1')), user([result('1', [reference])])];
  assert.deepEqual(names({ messages }), ['f', 'g']);
  assert.deepEqual(read({ messages }).messages[2], {
    role: 'tool',
    toolCallId: '1',
    content: 'Loaded the tool g.',
  });
});

test('the model gets a short name for a tool with a long one', () => {
  const name = `mcp__${'x'.repeat(100)}`;
  const { request, messages } = read({
    tools: [tool(name), tool(`${name}y`)],
    messages: [user('a'), assistant(call('1', name)), user([result('1')])],
  });
  const [short = '', other] = request.tools.map((each) => each.name);
  assert.match(short, /^[\w-]{64}$/);
  assert.notEqual(short, other);
  assert.deepEqual(messages[1], turn(null, [{ id: '1', name: short, arguments: '{}' }]));
});

test('more than 1,024 tools are refused, unless most of them are deferred', () => {
  const tools = (more: object) => Array.from({ length: 1025 }, (_, index) => tool(`f${index}`, more));
  assert.equal(read({ tools: tools({}).slice(1) }).request.tools.length, 1024);
  assertRefused({ tools: tools({}) }, 'invalid_value', 'tools', /at most 1024 tools/);
  assert.equal(read({ tools: tools({ defer_loading: true }) }).request.tools.length, 0);
});

test('tool_choice says which tools the model calls', () => {
  const tools = [tool('f')];
  const choose = (choice: object) => {
    const { toolChoice, parallelToolCalls } = read({ tools, tool_choice: choice }).request;
    return [toolChoice, parallelToolCalls];
  };
  assert.deepEqual(choose({ type: 'auto' }), [{ type: 'auto' }, true]);
  assert.deepEqual(choose({ type: 'any', disable_parallel_tool_use: true }), [{ type: 'required' }, false]);
  assert.deepEqual(choose({ type: 'tool', name: 'f' }), [{ type: 'function', name: 'f' }, true]);
  assert.deepEqual(choose({ type: 'none' }), [{ type: 'none' }, true]);
  const search = [{ type: 'web_search_20250305', name: 'web_search' }];
  assertRefused({ tool_choice: { type: 'any' } }, 'invalid_value', 'tool_choice');
  assertRefused({ tools: search, tool_choice: { type: 'any' } }, 'invalid_value', 'tool_choice');
  const forced = { tools: search, tool_choice: { type: 'tool', name: 'web_search' } };
  assertRefused(forced, 'invalid_value', 'tool_choice.name');
  assertRefused({ tools, tool_choice: { type: 'tool' } }, 'missing_required_parameter', 'tool_choice.name');
  assertRefused({ tools, tool_choice: { type: 'required' } }, 'invalid_value', 'tool_choice.type');
  assertRefused({ tools, tool_choice: 'auto' }, 'invalid_type', 'tool_choice');
});

test('invalid tools are refused with their path', () => {
  assertRefused({ tools: {} }, 'invalid_type', 'tools');
  assertRefused({ tools: [{}] }, 'missing_required_parameter', 'tools[0].name');
  assertRefused({ tools: [tool('a b')] }, 'invalid_value', 'tools[0].name');
  assertRefused({ tools: [tool('f'), tool('f')] }, 'invalid_value', 'tools[1].name', /unique/);
  assertRefused({ tools: [{ name: 'f', input_schema: 1 }] }, 'invalid_type', 'tools[0].input_schema');
  assertRefused({ tools: [tool('f', { defer_loading: 1 })] }, 'invalid_type', 'tools[0].defer_loading');
});

test('the budget of thinking ends the reasoning, unless thinking is not enabled', () => {
  const budget = (thinking: object, more: object = {}) => read({ thinking, ...more }).request.reasoningBudget;
  assert.equal(budget({ type: 'enabled', budget_tokens: 1024 }), 1024);
  assert.equal(budget({ type: 'enabled' }), null);
  assert.equal(budget({ type: 'adaptive', budget_tokens: 1024 }), null);
  assert.equal(budget({ type: 'disabled', budget_tokens: 1024 }), null);
  assert.equal(budget({ type: 'adaptive' }, { chat_template_kwargs: { thinking_budget: 7 } }), 7);
});

test('thinking and effort become the reasoning effort', () => {
  const effort = (thinking: object | null, level: string | null = null) =>
    read({ thinking, output_config: { effort: level } }).request.reasoningEffort;
  assert.equal(effort(null), null);
  assert.equal(effort(null, 'max'), 'max');
  assert.equal(effort({ type: 'adaptive' }), null);
  assert.equal(effort({ type: 'adaptive' }, 'high'), 'high');
  assert.equal(effort({ type: 'disabled' }, 'high'), 'none');
  assert.equal(effort({ type: 'enabled', budget_tokens: 1024 }), 'low');
  assert.equal(effort({ type: 'enabled', budget_tokens: 10_000 }), 'medium');
  assert.equal(effort({ type: 'enabled', budget_tokens: 31_999 }), 'high');
  assert.equal(effort({ type: 'enabled', budget_tokens: 1024 }, 'high'), 'high');
  assertRefused({ thinking: { type: 'on' } }, 'invalid_value', 'thinking.type');
  assertRefused({ thinking: {} }, 'missing_required_parameter', 'thinking.type');
});

test('the other fields become those of a chat', () => {
  const { request, parsed } = read({
    max_tokens: 9,
    stop_sequences: ['a', 'b', 'c', 'd', 'e'],
    temperature: 0.5,
    top_p: 0.9,
    top_k: 40,
    stream: true,
    metadata: { user_id: 'u' },
    service_tier: 'auto',
    output_config: { format: { type: 'json_schema', schema: { type: 'object' } } },
  });
  const { maxTokens, stop, sampling, stream, user: endUser, responseFormat } = request;
  const { temperature, topP, topK } = sampling;
  assert.deepEqual(
    [maxTokens, stop, temperature, topP, topK, stream, endUser],
    [9, ['a', 'b', 'c', 'd', 'e'], 0.5, 0.9, 40, true, 'u'],
  );
  assert.deepEqual(responseFormat, {
    type: 'json_schema',
    name: 'output',
    schema: { type: 'object' },
    strict: true,
  });
  assert.equal(parsed.schemaPath(null), 'output_config.format.schema');
  assertRefused({ stop_sequences: [''] }, 'invalid_value', 'stop_sequences[0]');
  assertRefused({ output_config: { format: { type: 'xml' } } }, 'invalid_value', 'output_config.format.type');
  assertRefused({ output_format: {} }, 'unsupported_parameter', 'output_format', /output_config\.format/);
});

test('fields that cannot be honored are ignored with a note', () => {
  const { notes } = read({
    cache_control: { type: 'ephemeral' },
    context_management: { edits: [] },
    container: 'c',
    mcp_servers: [{ type: 'url' }],
    speed: 'standard',
    new_field: 1,
  });
  assert.deepEqual(notes.sort(), [
    'container ignored',
    'context_management ignored',
    'mcp_servers ignored',
    'new_field ignored (unknown field)',
  ]);
});

test('a conversation that the service would have to keep is refused, so that nothing of it is lost', () => {
  for (const thread of [{ type: 'create' }, { type: 'continue', previous_message_id: 'msg_1' }]) {
    assertRefused({ thread, messages: [] }, 'unsupported_parameter', 'thread', /send all messages/);
  }
});

test('a max_tokens for which the model has no room is noted', () => {
  const noted = (maxTokens: number, card: Partial<ModelCard>) => {
    const notes = new Notes();
    const { parsed } = read({ max_tokens: maxTokens, system: 'x'.repeat(400) }, notes);
    parsed.fit?.({ context_length: 1000, max_completion_tokens: 1000, ...card } as ModelCard);
    return notes.header();
  };
  assert.equal(noted(800, {}), '');
  assert.equal(noted(950, {}), 'max_tokens lowered to what is left of the context (1000 tokens)');
  assert.equal(noted(800, { max_completion_tokens: 500 }), 'max_tokens lowered to 500 (limit of the model)');
});
