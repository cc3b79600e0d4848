import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReplicaOptions } from '../../src/replicas/replica-client.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type { GenerationRequest, Message, Tool } from '../../src/core/generation.ts';
import { LARGE_JSON } from '../../src/json/json-thread.ts';
import { HttpReplica, isUnavailable, openScripted } from './replicas.ts';
import { chat, collect, NEVER_ABORTED, text } from '../engine/requests.ts';

const USER: Message = { role: 'user', content: 'Wie geht’s?' };
const TOOL: Tool = { name: 'f', description: 'Does it.', parameters: { type: 'object' }, strict: false };

const CHAT = chat({}, { messages: [USER], tools: [TOOL], templateVariables: { custom: 1 } });
const TEXTS = text({}, { prompts: ['one', 'two'] });

/** The tools in OpenAI's format. */
const TOOLS = [
  { type: 'function', function: { name: 'f', description: 'Does it.', parameters: { type: 'object' } } },
];

/** Responds to each path with this text; to other paths with 404. */
const listen = (dialect: ReplicaOptions['dialect'], bodies: Record<string, string>) =>
  HttpReplica.listen(
    (response, { url = '' }) => {
      const body = bodies[url];
      response.writeHead(body === undefined ? 404 : 200).end(body ?? '{}');
    },
    { dialect },
  );

const count = (replica: HttpReplica, request: GenerationRequest, signal = NEVER_ABORTED) =>
  replica.client.countPromptTokens(request, signal);

test('an engine of this service counts all prompts, as in the usage of a generation', async () => {
  await using replica = await openScripted();
  for (const request of [CHAT, TEXTS, text({}, { prompts: ['a', 'b'], choices: 2 })]) {
    const counted = await replica.countPromptTokens(request, NEVER_ABORTED);
    const end = (await collect(replica.generate(request, NEVER_ABORTED))).at(-1);
    assert(end?.type === 'end');
    assert.equal(counted, end.usage.promptTokens);
  }
});

test('an engine of this service refuses to count what it refuses to generate', async () => {
  await using replica = await openScripted({ contextTokens: 4 });
  await assert.rejects(replica.countPromptTokens(CHAT, NEVER_ABORTED), {
    code: 'context_length_exceeded',
    status: 400,
  });
});

test('an engine without the endpoint for counts is unavailable for them', async () => {
  await using replica = await listen('sluice', {});
  await assert.rejects(count(replica, CHAT), isUnavailable);
});

for (const [effort, variables] of [
  [null, { custom: 1 }],
  ['none', { custom: 1, enable_thinking: false, reasoning_effort: 'none' }],
  ['high', { custom: 1, enable_thinking: true, reasoning_effort: 'high' }],
] as const) {
  test(`vLLM tokenizes the messages, tools and variables of a chat with the effort ${effort}`, async () => {
    await using replica = await listen('vllm', {
      '/tokenize': '{"count":3,"tokens":[7,8,9],"max_model_len":9}',
    });
    assert.equal(await count(replica, { ...CHAT, reasoningEffort: effort }), 3);
    const { messages, tools, chat_template_kwargs: sent } = replica.bodies[0] ?? {};
    assert.deepEqual([messages, tools, sent], [[USER], TOOLS, variables]);
  });
}

test('vLLM gets the value of enable_thinking that the caller has chosen', async () => {
  await using replica = await listen('vllm', { '/tokenize': '{"tokens":[7]}' });
  const templateVariables = { enable_thinking: false, reasoning_effort: 'low' };
  await count(replica, { ...CHAT, reasoningEffort: 'high', templateVariables });
  assert.deepEqual(replica.bodies[0]?.['chat_template_kwargs'], {
    enable_thinking: false,
    reasoning_effort: 'high',
  });
});

