import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { after, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { chat, ManualClock, MODEL, scriptedYaml, openService, startService, until } from '../harness.ts';
import { Management } from '../management.ts';
import { startAtNoon } from '../support/noon.ts';
import { exchange, requestText, transcript, Wire } from './wire.ts';

// A limit that is used up resets soon at the end of a month.
startAtNoon();

/**
 * Compares each kind of response with a file in `golden/`, with IDs and times masked and Node's own headers left out.
 * `SLUICE_WRITE_GOLDEN=1` writes the files; review the changes.
 */
const service = await startService(scriptedYaml({ contextTokens: 200 }, 'recovery: {maxAttempts: 0}\n'));
after(() => service[Symbol.asyncDispose]());

const admin = await service.service.keys.create({ name: 'admin', kind: 'admin' });
const key = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
const apiKey = { 'x-api-key': service.key, 'anthropic-version': '2023-06-01' };
const browser = { Origin: 'https://app.example' };

const hello = scripted({ text: 'Hello, wörld 🙂!' });
const calls = scripted({
  reasoning: 'The weather of two places.',
  calls: [
    { name: 'get_weather', arguments: { city: 'Zürich' } },
    { name: 'get_weather', arguments: { city: 'Oslo' } },
  ],
});
const text = (fields: object = {}) => ({ model: MODEL, prompt: hello, ...fields });
const respond = (input: unknown, fields: object = {}) => ({ model: MODEL, input, ...fields });
/** A function, a custom tool, and a function of a namespace. */
const tools = [
  {
    type: 'function',
    name: 'get_time',
    parameters: { type: 'object', properties: { zone: { type: 'string' } } },
  },
  {
    type: 'custom',
    name: 'apply_patch',
    format: { type: 'grammar', syntax: 'lark', definition: 'start: /.+/' },
  },
  {
    type: 'namespace',
    name: 'weather',
    tools: [{ type: 'function', name: 'get', parameters: { type: 'object' } }],
  },
];
const toolCalls = scripted({
  reasoning: 'Three calls.',
  text: 'One moment.',
  calls: [
    { name: 'get_time', arguments: { zone: 'UTC' } },
    { name: 'apply_patch', arguments: { input: 'line 1\n"é" 🙂' } },
    { name: 'weather__get', arguments: { city: 'Oslo' } },
  ],
});
const message = (content: unknown, fields: object = {}) => ({
  model: MODEL,
  max_tokens: 100,
  messages: [{ role: 'user', content }],
  ...fields,
});
const RESPONSES = 'POST /v1/responses';
const MESSAGES = 'POST /v1/messages';
const BETA = 'POST /v1/messages?beta=true';
const CHAT = 'POST /v1/chat/completions';
const TEXT = 'POST /v1/completions';
const usage = (include: boolean) => ({ stream: true, stream_options: { include_usage: include } });

type Cases = Record<string, [start: string, headers?: Record<string, string>, body?: object | string]>;

const cases: Cases = {
  chat: [CHAT, key, chat(hello)],
  'chat-choices': [CHAT, key, chat(hello, { n: 2 })],
  'chat-logprobs': [CHAT, key, chat(scripted({ text: 'é' }), { logprobs: true, top_logprobs: 1 })],
  'chat-length': [CHAT, key, chat(hello, { max_tokens: 1 })],
  'chat-cached': [CHAT, key, chat(scripted({ text: 'a', cachedTokens: 3 }))],
  'chat-stream': [CHAT, key, chat(hello, { stream: true })],
  'chat-stream-usage': [CHAT, key, chat(hello, usage(true))],
  'chat-stream-usage-false': [CHAT, key, chat(hello, usage(false))],
  'chat-stream-choices': [CHAT, key, chat(hello, { stream: true, n: 2 })],
  'chat-stop': [CHAT, key, chat(hello, { stop: ' wörld' })],
  'chat-stream-logprobs': [
    CHAT,
    key,
    chat(scripted({ text: 'é' }), { stream: true, logprobs: true, top_logprobs: 2 }),
  ],
  'chat-stream-empty': [CHAT, key, chat(scripted({ text: '' }), { stream: true })],
  'chat-calls': [CHAT, key, chat(calls)],
  'chat-calls-stream': [CHAT, key, chat(calls, usage(true))],
  'chat-calls-length': [CHAT, key, chat(calls, { max_tokens: 9 })],
  'chat-stream-from-a-page': [CHAT, { ...key, ...browser }, chat(hello, { stream: true, max_tokens: 1 })],
  text: [TEXT, key, text()],
  'text-prompts': [TEXT, key, text({ prompt: ['One', hello] })],
  'text-choices': [TEXT, key, text({ n: 2 })],
  'text-logprobs': [TEXT, key, text({ logprobs: 2, max_tokens: 2 })],
  'text-echo': [TEXT, key, text({ echo: true })],
  'text-stream': [TEXT, key, text({ stream: true })],
  'text-stream-usage': [TEXT, key, text(usage(true))],
  'text-stream-logprobs': [TEXT, key, text({ stream: true, logprobs: 1, max_tokens: 2 })],
  'stream-refused': [CHAT, key, chat(scripted({ error: 'engine_unavailable' }), { stream: true })],
  'prompt-too-long': [CHAT, key, chat('x'.repeat(1000))],
  'text-prompt-too-long': [TEXT, key, text({ prompt: 'x'.repeat(1000) })],
  'stream-refused-prompt-too-long': [CHAT, key, chat('x'.repeat(1000), { stream: true })],
  'stream-broken-off': [CHAT, key, chat(scripted({ tokens: 9, errorAfter: 2 }), { stream: true })],
  'text-stream-broken-off': [TEXT, key, text({ prompt: scripted({ tokens: 9, cutAfter: 3 }), stream: true })],
  response: [RESPONSES, key, respond(hello)],
  'response-stream': [RESPONSES, key, respond(hello, { stream: true })],
  'response-calls': [RESPONSES, key, respond(toolCalls, { tools })],
  'response-calls-stream': [
    RESPONSES,
    key,
    respond(toolCalls, { tools, stream: true, instructions: 'Be brief.', metadata: { a: '1' } }),
  ],
  'response-length-stream': [
    RESPONSES,
    key,
    respond(toolCalls, { tools, stream: true, max_output_tokens: 1 }),
  ],
  'response-empty-stream': [RESPONSES, key, respond(scripted({ text: '' }), { stream: true })],
  'response-logprobs-stream': [
    RESPONSES,
    key,
    respond(scripted({ text: 'é' }), {
      stream: true,
      include: ['message.output_text.logprobs'],
      top_logprobs: 1,
    }),
  ],
  'response-broken-off': [RESPONSES, key, respond(scripted({ tokens: 9, errorAfter: 2 }), { stream: true })],
  'response-broken-off-in-call': [
    RESPONSES,
    key,
    respond(scripted({ calls: [{ name: 'get_time', arguments: { zone: 'UTC' } }], cutAfter: 6 }), {
      tools,
      stream: true,
    }),
  ],
  'response-refused': [RESPONSES, key, respond(hello, { previous_response_id: 'resp_1' })],
  'response-unauthorized': [RESPONSES, {}, respond(hello)],
  'response-not-stored': ['GET /v1/responses/resp_1', key],
  message: [MESSAGES, apiKey, message(hello)],
  'message-stream': [BETA, apiKey, message(hello, { stream: true })],
  'message-from-a-page': [MESSAGES, { ...apiKey, ...browser }, message(hello, { max_tokens: 1 })],
  'message-cached-stream': [
    MESSAGES,
    key,
    message(scripted({ text: 'a', cachedTokens: 3 }), { stream: true, max_tokens: 1000 }),
  ],
  'message-calls': [MESSAGES, key, message(calls)],
  'message-calls-stream': [MESSAGES, key, message(calls, { stream: true })],
  'message-thinking-omitted-stream': [
    MESSAGES,
    key,
    message(scripted({ reasoning: 'Hm.', text: 'Hi' }), {
      stream: true,
      thinking: { type: 'adaptive', display: 'omitted' },
    }),
  ],
  'message-stop': [MESSAGES, key, message(hello, { stop_sequences: [' wörld'] })],
  'message-stop-stream': [MESSAGES, key, message(hello, { stop_sequences: ['xyz', ' wörld'], stream: true })],
  'message-length-stream': [MESSAGES, key, message(calls, { stream: true, max_tokens: 1 })],
  'message-empty': [MESSAGES, key, message(scripted({ text: '' }))],
  'message-empty-stream': [MESSAGES, key, message(scripted({ text: '' }), { stream: true })],
  'message-broken-off': [MESSAGES, key, message(scripted({ tokens: 9, errorAfter: 2 }), { stream: true })],
  'message-broken-off-in-call': [
    MESSAGES,
    key,
    message(scripted({ calls: [{ name: 'get_time', arguments: { zone: 'UTC' } }], cutAfter: 6 }), {
      stream: true,
    }),
  ],
  'message-notes': [
    MESSAGES,
    key,
    message(hello, {
      system: [
        { type: 'text', text: 'x-anthropic-billing-header: a=1' },
        { type: 'text', text: 'Be brief.' },
      ],
      tools: [{ type: 'web_search_20250305', name: 'web_search' }],
      context_management: { edits: [] },
    }),
  ],
  'message-too-long': [MESSAGES, key, message('x'.repeat(1000))],
  'message-refused': [MESSAGES, key, message(hello, { messages: [{ role: 'assistant', content: 'So' }] })],
  'message-invalid-json': [MESSAGES, key, '{"model":'],
  'message-unknown-model': [MESSAGES, key, { ...message(hello), model: 'claude-sonnet-4-5' }],
  'message-unauthorized': [BETA, {}, message(hello)],
  'message-wrong-key': [MESSAGES, { 'x-api-key': 'sk-sluice-wrong' }, message(hello)],
  'message-bearer-wins': [
    MESSAGES,
    { ...key, 'x-api-key': 'sk-sluice-wrong' },
    message(hello, { max_tokens: 1 }),
  ],
  'message-two-keys': [MESSAGES, { 'x-api-key': 'a', 'X-Api-Key': 'b' }, message(hello)],
  'message-internal-error': [MESSAGES, key, message(scripted({ error: 'internal_error' }))],
  'message-unavailable': [
    MESSAGES,
    key,
    message(scripted({ error: 'engine_unavailable' }), { stream: true }),
  ],
  'message-method': ['GET /v1/messages', apiKey],
  'message-batches': ['GET /v1/messages/batches?limit=1', apiKey],
  'message-count': ['POST /v1/messages/count_tokens', apiKey, { ...message(hello), max_tokens: undefined }],
  'message-count-unauthorized': ['POST /v1/messages/count_tokens', {}, message(hello)],
  'models-anthropic': ['GET /v1/models?limit=1000', apiKey],
  'model-anthropic': [`GET /v1/models/${MODEL.replace('/', '%2F')}`, apiKey],
  'model-unknown-anthropic': ['GET /v1/models/claude-sonnet-4-5', apiKey],
  models: ['GET /v1/models'],
  'models-head': ['HEAD /v1/models'],
  'models-from-a-page': ['GET /v1/models', browser],
  'models-wrong-key': ['GET /v1/models', { Authorization: 'Bearer wrong' }],
  model: [`GET /v1/models/${MODEL}`],
  'model-head': [`HEAD /v1/models/${MODEL}`],
  'model-unknown': ['GET /v1/models/test/other'],
  preflight: [
    'OPTIONS /v1/chat/completions',
    {
      ...browser,
      'Access-Control-Request-Method': 'POST',
      'Access-Control-Request-Headers': 'authorization,x-stainless-os',
    },
  ],
  options: ['OPTIONS /v1/models'],
  unauthorized: [CHAT, {}, chat(hello)],
  'wrong-key': [CHAT, { Authorization: 'Bearer sk-sluice-wrong' }, chat(hello)],
  'empty-key': [CHAT, { Authorization: 'Bearer ' }, chat(hello)],
  'unauthorized-from-a-page': [CHAT, browser, chat(hello)],
  'invalid-json': [CHAT, key, '{"model":'],
  'missing-parameter': [CHAT, key, { model: MODEL }],
  'invalid-type': [CHAT, key, chat(hello, { temperature: 'warm' })],
  'invalid-value': [CHAT, key, chat(hello, { temperature: 3 })],
  'invalid-nested-value': [
    CHAT,
    key,
    {
      model: MODEL,
      messages: [
        { role: 'user', content: 'a' },
        { role: 'robot', content: 'b' },
      ],
    },
  ],
  'unsupported-parameter': [CHAT, key, chat(hello, { modalities: ['audio'] })],
  'notes-strict': [CHAT, { ...key, 'x-sluice-strict': 'true' }, chat(hello, { prediction: {} })],
  notes: [
    CHAT,
    key,
    chat(hello, { audio: { voice: 'alloy', format: 'wav' }, tools: [{ type: 'web_search' }] }),
  ],
  'unpaired-tool-call': [
    CHAT,
    key,
    {
      model: MODEL,
      messages: [
        {
          role: 'assistant',
          tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'f', arguments: '{}' } }],
        },
      ],
    },
  ],
  'unknown-parameter': [CHAT, key, chat(hello, { temprature: 1 })],
  'unknown-model': [CHAT, key, { ...chat(hello), model: 'test/other' }],
  'internal-error': [CHAT, key, chat(scripted({ error: 'internal_error' }))],
  'unknown-url': ['GET /v1/nothing'],
  'unknown-url-head': ['HEAD /v1/nothing'],
  'method-not-allowed-head': ['HEAD /v1/chat/completions'],
  'method-not-allowed': ['GET /v1/chat/completions'],
  'method-not-allowed-on-models': ['DELETE /v1/models', {}, { a: 1 }],
  'not-http': ['BREW /v1/models'],
  healthz: ['GET /healthz'],
  'healthz-head': ['HEAD /healthz'],
  readyz: ['GET /readyz'],
  'readyz-caller': ['GET /readyz', key],
  'readyz-wrong-key': ['GET /readyz', { Authorization: 'Bearer wrong' }],
  'readyz-admin': ['GET /readyz', { Authorization: `Bearer ${admin.key.reveal()}` }],
};

