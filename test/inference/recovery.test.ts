import assert from 'node:assert/strict';
import { randomUUIDv7 } from 'node:crypto';
import { after, test } from 'node:test';
import { EngineCrashed, type ReplicaClient, type EngineState } from '../../src/replicas/replica.ts';
import type { Directive } from '../support/scripted-engine/directive.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type { Dialect, GenerationEvent, GenerationRequest } from '../../src/core/generation.ts';
import { SILENT } from '../../src/support/log.ts';
import { ClientDisconnected, complete } from '../../src/inference/complete.ts';
import { CrashSuspects } from '../../src/inference/crash-suspects.ts';
import { GenerationRecord } from '../../src/inference/record.ts';
import { Recovery } from '../../src/inference/recovery.ts';
import { asList, jsonObject } from '../../src/json/values.ts';
import type { Router } from '../../src/routing/router.ts';
import { HttpReplica, openScripted } from '../replicas/replicas.ts';
import { chat, collect, MODEL, text, textOf } from '../engine/requests.ts';
import { openAccounting, routerTo } from './fixture.ts';

const accounting = await openAccounting();
after(() => accounting[Symbol.asyncDispose]());

const first = await openScripted({ slots: 2 }, { name: 'first' });
const second = await openScripted({ slots: 2 }, { name: 'second' });
after(() => Promise.all([first[Symbol.asyncDispose](), second[Symbol.asyncDispose]()]));

interface Run {
  events: AsyncIterableIterator<GenerationEvent, undefined>;
  record: GenerationRecord;
  requestId: string;
  stop: AbortController;
  router: Router;
}

const READY: EngineState = { state: 'ready' };

interface Options {
  clients?: readonly ReplicaClient[];
  state?: () => EngineState;
  maxAttempts?: number;
  maxWaitMs?: number;
  crashSuspects?: CrashSuspects;
}

function run(request: GenerationRequest, options: Options = {}): Run {
  const { clients = [first, second], state = () => READY, maxAttempts = 2, maxWaitMs = 60_000 } = options;
  const router = routerTo(clients, {}, { state });
  const { crashSuspects = new CrashSuspects(SILENT) } = options;
  const inference = {
    accounting,
    crashSuspects,
    checkpointTokens: 256,
    recovery: { maxAttempts, maxWaitMs },
  };
  const [stop, record, requestId] = [new AbortController(), new GenerationRecord(), randomUUIDv7()];
  const identity = {
    requestId,
    clientRequestId: null,
    protocol: 'chat',
    client: null,
    caller: accounting.caller,
  };
  const events = complete(inference, router.model(MODEL), identity, request, stop, record);
  return { events, record, requestId, stop, router };
}

const partsOf = (events: readonly GenerationEvent[]) =>
  events.flatMap((event) => ('text' in event ? [[event.type, event.text, event.completionTokens]] : []));

async function assertReleased({ router }: Run): Promise<void> {
  const [model] = router.overview();
  assert.ok(model?.replicas.every(({ inFlight }) => inFlight === 0));
  assert.equal(await accounting.inFlight(), 0);
}