test('SGLang tokenizes the messages, tools, variables and effort of a chat', async () => {
  await using replica = await listen('sglang', {
    '/tokenize': '{"tokens":[7,8],"count":2,"max_model_len":9}',
  });
  assert.equal(await count(replica, { ...CHAT, reasoningEffort: 'high' }), 2);
  const { model: _, ...sent } = replica.bodies[0] ?? {};
  assert.deepEqual(sent, {
    messages: [USER],
    tools: TOOLS,
    reasoning_effort: 'high',
    chat_template_kwargs: { custom: 1 },
  });
});

test('vLLM and SGLang tokenize each prompt of a text completion', async () => {
  for (const dialect of ['vllm', 'sglang'] as const) {
    await using replica = await listen(dialect, { '/tokenize': '{"count":3,"tokens":[7,8,9]}' });
    assert.equal(await count(replica, TEXTS), 6);
    assert.deepEqual(
      replica.bodies.map(({ prompt }) => prompt),
      ['one', 'two'],
    );
  }
});

test('llama-server renders a chat, then tokenizes it with its special tokens', async () => {
  await using replica = await listen('llama-server', {
    '/apply-template': '{"prompt":"<|user|>Wie geht’s?"}',
    '/tokenize': '{"tokens":[1,2,3,4]}',
  });
  assert.equal(await count(replica, CHAT), 4);
  assert.deepEqual(replica.paths, ['/apply-template', '/tokenize']);
  const [rendered, tokenized] = replica.bodies;
  assert.deepEqual([rendered?.['messages'], rendered?.['tools']], [[USER], TOOLS]);
  assert.deepEqual(tokenized, { content: '<|user|>Wie geht’s?', add_special: true, parse_special: true });
});

test('llama-server tokenizes each prompt of a text completion', async () => {
  await using replica = await listen('llama-server', { '/tokenize': '{"tokens":[1,2]}' });
  assert.equal(await count(replica, TEXTS), 4);
  assert.deepEqual(
    replica.bodies.map(({ content }) => content),
    ['one', 'two'],
  );
});

test('servers that cannot tokenize a request are not asked', async () => {
  for (const dialect of ['tgi', 'openai'] as const) {
    await using replica = await listen(dialect, {});
    assert.equal(await count(replica, CHAT), null);
    assert.equal(replica.connections, 0);
  }
});

for (const [name, bodies] of [
  ['no endpoint', {}],
  ['no tokens', { '/tokenize': '{"count":3}' }],
  ['tokens that are no IDs', { '/tokenize': '{"tokens":[[1,2],[3]]}' }],
  ['an invalid body', { '/tokenize': '{"tokens":[1,' }],
  ['a body that is no object', { '/tokenize': '[1,2]' }],
] as const) {
  test(`a vLLM server with ${name} is unavailable for counts`, async () => {
    await using replica = await listen('vllm', bodies);
    await assert.rejects(count(replica, CHAT), isUnavailable);
  });
}

test('a server that refuses the connection is unavailable for counts', async () => {
  await using replica = await listen('vllm', {});
  replica.stopListening();
  await assert.rejects(count(replica, CHAT), (error) => {
    assert(error instanceof ServiceError);
    return error.code === 'engine_unavailable';
  });
});

test('the tokens of a request of several megabytes are counted', async () => {
  const tokens = Array.from({ length: LARGE_JSON / 4 }, (_, index) => index);
  await using replica = await listen('vllm', { '/tokenize': JSON.stringify({ tokens }) });
  const content = 'x'.repeat(2 * LARGE_JSON);
  const messages = [{ role: 'user', content }] as const;
  assert.equal(await count(replica, { ...CHAT, messages }), tokens.length);
  assert.deepEqual(replica.bodies[0]?.['messages'], messages);
});

test('the connection to a server is closed when the caller no longer waits for the count', async () => {
  const disconnect = new AbortController();
  const reason = new Error('the client disconnected');
  await using replica = await HttpReplica.listen(() => disconnect.abort(reason), { dialect: 'vllm' });
  await assert.rejects(count(replica, CHAT, disconnect.signal), reason);
  await replica.closed();
});
