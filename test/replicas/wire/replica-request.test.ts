import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIALECTS, type GenerationRequest, type ServerDialect } from '../../../src/core/generation.ts';
import { formatRequest } from '../../../src/replicas/wire/replica-request.ts';
import { chat, text } from '../../protocols/openai/samples.ts';

const SERVERS = DIALECTS.filter((dialect) => dialect !== 'sluice');

const to = (dialect: ServerDialect, request: GenerationRequest, cacheOff = false) =>
  formatRequest(request, {
    model: 'm',
    stream: request.stream,
    dialect,
    cacheOff,
    maxTokens: request.maxTokens,
  });

const PLAIN = { temperature: 1, top_p: 1, min_p: 0, presence_penalty: 0, frequency_penalty: 0 };
const HEAD = { model: 'm', messages: [{ role: 'user', content: 'Hi' }], stream: false };

test('a plain chat includes all sampling parameters that the dialect supports', () => {
  const { request } = chat();
  assert.deepEqual(to('vllm', request), { ...HEAD, ...PLAIN, top_k: -1, repetition_penalty: 1 });
  assert.deepEqual(to('sglang', request), { ...HEAD, ...PLAIN, top_k: -1, repetition_penalty: 1 });
  assert.deepEqual(to('llama-server', request), { ...HEAD, ...PLAIN, top_k: 0, repeat_penalty: 1 });
  assert.deepEqual(to('tgi', request), { ...HEAD, temperature: 1 });
  assert.deepEqual(to('openai', request), HEAD);
});

test('streaming requests ask for usage, and for usage in every chunk if it covers all prompts together', () => {
  const one = chat({ stream: true }).request;
  const two = text({ stream: true, prompt: ['a', 'b'] }).request;
  const choices = chat({ stream: true, n: 2 }).request;
  const both = { include_usage: true, continuous_usage_stats: true };
  const expected: Record<ServerDialect, [object, object]> = {
    vllm: [both, { include_usage: true }],
    sglang: [both, { include_usage: true }],
    'llama-server': [{ include_usage: true }, { include_usage: true }],
    tgi: [{ include_usage: true }, { include_usage: true }],
    tei: [{ include_usage: true }, { include_usage: true }],
    openai: [{ include_usage: true }, { include_usage: true }],
  };
  for (const dialect of SERVERS) {
    assert.deepEqual(
      [to(dialect, one).stream_options, to(dialect, two).stream_options],
      expected[dialect],
      dialect,
    );
    assert.deepEqual(to(dialect, choices).stream_options, expected[dialect][0], dialect);
  }
});

test('llama-server is asked for the progress of prompts in streams', () => {
  const progress = (dialect: ServerDialect, stream: boolean) =>
    to(dialect, chat({ stream }).request).return_progress;
  assert.deepEqual(
    SERVERS.filter((dialect) => progress(dialect, true) === true),
    ['llama-server'],
  );
  assert.equal(progress('llama-server', false), undefined);
});

test('token IDs are requested in streams', () => {
  const request = { ...chat({ stream: true }).request, tokenIds: true };
  assert.equal(to('vllm', request).return_token_ids, true);
  assert.equal(to('vllm', { ...request, stream: false }).return_token_ids, undefined);
});

test('fields are renamed and converted for each dialect', () => {
  const { request } = chat({
    repetition_penalty: 1.1,
    logit_bias: { 5: 1 },
    top_k: 7,
    seed: 0xffff_ffff,
    logprobs: true,
    stop: ['a'],
    max_completion_tokens: 9,
  });
  const llama = to('llama-server', request);
  assert.deepEqual(
    [llama.repeat_penalty, llama.logit_bias, llama.top_k, llama.seed, llama.top_logprobs, llama.max_tokens],
    [1.1, [[5, 1]], 7, 0xffff_fffe, 1, 9],
  );
  const vllm = to('vllm', request);
  assert.deepEqual(
    [vllm.repetition_penalty, vllm.logit_bias, vllm.top_k, vllm.seed, vllm.top_logprobs, vllm.max_tokens],
    [1.1, { 5: 1 }, 7, 0xffff_ffff, 0, 9],
  );
  assert.equal(to('tgi', chat({ top_p: 0.5 }).request).top_p, 0.5);
  assert.deepEqual(
    SERVERS.map((dialect) => to(dialect, chat({ top_p: 0 }).request).top_p),
    SERVERS.map((dialect) => (dialect === 'llama-server' || dialect === 'openai' ? 0 : 1e-6)),
  );
});