/**
 * Services in other states: one whose model is loading, one that is stopping, one with low request limits, one with
 * small plans, one whose database is locked by another process.
 */
const loading = await openService(scriptedYaml({ loadMs: 2_000_000_000 }));
after(() => loading[Symbol.asyncDispose]());
const created = await loading.service.keys.create({ name: 'test' });
const loadingKey = { Authorization: `Bearer ${created.key.reveal()}` };
const loadingModel = () => loading.service.router.overview()[0]?.replicas[0]?.state.state;
await until(() => loadingModel() === 'loading', loadingModel);

const stopping = await startService();
after(() => stopping[Symbol.asyncDispose]());
await stopping.service.drain();
const stoppingKey = { Authorization: `Bearer ${stopping.key}` };

const narrow = await startService(scriptedYaml({}, 'limits: {bodyMs: 1000, bodyBytes: 1024}\n'));
after(() => narrow[Symbol.asyncDispose]());
const narrowKey = { Authorization: `Bearer ${narrow.key}` };

const metered = await startService(
  scriptedYaml(
    { contextTokens: 200 },
    `plans:
  open: {}
  requests: {requestsPerMinute: 1}
  bursts: {requestsPerMinute: 1, burst: {requests: 2}}
  model: {models: {${MODEL}: {requestsPerMinute: 1}}}
  tokens: {requestsPerMinute: 100, tokensPerMinute: 10}
  single: {requestsInFlight: 1}
  small: {tokensPerDay: 10}
  spent: {tokensPerMonth: 20}
  poor: {usdPerMonth: '0.0005'}
defaultPlan: open
`,
  ).replace('    engine:', `    pricing: {prompt: '100', completion: '100'}\n    engine:`),
  {},
  // Limits do not refill.
  { clock: new ManualClock() },
);
after(() => metered[Symbol.asyncDispose]());
const manager = await Management.of(metered);
const PLANS = ['requests', 'bursts', 'model', 'tokens', 'single', 'small', 'spent', 'poor'] as const;
const callers = new Map<string, Record<string, string>>();
for (const plan of PLANS) {
  const { key: text } = await manager.caller(plan);
  callers.set(plan, { Authorization: `Bearer ${text}`, 'Content-Type': 'application/json' });
}
const withPlan = (plan: (typeof PLANS)[number]) => callers.get(plan) ?? {};
const allowing = await manager.caller('requests', { allowed_models: ['test/other'] });
const otherModelKey = { Authorization: `Bearer ${allowing.key}` };
const limited = await manager.caller(null, { limits: { requests_per_minute: 1 } });
const limitedKey = { Authorization: `Bearer ${limited.key}` };
// Uses up what one minute, day or month allows.
for (const headers of [
  withPlan('requests'),
  withPlan('bursts'),
  withPlan('bursts'),
  withPlan('model'),
  withPlan('tokens'),
  withPlan('spent'),
  limitedKey,
]) {
  const used = await exchange(metered.url, requestText(CHAT, headers, chat(hello, { max_tokens: 2 })));
  assert.equal(used.status, 200, used.body);
}
const running = await Wire.open(metered.url);
after(() => running[Symbol.dispose]());
running.send(requestText(CHAT, withPlan('single'), chat(scripted({ tokenMs: 1_000_000 }), { stream: true })));
assert.equal((await running.head()).status, 200);

