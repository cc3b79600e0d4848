import assert from 'node:assert/strict';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { scripted } from '../../src/engine/scripted/options.ts';
import { chat, MODEL, runCli, scriptedYaml, spawnService, startService, until } from '../harness.ts';
import { exchange, requestText, transcript } from './wire.ts';

/**
 * Every shape of the wire, byte by byte, against a file of `golden/`. Ids and times are masked there, and Node's own
 * headers left out. `SLUICE_WRITE_GOLDEN=1` writes the files; read what changed before believing it.
 */
const service = await startService(scriptedYaml({ contextTokens: 200 }));
after(() => service[Symbol.asyncDispose]());

const admin = await service.service.keys.create({ name: 'admin', kind: 'admin' });
const key = { Authorization: `Bearer ${service.key}`, 'Content-Type': 'application/json' };
const browser = { Origin: 'https://app.example' };

const hello = scripted({ text: 'Hello, wörld 🙂!' });
const text = (fields: object = {}) => ({ model: MODEL, prompt: hello, ...fields });
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
        { role: 'tool', content: 'b' },
      ],
    },
  ],
  'unsupported-parameter': [
    CHAT,
    key,
    chat(hello, { tools: [{ type: 'function', function: { name: 'f' } }] }),
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

/** Services in which other answers are the right ones: one whose model loads, one that stops, one of narrow limits. */
const loading = await spawnService(scriptedYaml({ loadMs: 1_000_000 }));
after(() => loading[Symbol.asyncDispose]());
const made = await runCli(['keys', 'create', '--name', 'test'], loading.env);
const early = { Authorization: `Bearer ${made.stdout.trim()}` };
await until(() => loading.stdout().includes('loading'));

const stopping = await startService();
after(() => stopping[Symbol.asyncDispose]());
await stopping.service.drain();
const late = { Authorization: `Bearer ${stopping.key}` };

const narrow = await startService(scriptedYaml({}, 'limits: {bodyMs: 100, bodyBytes: 1024}\n'));
after(() => narrow[Symbol.asyncDispose]());
const strict = { Authorization: `Bearer ${narrow.key}` };

const states: [url: string, cases: Cases][] = [
  [service.url, cases],
  [
    loading.url,
    {
      'loading-readyz': ['GET /readyz'],
      'loading-models': ['GET /v1/models'],
      'loading-model': [`GET /v1/models/${MODEL}`],
      'loading-chat': [CHAT, early, chat(hello)],
      'loading-chat-stream': [CHAT, early, chat(hello, { stream: true })],
    },
  ],
  [
    stopping.url,
    {
      'stopping-readyz': ['GET /readyz'],
      'stopping-chat': [CHAT, late, chat(hello)],
      'stopping-unauthorized': [CHAT, {}, chat(hello)],
      'stopping-models': ['GET /v1/models'],
    },
  ],
  [
    narrow.url,
    {
      'body-too-large': [CHAT, strict, chat('x'.repeat(1024))],
      'half-a-body': [CHAT, { ...strict, 'Content-Length': '10' }],
      'headers-too-large': ['GET /v1/models', { 'X-Long': 'x'.repeat(20_000) }],
    },
  ],
];

for (const [url, each] of states) {
  for (const [name, [start, headers, body]] of Object.entries(each)) {
    test(`the wire: ${name}`, async () => {
      const answer = await exchange(url, requestText(start, headers, body), start.split(' ', 1)[0]);
      const seen = `> ${start}\n${transcript(answer)}`;
      const file = join(import.meta.dirname, 'golden', `${name}.http`);
      if (process.env.SLUICE_WRITE_GOLDEN) writeFileSync(file, seen);
      assert.equal(seen, readFileSync(file, 'utf8'));
      for (const chunk of answer.chunks ?? []) {
        assert.match(chunk, /^(data: |: ).*\n\n$/s, 'a chunk of the transfer holds whole frames');
      }
    });
  }
}

test('each file of golden/ is the answer to a request here', () => {
  const names = states.flatMap(([, each]) => Object.keys(each)).map((name) => `${name}.http`);
  assert.deepEqual(readdirSync(join(import.meta.dirname, 'golden')).sort(), names.sort());
});