test('one prompt is sent as a string, several as an array; `max_tokens` is never null', () => {
  assert.equal(to('vllm', text().request).prompt, 'Once');
  assert.deepEqual(to('vllm', text({ prompt: ['a', 'b'] }).request).prompt, ['a', 'b']);
  for (const dialect of SERVERS) assert.ok(!('max_tokens' in to(dialect, text().request)));
});

test('vLLM requests include one more alternative, up to the maximum, because the sampled token may replace one', () => {
  const chatOf = (top_logprobs: number) => to('vllm', chat({ logprobs: true, top_logprobs }).request);
  assert.deepEqual(
    [0, 1, 5, 19, 20].map((count) => chatOf(count).top_logprobs),
    [0, 2, 6, 20, 20],
  );
  assert.deepEqual(
    [0, 1, 5].map((logprobs) => to('vllm', text({ logprobs }).request).logprobs),
    [0, 2, 6],
  );
  assert.equal(to('openai', chat({ logprobs: true, top_logprobs: 5 }).request).top_logprobs, 5);
});

test('accounts are separated by a salt, or the cache is disabled', () => {
  const request = { ...chat().request, cacheScope: 'scope' };
  assert.deepEqual(
    SERVERS.map((dialect) => to(dialect, request, true).cache_salt),
    ['scope', 'scope', undefined, undefined, undefined, undefined],
  );
  assert.equal(to('llama-server', request, true).cache_prompt, false);
  assert.ok(!('cache_prompt' in to('llama-server', request, false)));
});

test('response formats are sent in the field that the server reads', () => {
  const schema = { type: 'object' };
  const response_format = { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } };
  assert.deepEqual(to('vllm', chat({ response_format }).request).response_format, response_format);
  assert.deepEqual(to('llama-server', text({ response_format }).request).json_schema, schema);
  assert.deepEqual(
    to('llama-server', text({ response_format: { type: 'json_object' } }).request).json_schema,
    schema,
  );
  const any = { type: 'json_schema', json_schema: { name: 'n', schema: true } };
  assert.deepEqual(to('vllm', chat({ response_format: any }).request).response_format, {
    type: 'json_schema',
    json_schema: { name: 'n', schema: {} },
  });
});

const tool = (name: string, strict = false) => ({
  type: 'function',
  function: { name, description: 'd', parameters: { type: 'object' }, ...(strict ? { strict } : {}) },
});
const named = (name: string) => ({ type: 'function', function: { name } });
const TOOLS = [tool('f'), tool('g', true)];

test('tools, and a choice that is not automatic, are sent in the form that the server reads', () => {
  const choiceOf = (dialect: ServerDialect, tool_choice?: unknown) => {
    const body = to(dialect, chat({ tools: TOOLS, tool_choice }).request);
    return [body.tools, body.tool_choice];
  };
  const allowed = (mode: string) => ({
    type: 'allowed_tools',
    allowed_tools: { mode, tools: [named('g')] },
  });
  for (const dialect of SERVERS) {
    assert.deepEqual(choiceOf(dialect), [TOOLS, undefined], dialect);
    assert.deepEqual(choiceOf(dialect, 'auto'), [TOOLS, undefined], dialect);
    assert.deepEqual(choiceOf(dialect, 'none'), [TOOLS, 'none'], dialect);
    assert.deepEqual(choiceOf(dialect, 'required'), [TOOLS, 'required'], dialect);
    if (dialect === 'llama-server')
      assert.deepEqual(choiceOf(dialect, named('f')), [[tool('f')], 'required'], dialect);
    else assert.deepEqual(choiceOf(dialect, named('f')), [TOOLS, named('f')], dialect);
    assert.deepEqual(choiceOf(dialect, allowed('auto')), [[TOOLS[1]], undefined], dialect);
    assert.deepEqual(choiceOf(dialect, allowed('required')), [[TOOLS[1]], 'required'], dialect);
  }
});