const locked = await startService();
after(() => locked[Symbol.asyncDispose]());
const lockedAdmin = await locked.service.keys.create({ name: 'admin', kind: 'admin' });
const lockedKey = { Authorization: `Bearer ${locked.key}` };
const lock = new DatabaseSync(join(locked.home, 'sluice.db'), { timeout: 10_000 });
lock.exec('begin immediate');
after(() => lock.close());
// The first request waits for SQLite's timeout.
const first = await exchange(locked.url, requestText(CHAT, lockedKey, chat(hello)));
assert.equal(first.status, 503);

const states: [url: string, cases: Cases][] = [
  [service.url, cases],
  [
    loading.url,
    {
      'loading-readyz': ['GET /readyz'],
      'loading-models': ['GET /v1/models'],
      'loading-model': [`GET /v1/models/${MODEL}`],
      'loading-chat': [CHAT, loadingKey, chat(hello)],
      'loading-chat-stream': [CHAT, loadingKey, chat(hello, { stream: true })],
    },
  ],
  [
    stopping.url,
    {
      'stopping-readyz': ['GET /readyz'],
      'stopping-chat': [CHAT, stoppingKey, chat(hello)],
      'stopping-unauthorized': [CHAT, {}, chat(hello)],
      'stopping-message': [MESSAGES, stoppingKey, message(hello)],
      'stopping-models': ['GET /v1/models'],
    },
  ],
  [
    narrow.url,
    {
      'body-too-large': [CHAT, narrowKey, chat('x'.repeat(1024))],
      'message-body-too-large': [MESSAGES, narrowKey, message('x'.repeat(1024))],
      'message-half-a-body': [MESSAGES, { ...narrowKey, 'Content-Length': '10' }],
      'half-a-body': [CHAT, { ...narrowKey, 'Content-Length': '10' }],
      'headers-too-large': ['GET /v1/models', { 'X-Long': 'x'.repeat(20_000) }],
    },
  ],
  [
    metered.url,
    {
      'limit-requests': [CHAT, withPlan('requests'), chat(hello)],
      'limit-requests-stream': [CHAT, withPlan('requests'), chat(hello, { stream: true })],
      'limit-requests-text': [TEXT, withPlan('requests'), text()],
      'limit-requests-from-a-page': [CHAT, { ...withPlan('requests'), ...browser }, chat(hello)],
      'message-limit-requests': [MESSAGES, withPlan('requests'), message(hello)],
      'message-limit-used-up': [MESSAGES, withPlan('spent'), message(hello, { max_tokens: 9 })],
      'limit-requests-burst': [CHAT, withPlan('bursts'), chat(hello)],
      'limit-requests-of-model': [CHAT, withPlan('model'), chat(hello)],
      'limit-requests-of-key': [CHAT, limitedKey, chat(hello)],
      'limit-tokens': [CHAT, withPlan('tokens'), chat(hello)],
      'limit-in-flight': [CHAT, withPlan('single'), chat(hello)],
      'limit-never': [CHAT, withPlan('small'), chat(hello, { max_tokens: 50 })],
      'limit-used-up': [CHAT, withPlan('spent'), chat(hello, { max_tokens: 9 })],
      'limit-usd': [CHAT, withPlan('poor'), chat(hello)],
      'limited-bad-request': [CHAT, withPlan('tokens'), chat(hello, { temperature: 3 })],
      'model-not-allowed': [CHAT, otherModelKey, chat(hello)],
      'models-allowed': ['GET /v1/models', otherModelKey],
      'model-of-others': [`GET /v1/models/${MODEL}`, otherModelKey],
    },
  ],
  [
    locked.url,
    {
      'storage-chat': [CHAT, lockedKey, chat(hello)],
      'storage-chat-stream': [CHAT, lockedKey, chat(hello, { stream: true })],
      'storage-message': [MESSAGES, lockedKey, message(hello)],
      'storage-readyz': ['GET /readyz'],
      'storage-models': ['GET /v1/models', lockedKey],
    },
  ],
];