async function failsWith({ events }: Run, code: string): Promise<GenerationEvent[]> {
  const received: GenerationEvent[] = [];
  const error = await (async () => {
    for await (const event of events) received.push(event);
  })().then(
    () => assert.fail('the response is complete'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ServiceError, String(error));
  assert.equal(error.code, code);
  return received;
}

const FAULTS: readonly Directive[] = [
  { errorAfter: 4 },
  { cutAfter: 4 },
  { endAfter: 5 },
  { garbageAfter: 3 },
];

for (const fault of FAULTS) {
  test(`another replica continues a response after ${JSON.stringify(fault)}`, async () => {
    const directive = { reasoning: 'Hm, well', text: 'one two three four five', cachedTokens: 3 };
    const unbroken = await collect(run(chat(directive)).events);
    for (const stream of [true, false]) {
      const request = chat({ ...directive, ...fault, once: true }, { stream });
      const running = run(request);
      const events = await collect(running.events);
      assert.deepEqual(partsOf(events), partsOf(unbroken));
      assert.equal(events.filter(({ type }) => type === 'started').length, 1);
      assert.deepEqual(events.slice(-2), [
        { type: 'finish', choice: 0, reason: 'stop', stopSequence: null },
        { ...unbroken.at(-1), usage: running.record.usage },
      ]);
      assert.equal(running.record.attempts, 2);
      const row = await accounting.row(running.requestId);
      const sent = running.record.continuedAfter;
      assert.ok(sent !== null && sent > 0);
      assert.deepEqual(
        [row?.state, row?.billed, row?.attempts, row?.continued_after, row?.error_code],
        ['settled', 1, 2, sent, null],
      );
      assert.deepEqual([row?.completion_tokens, row?.reasoning_tokens], [7, 2]);
      assert.equal(row?.usage_source, 'engine');
      await assertReleased(running);
    }
  });
}

test('a response is continued several times, at most `maxAttempts`', async () => {
  const request = (errorAfter: number) => chat({ text: 'a b c d', errorAfter });
  // The fault occurs again in each attempt.
  const failed = run(request(2));
  assert.equal(textOf(await failsWith(failed, 'internal_error')), 'a b');
  assert.equal(failed.record.attempts, 3);
  const row = await accounting.row(failed.requestId);
  assert.deepEqual([row?.billed, row?.completion_tokens, row?.attempts], [0, 2, 3]);
  const off = run(request(2), { maxAttempts: 0 });
  assert.equal(textOf(await failsWith(off, 'internal_error')), 'a b');
  assert.equal(off.record.attempts, 1);
  await assertReleased(failed);
});

test('a response waits until its engine has restarted', async () => {
  let state: EngineState = READY;
  const running = run(chat({ text: 'a b c', errorAfter: 2, once: true }), {
    clients: [first],
    state: () => state,
  });
  const received: GenerationEvent[] = [];
  for (let tokens = 0; tokens < 2;) {
    const { value } = await running.events.next();
    assert.ok(value);
    received.push(value);
    if (value.type === 'token') tokens++;
  }
  state = { state: 'loading', fraction: 0 };
  const next = running.events.next();
  await new Promise(setImmediate);
  state = READY;
  const { value } = await next;
  assert.ok(value);
  received.push(value, ...(await collect(running.events)));
  assert.equal(textOf(received), 'a b c');
});

test('a response ends with the error of its replica if none can continue it in time', async () => {
  let state: EngineState = READY;
  const running = run(chat({ text: 'a b c', cutAfter: 3, once: true }), {
    clients: [first],
    state: () => state,
    maxWaitMs: 0,
  });
  await running.events.next();
  state = { state: 'down', reason: 'killed', retryInMs: 1000 };
  const received = await failsWith(running, 'engine_unavailable');
  assert.equal(textOf(received), 'a b');
  assert.equal((await accounting.row(running.requestId))?.billed, 0);
  await assertReleased(running);
});

test('a client that disconnects while its response waits pays for the tokens so far', async () => {
  let state: EngineState = READY;
  const running = run(chat({ text: 'a b c', errorAfter: 2, once: true }), {
    clients: [first],
    state: () => state,
  });
  while (running.record.usage.completionTokens < 2) await running.events.next();
  state = { state: 'loading', fraction: 0 };
  const next = running.events.next();
  await new Promise(setImmediate);
  const gone = new ClientDisconnected();
  running.stop.abort(gone);
  await assert.rejects(next, gone);
  const row = await accounting.row(running.requestId);
  assert.deepEqual([row?.billed, row?.completion_tokens, row?.error_code], [1, 2, 'client_disconnected']);
  await assertReleased(running);
});

const TOOL = { name: 'f', description: null, parameters: { type: 'object' }, strict: false };

for (const [name, request] of [
  ['several choices', chat({ text: 'a b c', errorAfter: 2, once: true }, { choices: 2 })],
  ['log probabilities', chat({ text: 'a b c', errorAfter: 2, once: true }, { logprobs: 0 })],
  ['an echoed prompt', text({ text: 'a b c', errorAfter: 2, once: true }, { echo: true })],
  [
    'a tool call',
    chat({ calls: [{ name: 'f', arguments: {} }], errorAfter: 1, once: true }, { tools: [TOOL] }),
  ],
] as const) {
  test(`a response with ${name} ends with the error`, async () => {
    const running = run(request);
    await failsWith(running, 'internal_error');
    assert.equal(running.record.attempts, 1);
  });
}

/** A replica of another type, or with another model. */
const otherReplica = (client: ReplicaClient, more: { dialect?: Dialect; model?: string }): ReplicaClient => ({
  name: 'other',
  dialect: client.dialect,
  model: client.model,
  generate: () => assert.fail('the replica was used'),
  countPromptTokens: (request, signal) => client.countPromptTokens(request, signal),
  forget: (cacheScope, signal) => client.forget(cacheScope, signal),
  health: (signal) => client.health(signal),
  describe: (signal) => client.describe(signal),
  [Symbol.asyncDispose]: async () => {},
  ...more,
});

test('a response that has no text yet is generated again, regardless of the request', async () => {
  const failing: ReplicaClient = {
    ...otherReplica(first, { dialect: 'tgi' }),
    async *generate() {
      yield { type: 'started', promptTokens: 999, cachedTokens: 0 };
      throw new ServiceError('internal_error', 'The engine failed.');
    },
  };
  for (const more of [{ choices: 2 }, { logprobs: 0 }, { maxTokens: 2 }]) {
    const running = run(chat({ text: 'a b c' }, more), { clients: [failing, first] });
    const events = await collect(running.events);
    assert.equal(events.filter(({ type }) => type === 'started').length, 1);
    assert.equal(textOf(events), more.maxTokens === 2 ? 'a b' : 'a b c');
    const { attempts, continuedAfter, usage } = running.record;
    assert.deepEqual([attempts, continuedAfter], [2, null]);
    assert.ok(usage.promptTokens < 999, 'the prompt is counted by the replica that generated the text');
  }
});

test('only a replica of the same type and model continues a response', async () => {
  for (const more of [{ dialect: 'vllm' }, { model: 'another' }] as const) {
    const running = run(chat({ text: 'a b c', errorAfter: 2, once: true }), {
      clients: [first, otherReplica(first, more)],
    });
    assert.equal(textOf(await collect(running.events)), 'a b c');
    assert.equal(running.record.replica, 'first');
  }
});

test('a response of more than 4 MiB is not kept, and is not continued', () => {
  const recovery = new Recovery(chat(), { maxWaitMs: 0, maxAttempts: 2 });
  const failed = otherReplica(first, { dialect: 'llama-server' });
  const usage = { promptTokens: 1, completionTokens: 1, cachedTokens: 0, reasoningTokens: 0 };
  const piece = 'x'.repeat(1_048_576);
  const add = () =>
    recovery.add({ type: 'token', choice: 0, text: piece, logprobs: null, completionTokens: 1 });
  recovery.requestFor(failed);
  for (let count = 0; count < 4; count++) add();
  assert.equal(recovery.begin(failed, usage), true);
  add();
  assert.equal(recovery.begin(failed, usage), false);
});

test('a response is complete if the connection is lost after all text, before the end event', async () => {
  const whole = run(chat({ text: 'a b', cutAfter: 4 }));
  const events = await collect(whole.events);
  assert.equal(textOf(events), 'a b');
  assert.equal(whole.record.attempts, 1);
  assert.deepEqual(events.at(-1), { type: 'end', usage: whole.record.usage, usageSource: 'estimated' });
  const limited = run(chat({ text: 'a b c', cutAfter: 3 }, { maxTokens: 2 }));
  assert.deepEqual((await collect(limited.events)).slice(-2, -1), [
    { type: 'finish', choice: 0, reason: 'length', stopSequence: null },
  ]);
});

test('a response whose replica ignores max_tokens ends with `length` and pays at most max_tokens', async () => {
  await using endless = await HttpReplica.listen((response) => {
    const data = 'data: {"choices":[{"index":0,"delta":{"content":"on and "}}]}\n\n';
    const write = (): void => {
      while (!response.destroyed && response.write(data));
      if (!response.destroyed) setImmediate(write);
    };
    write();
  });
  const running = run(chat({}, { maxTokens: 8 }), { clients: [endless.client] });
  const events = await collect(running.events);
  assert.deepEqual(events.at(-2), { type: 'finish', choice: 0, reason: 'length', stopSequence: null });
  const row = await accounting.row(running.requestId);
  assert.deepEqual([row?.completion_tokens, row?.error_code], [8, null]);
  await endless.closed();
  await assertReleased(running);
});

test('a request that was running during two crashes is not sent a third time', async () => {
  const crashSuspects = new CrashSuspects(SILENT);
  let starts = 0;
  const crashing: ReplicaClient = {
    ...otherReplica(first, {}),
    async *generate() {
      const start = ++starts;
      yield { type: 'started', promptTokens: 1, cachedTokens: 0 };
      throw new EngineCrashed(start, new Error('killed'));
    },
  };
  const running = run(chat({}), { clients: [crashing], crashSuspects, maxAttempts: 5 });
  await failsWith(running, 'engine_unavailable');
  assert.equal(starts, 2);
  await failsWith(run(chat({}), { clients: [crashing], crashSuspects }), 'request_crashed_engine');
});

test('a request that crashes the engine before its first output is remembered too', async () => {
  const crashSuspects = new CrashSuspects(SILENT);
  let starts = 0;
  const crashing: ReplicaClient = {
    ...otherReplica(first, {}),
    // eslint-disable-next-line require-yield
    async *generate() {
      throw new EngineCrashed(++starts, new Error('killed'));
    },
  };
  for (const code of ['engine_unavailable', 'engine_unavailable', 'request_crashed_engine'])
    await failsWith(run(chat({}), { clients: [crashing], crashSuspects }), code);
  assert.equal(starts, 2);
});

/** Text of tokens 21 to 25, as chunks of vLLM. */
const WORDS = ['The', ' sky', ' is', ' very', ' blue'];

/** A replica with vLLM's protocol that closes the connection after `cutAfter` tokens; null: never. */
function openVllm(name: string, cutAfter: number | null, field = 'content'): Promise<HttpReplica> {
  return HttpReplica.listen(
    (response, { url }, body) => {
      const isChat = url === '/v1/chat/completions';
      const prompt = isChat ? [11, 12, 13] : (body['prompt'] as number[]);
      const earlier = prompt.length - 3;
      const send = (choice: object, tokens: number, more = {}) =>
        response.write(
          `data: ${JSON.stringify({
            ...more,
            choices: [{ index: 0, finish_reason: null, ...choice }],
            usage: { prompt_tokens: prompt.length, completion_tokens: tokens, total_tokens: 0 },
          })}\n\n`,
        );
      if (isChat) send({ delta: { role: 'assistant', content: '' } }, 0, { prompt_token_ids: prompt });
      for (let index = earlier; index < WORDS.length; index++) {
        if (index === cutAfter) return setImmediate(() => response.destroy());
        const part = isChat ? { delta: { [field]: WORDS[index] } } : { text: WORDS[index] };
        send({ ...part, token_ids: [21 + index] }, index + 1 - earlier);
      }
      send({ ...(isChat ? { delta: {} } : { text: '' }), finish_reason: 'stop' }, WORDS.length - earlier);
      return response.end('data: [DONE]\n\n');
    },
    { name, dialect: 'vllm', contextTokens: 100 },
  );
}

test('another vLLM server continues a text, but not reasoning', async () => {
  await using cut = await openVllm('cut', 3);
  await using whole = await openVllm('whole', null);
  const running = run(chat({}, { maxTokens: 50 }), { clients: [cut.client, whole.client] });
  const events = await collect(running.events);
  assert.equal(textOf(events), 'The sky is very blue');
  assert.deepEqual(whole.paths, ['/v1/completions']);
  assert.deepEqual(whole.bodies[0]?.['prompt'], [11, 12, 13, 21, 22, 23]);
  assert.equal(whole.bodies[0]?.['max_tokens'], 47);
  const { attempts, continuedAfter, usage, usageSource } = running.record;
  assert.deepEqual([attempts, continuedAfter, usageSource], [2, 3, 'engine']);
  assert.deepEqual([usage.promptTokens, usage.completionTokens], [3, 5]);

  await using reasoning = await openVllm('reasoning', 3, 'reasoning');
  await failsWith(run(chat(), { clients: [reasoning.client, whole.client] }), 'engine_unavailable');
  assert.equal(whole.paths.length, 1);
});

/**
 * A replica with the protocol of llama-server or SGLang that generates `WORDS`, and closes the connection after
 * `cutAfter` of them; null: never.
 */
function openTextServer(
  dialect: 'llama-server' | 'sglang',
  { cutAfter = null, reasoning = false, rendered = '<prompt>' }: TextServerOptions = {},
): Promise<HttpReplica> {
  return HttpReplica.listen(
    (response, { url }, body) => {
      if (url === '/apply-template') return response.end(JSON.stringify({ prompt: rendered }));
      if (url === '/tokenize') {
        const words = String(body['content']).match(/ ?\w+/g) ?? [];
        return response.end(JSON.stringify({ tokens: words.map((_, index) => index) }));
      }
      const isChat = url === '/v1/chat/completions';
      const last = jsonObject(asList(body['messages']).at(-1));
      const sent = isChat ? (last['role'] === 'assistant' ? last['content'] : '') : body['prompt'];
      // The number of words that the prompt already contains.
      const earlier =
        WORDS.findLastIndex((_, index) => String(sent).endsWith(WORDS.slice(0, index + 1).join(''))) + 1;
      const send = (choice: object): void => {
        response.write(
          `data: ${JSON.stringify({ choices: [{ index: 0, finish_reason: null, ...choice }] })}\n\n`,
        );
      };
      if (reasoning) send({ delta: { reasoning_content: 'Hm' } });
      for (let index = earlier; index < WORDS.length; index++) {
        if (index === cutAfter) return setImmediate(() => response.destroy());
        send(isChat ? { delta: { content: WORDS[index] } } : { text: WORDS[index] });
      }
      send({ ...(isChat ? { delta: {} } : { text: '' }), finish_reason: 'stop' });
      return response.end('data: [DONE]\n\n');
    },
    { dialect, contextTokens: 100 },
  );
}

interface TextServerOptions {
  cutAfter?: number | null;
  reasoning?: boolean;
  rendered?: string;
}

test('another llama-server continues a chat from its rendered prompt and its text', async () => {
  await using cut = await openTextServer('llama-server', { cutAfter: 3 });
  await using whole = await openTextServer('llama-server');
  const variables = { enable_thinking: false };
  const request = chat({}, { maxTokens: 50, templateVariables: variables });
  const running = run(request, { clients: [cut.client, whole.client] });
  assert.equal(textOf(await collect(running.events)), 'The sky is very blue');
  assert.deepEqual(whole.paths, ['/tokenize', '/apply-template', '/v1/completions']);
  const [, template, completion] = whole.bodies;
  assert.deepEqual(
    [template?.['messages'], template?.['chat_template_kwargs']],
    [cut.bodies[0]?.['messages'], variables],
  );
  assert.equal(completion?.['prompt'], '<prompt>The sky is');
  assert.equal(completion?.['max_tokens'], 47);
  const { attempts, continuedAfter, usage, usageSource } = running.record;
  assert.deepEqual([attempts, continuedAfter, usage.completionTokens, usageSource], [2, 3, 5, 'estimated']);
  await assertReleased(running);
});

test('another SGLang server continues a chat from its text', async () => {
  await using cut = await openTextServer('sglang', { cutAfter: 3 });
  await using whole = await openTextServer('sglang');
  const running = run(chat({}, { maxTokens: 50 }), { clients: [cut.client, whole.client] });
  assert.equal(textOf(await collect(running.events)), 'The sky is very blue');
  assert.deepEqual(whole.paths, ['/v1/chat/completions']);
  const { messages, ...body } = whole.bodies[0] ?? {};
  assert.deepEqual(asList(messages).slice(1), [{ role: 'assistant', content: 'The sky is' }]);
  assert.deepEqual(
    [body['continue_final_message'], body['separate_reasoning'], body['max_tokens']],
    [true, false, 47],
  );
});

for (const dialect of ['llama-server', 'sglang'] as const) {
  test(`another ${dialect} server continues a text completion from its text, several times`, async () => {
    await using first = await openTextServer(dialect, { cutAfter: 2 });
    await using second = await openTextServer(dialect, { cutAfter: 4 });
    const request = text({}, { prompts: ['Why? '], maxTokens: 50 });
    const running = run(request, { clients: [first.client, second.client], maxAttempts: 1 });
    assert.equal(textOf(await failsWith(running, 'engine_unavailable')), 'The sky is very');
    const sent = () => [first, second].map(({ bodies }) => bodies.at(-1));
    assert.deepEqual([sent()[1]?.['prompt'], sent()[1]?.['max_tokens']], ['Why? The sky', 48]);

    const again = run(request, { clients: [first.client, second.client] });
    assert.equal(textOf(await collect(again.events)), 'The sky is very blue');
    assert.deepEqual([sent()[0]?.['prompt'], sent()[0]?.['max_tokens']], ['Why? The sky is very', 46]);
  });

  test(`a ${dialect} server does not continue a response with reasoning`, async () => {
    await using cut = await openTextServer(dialect, { cutAfter: 2, reasoning: true });
    await using whole = await openTextServer(dialect);
    const running = run(chat(), { clients: [cut.client, whole.client] });
    assert.equal(textOf(await failsWith(running, 'engine_unavailable')), 'The sky');
    assert.deepEqual(whole.paths, []);
  });
}

test('a text that llama-server continues is tokenized first, because a chunk may contain several tokens', async () => {
  await using cut = await HttpReplica.listen(
    (response) => {
      response.write(
        `data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: 'The sky is' } }] })}\n\n`,
      );
      setImmediate(() => response.destroy());
    },
    { dialect: 'llama-server', contextTokens: 100 },
  );
  await using whole = await openTextServer('llama-server');
  const running = run(chat({}, { maxTokens: 50 }), { clients: [cut.client, whole.client] });
  assert.equal(textOf(await collect(running.events)), 'The sky is very blue');
  assert.equal(whole.bodies.at(-1)?.['max_tokens'], 47);
  assert.equal((await accounting.row(running.requestId))?.completion_tokens, 5);
});

test('a llama-server whose template starts with reasoning does not continue a response', async () => {
  await using cut = await openTextServer('llama-server', { cutAfter: 2 });
  await using whole = await openTextServer('llama-server', { rendered: '<prompt><think>\n' });
  const running = run(chat(), { clients: [cut.client, whole.client] });
  assert.equal(textOf(await failsWith(running, 'engine_unavailable')), 'The sky');
  assert.deepEqual(whole.paths, ['/tokenize', '/apply-template']);
  await assertReleased(running);
});

test('a llama-server that cannot render the chat does not continue a response', async () => {
  await using cut = await openTextServer('llama-server', { cutAfter: 2 });
  await using old = await HttpReplica.listen(
    (response) => response.writeHead(404).end('{"error":{"message":"not found"}}'),
    { dialect: 'llama-server' },
  );
  const running = run(chat(), { clients: [cut.client, old.client] });
  assert.equal(textOf(await failsWith(running, 'engine_unavailable')), 'The sky');
  await assertReleased(running);
});