test('a function without parameters has an empty schema, and no other fields', () => {
  const { request } = chat({ tools: [named('f')] });
  const parameters = { type: 'object', properties: {} };
  assert.deepEqual(to('vllm', request).tools, [{ type: 'function', function: { name: 'f', parameters } }]);
});

test('`parallel_tool_calls` is only sent with tools, and only if the default of the server is different', () => {
  const sent = (fields: object) =>
    SERVERS.map((dialect) => to(dialect, chat(fields).request).parallel_tool_calls);
  assert.deepEqual(sent({ parallel_tool_calls: false }), Array(6).fill(undefined));
  assert.deepEqual(sent({ tools: TOOLS }), [undefined, undefined, true, undefined, undefined, undefined]);
  assert.deepEqual(sent({ tools: TOOLS, parallel_tool_calls: false }), [
    false,
    false,
    false,
    undefined,
    false,
    false,
  ]);
});

test('calls, results and reasoning of earlier turns are sent in the fields that the server reads', () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{"b":1}' } };
  const result = { role: 'tool', tool_call_id: 'a', content: 'x' };
  const user = { role: 'user', content: 'Hi' };
  const silent = { role: 'assistant', content: null, tool_calls: [call] };
  const spoken = { role: 'assistant', content: 'y', reasoning_content: 'r', tool_calls: [call] };
  const last = { role: 'assistant', content: 'z', reasoning: 'q' };
  const { request } = chat({ messages: [user, silent, result, spoken, result, last, user] });
  const messages = (field: string) => [
    user,
    silent,
    result,
    { role: 'assistant', content: 'y', [field]: 'r', tool_calls: [call] },
    result,
    { role: 'assistant', content: 'z', [field]: 'q' },
    user,
  ];
  for (const dialect of ['sglang', 'llama-server'] as const) {
    assert.deepEqual(to(dialect, request).messages, messages('reasoning_content'), dialect);
  }
  assert.deepEqual(to('vllm', request).messages, messages('reasoning'));
  assert.deepEqual(to('tgi', request).messages, [
    user,
    { role: 'assistant', tool_calls: [call] },
    result,
    { role: 'assistant', content: 'y' },
    { role: 'assistant', tool_calls: [call] },
    result,
    { role: 'assistant', content: 'z' },
    user,
  ]);
});

test('reasoning effort and template variables are sent in the fields that the server reads', () => {
  const sent = (dialect: ServerDialect, fields: object) => {
    const { reasoning_effort, chat_template_kwargs } = to(dialect, chat(fields).request);
    return [reasoning_effort, chat_template_kwargs];
  };
  for (const dialect of ['vllm', 'sglang'] as const) {
    assert.deepEqual(sent(dialect, {}), [undefined, undefined]);
    assert.deepEqual(sent(dialect, { reasoning_effort: 'none' }), ['none', undefined]);
    assert.deepEqual(sent(dialect, { reasoning_effort: 'low', chat_template_kwargs: { a: 1 } }), [
      'low',
      { a: 1 },
    ]);
  }
  const llama = (fields: object) => sent('llama-server', fields);
  assert.deepEqual(llama({}), [undefined, undefined]);
  assert.deepEqual(llama({ reasoning_effort: 'none' }), [undefined, { enable_thinking: false }]);
  assert.deepEqual(llama({ reasoning_effort: 'low', chat_template_kwargs: { enable_thinking: false } }), [
    undefined,
    { enable_thinking: false, reasoning_effort: 'low' },
  ]);
  assert.deepEqual(sent('tgi', { reasoning_effort: 'none' }), [undefined, undefined]);
});

test('a budget of reasoning is sent in the field that the server reads, unless vLLM has refused it', () => {
  const body = (dialect: ServerDialect, more: object = {}) =>
    formatRequest(chat({ reasoning: { max_tokens: 64 } }).request, {
      model: 'm',
      dialect,
      stream: true,
      maxTokens: 9,
      cacheOff: false,
      ...more,
    });
  const fields = ['thinking_token_budget', 'custom_params', 'thinking_budget_tokens'];
  const sent = (...args: Parameters<typeof body>) =>
    Object.fromEntries(Object.entries(body(...args)).filter(([name]) => fields.includes(name)));
  assert.deepEqual(sent('vllm'), { thinking_token_budget: 64 });
  assert.deepEqual(sent('vllm', { refused: new Set(['thinking_token_budget']) }), {});
  assert.deepEqual(sent('sglang'), { custom_params: { thinking_budget: 64 } });
  assert.deepEqual(sent('llama-server'), { thinking_budget_tokens: 64 });
  assert.deepEqual(sent('openai'), {});
});