for (const [url, each] of states) {
  for (const [name, [start, headers, body]] of Object.entries(each)) {
    test(`the response matches golden/${name}.http`, async () => {
      const response = await exchange(url, requestText(start, headers, body), start.split(' ', 1)[0]);
      const seen = `> ${start}\n${transcript(response)}`;
      const file = join(import.meta.dirname, 'golden', `${name}.http`);
      if (process.env.SLUICE_WRITE_GOLDEN) writeFileSync(file, seen);
      assert.equal(seen, readFileSync(file, 'utf8'));
      for (const chunk of response.chunks ?? []) {
        assert.match(chunk, /^(event: |data: |: ).*\n\n$/s, 'a chunk contains whole frames');
      }
    });
  }
}

test('an admin key sees why the ledger is not writable', async () => {
  const request = requestText('GET /readyz', { Authorization: `Bearer ${lockedAdmin.key.reveal()}` });
  const { status, body } = await exchange(locked.url, request);
  assert.equal(status, 503);
  const { ledger, ...rest } = JSON.parse(body) as Record<string, unknown> & {
    ledger: { sinceMs: number; reason: string };
  };
  assert.deepEqual([rest.status, rest.running], ['storage_unavailable', 0]);
  assert.ok(ledger.sinceMs >= 0);
  assert.match(ledger.reason, /is locked by another connection/);
});

test('each file of golden/ belongs to a case', () => {
  const names = states.flatMap(([, each]) => Object.keys(each)).map((name) => `${name}.http`);
  assert.deepEqual(readdirSync(join(import.meta.dirname, 'golden')).sort(), names.sort());
});