test('`openai` gets the fields of its API that the caller set, even to their defaults', () => {
  const defaults = { temperature: 1, top_p: 1, presence_penalty: 0, frequency_penalty: 0 };
  const neutral = { top_k: 0, min_p: 0, repetition_penalty: 1, logit_bias: {}, parallel_tool_calls: true };
  assert.deepEqual(to('openai', chat({ ...defaults, ...neutral }).request), { ...HEAD, ...defaults });
  const set = {
    temperature: 0.5,
    logit_bias: { 5: 1 },
    seed: 7,
    stop: ['a'],
    n: 2,
    logprobs: true,
    top_logprobs: 3,
    response_format: { type: 'json_object' },
    tools: TOOLS,
    tool_choice: 'required',
    parallel_tool_calls: false,
    reasoning_effort: 'low',
  };
  assert.deepEqual(to('openai', chat({ ...set, max_completion_tokens: 9 }).request), {
    ...HEAD,
    ...set,
    max_tokens: 9,
  });
  const legacy = { echo: true, logprobs: null, n: 2 };
  assert.deepEqual(to('openai', text({ ...legacy, prompt: ['a', 'b'] }).request), {
    model: 'm',
    prompt: ['a', 'b'],
    stream: false,
    n: 2,
    echo: true,
  });
});

test('`openai` gets the reasoning of earlier turns only in the configured field', () => {
  const { request } = chat({ messages: [{ role: 'assistant', content: 'a', reasoning_content: 'r' }] });
  const sent = (reasoningField?: 'reasoning' | 'reasoning_content') =>
    formatRequest(request, {
      model: 'm',
      stream: false,
      dialect: 'openai',
      cacheOff: false,
      maxTokens: null,
      reasoningField,
    }).messages;
  const message = { role: 'assistant', content: 'a' };
  assert.deepEqual(sent(), [message]);
  assert.deepEqual(sent('reasoning'), [{ ...message, reasoning: 'r' }]);
  assert.deepEqual(sent('reasoning_content'), [{ ...message, reasoning_content: 'r' }]);
});

test('`openai` gets the configured field in turns with calls even without reasoning, because DeepSeek requires it', () => {
  const call = { id: 'a', type: 'function', function: { name: 'f', arguments: '{}' } };
  const { request } = chat({
    messages: [
      { role: 'assistant', content: 'x' },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'tool', tool_call_id: 'a', content: 'y' },
    ],
  });
  const reasoningIn = (dialect: 'openai' | 'llama-server', reasoningField?: 'reasoning_content') => {
    const options = { model: 'm', stream: false, dialect, cacheOff: false, maxTokens: null, reasoningField };
    const messages = formatRequest(request, options).messages as Record<string, unknown>[];
    return messages.slice(0, 2).map((message) => message['reasoning_content']);
  };
  assert.deepEqual(reasoningIn('openai', 'reasoning_content'), [undefined, '']);
  assert.deepEqual(reasoningIn('openai'), [undefined, undefined]);
  assert.deepEqual(reasoningIn('llama-server'), [undefined, undefined]);
});

test('fields that the server refused are renamed or left out', () => {
  const sent = (request: GenerationRequest) => {
    const refused = new Set(['max_tokens', 'stream_options'] as const);
    const options = { model: 'm', stream: true, dialect: 'openai', cacheOff: false, maxTokens: 5 } as const;
    const { max_tokens, max_completion_tokens, stream_options } = formatRequest(request, {
      ...options,
      refused,
    });
    return [max_tokens, max_completion_tokens, stream_options];
  };
  assert.deepEqual(sent(chat({ stream: true }).request), [undefined, 5, undefined]);
  assert.deepEqual(sent(text({ stream: true }).request), [5, undefined, undefined]);
});
