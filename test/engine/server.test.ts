import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Agent } from 'undici';
import { NO_USAGE, type GenerationEvent, type GenerationRequest } from '../../src/core/generation.ts';
import type { Engine } from '../../src/engine/engine.ts';
import {
  ENGINE_PROTOCOL,
  engineRequest,
  EVENT_FRAMES,
  GENERATE_PATH,
  KEEP_ALIVE_FRAME,
} from '../../src/engine/engine-protocol.ts';
import { EventFrameReader } from '../../src/replicas/wire/event-frames.ts';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { injectFaults } from '../support/scripted-engine/fault-injection.ts';
import { serveEngine, type EngineServer } from '../../src/engine/server.ts';
import { SILENT } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';
import { LARGE_JSON, writeLargeJson } from '../../src/json/json-thread.ts';
import { temporaryFolder, until } from '../harness.ts';
import { chat, MODEL, settled, textOf } from './requests.ts';

const options = { maxChoices: 4, modelId: MODEL, log: SILENT, beforeResponse: injectFaults };
const engine = new ScriptedEngine({ slots: 2 });
let server: EngineServer;

before(async () => {
  server = await serveEngine(engine, { host: '127.0.0.1', port: 0 }, options);
});
after(() => server.close());

/** Returns the JSON body, untyped. */
// oxlint-disable-next-line typescript/no-explicit-any
async function jsonBody(response: Response): Promise<any> {
  return response.json();
}

function post(path: string, body: unknown, at = server.address): Promise<Response> {
  return fetch(at + path, { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) });
}

function withKey(key: string): RequestInit {
  return { headers: { authorization: `Bearer ${key}` } };
}

/** The body of a request from a service. */
function body(content: string, more: Partial<GenerationRequest> = {}): object {
  return engineRequest({ ...chat(), messages: [{ role: 'user', content }], ...more } as GenerationRequest, {
    model: MODEL,
    maxTokens: null,
    ...more,
  });
}

/** Returns the events of a response. */
async function eventsOf(response: Response): Promise<GenerationEvent[]> {
  const events: GenerationEvent[] = [];
  const reader = new EventFrameReader();
  reader.push(Buffer.from(await response.arrayBuffer()), events);
  return events;
}

describe('the server of an engine', () => {
  it('responds to a request with event frames', async () => {
    const response = await post(GENERATE_PATH, body('scripted:{"text":"a 東京 b"}'));
    assert.equal(response.status, 200);
    assert.equal(response.headers.get('content-type'), EVENT_FRAMES);
    const events = await eventsOf(response);
    assert.equal(textOf(events), 'a 東京 b');
    const end = events.at(-1);
    assert.ok(end?.type === 'end' && end.usage.completionTokens === 3);
  });

  it('sends the status when the request has a slot, before the first token', async () => {
    const response = await post(GENERATE_PATH, body('scripted:{"prefillMs":60000}'));
    assert.equal(response.status, 200);
    await response.body?.cancel();
  });

  it('reports its version and its load in /health, and its model in /model', async () => {
    const health = await jsonBody(await fetch(`${server.address}/health`));
    const load = ['slots', 'slotsInUse', 'queued', 'lastStepAgeMs', 'expectedStepMs'];
    const totals = ['promptTokens', 'cachedTokens', 'completionTokens'];
    const others = ['draftTokens', 'acceptedDraftTokens', 'conversations', 'memoryBytes'];
    assert.deepEqual(Object.keys(health), ['protocol', ...load, ...totals, ...others]);
    assert.equal(health.protocol, ENGINE_PROTOCOL);
    const model = await jsonBody(await fetch(`${server.address}/model`));
    assert.equal(model.contextTokens, 4096);
  });

  for (const [name, path, sent, status, code] of [
    ['another model', GENERATE_PATH, body('x', { model: 'other/model' }), 404, 'model_not_found'],
    ['an invalid JSON body', GENERATE_PATH, '{"version":', 400, 'invalid_json'],
    ['another version', GENERATE_PATH, { version: 0 }, 400, 'invalid_value'],
    ['what no service sends', GENERATE_PATH, { version: ENGINE_PROTOCOL }, 500, 'internal_error'],
    ['a client that is not a service', '/completion', { prompt: 'x' }, 404, 'unknown_url'],
    // After the second 503, this service reports the engine as down.
    ['a service without the protocol', '/v1/chat/completions', { model: MODEL }, 503, 'engine_unavailable'],
    ['its request for the model', '/v1/models', {}, 503, 'engine_unavailable'],
    [
      'an error before the first token',
      GENERATE_PATH,
      body('scripted:{"error":"queue_full"}'),
      503,
      'queue_full',
    ],
    ['too many choices', GENERATE_PATH, body('x', { choices: 5 }), 400, 'invalid_value'],
  ] as const) {
    it(`responds to ${name} with ${status} ${code}`, async () => {
      const response = await post(path, sent);
      assert.equal(response.status, status);
      assert.equal((await jsonBody(response)).error.code, code);
    });
  }

  it('responds to a wrong method with 405 and the supported method', async () => {
    const response = await fetch(server.address + GENERATE_PATH);
    assert.deepEqual([response.status, response.headers.get('allow')], [405, 'POST']);
  });

  it('sends an error in the middle of a response as its last frame', async () => {
    const response = await post(GENERATE_PATH, body('scripted:{"errorAfter":2}'));
    const frames = (await response.text()).trimEnd().split('\n');
    assert.equal(JSON.parse(frames.at(-1) ?? '').error.code, 'internal_error');
    assert.equal(frames.filter((frame) => frame.startsWith('[')).length, 2);
  });

  it('ends the generation when the client disconnects', async () => {
    const disconnect = new AbortController();
    const sent = JSON.stringify(body('scripted:{"tokens":1000,"tokenMs":10}'));
    const address = server.address + GENERATE_PATH;
    const response = await fetch(address, { method: 'POST', body: sent, signal: disconnect.signal });
    assert(response.body);
    await response.body.getReader().read();
    assert.equal(engine.health().slotsInUse, 1);
    disconnect.abort();
    while (engine.health().slotsInUse !== 0) await new Promise((resolve) => setImmediate(resolve));
  });

  it('refuses a body that is too large without reading it', async () => {
    await using small = await serve(engine, { bodyBytes: 1000 });
    const response = await post(GENERATE_PATH, 'x'.repeat(100_000), small.address);
    assert.equal(response.status, 413);
    assert.equal((await jsonBody(response)).error.code, 'request_too_large');
  });

  it('leaves the size of bodies on a socket to the service', async () => {
    await using folder = await temporaryFolder();
    const socketPath = join(folder.path, 'engine.sock');
    const onSocket = await serveEngine(engine, { socketPath }, options);
    const client = new Agent({ socketPath });
    try {
      const { statusCode, body: received } = await client.request({
        origin: 'http://engine',
        path: GENERATE_PATH,
        method: 'POST',
        body: JSON.stringify(body('x', { model: 'other/model' })) + ' '.repeat(65 * 1024 * 1024),
      });
      assert.equal(statusCode, 404, await received.text());
    } finally {
      await client.close();
      await onSocket.close();
    }
  });

  it('reads requests as large and deep as services accept, and more token IDs', async () => {
    const messages = Array.from({ length: 17_000 }, () => ({ role: 'user', content: 'x' }));
    const answer = { role: 'assistant', content: '', reasoning: null, toolCalls: [] };
    const answers = Array.from({ length: 16_000 }, () => answer);
    const templateVariables = JSON.parse('{"a":'.repeat(62) + '1' + '}'.repeat(62));
    const promptTokenIds = Array(300_000).fill(5);
    const continuation = { promptTokenIds, tokenIds: [], text: '', usage: NO_USAGE };
    for (const large of [{ messages }, { messages: answers }, { templateVariables }, { continuation }]) {
      const response = await post(GENERATE_PATH, body('x', { ...large, model: 'other/model' }));
      assert.equal((await jsonBody(response)).error.code, 'model_not_found');
    }
  });

  it('starts no generation for a client that disconnects while its large body is parsed', async () => {
    let started = 0;
    const beforeResponse = () => void started++;
    await using watched = await serve(engine, { beforeResponse });
    // The thread is busy until the engine has seen that the client is gone.
    const busy = writeLargeJson('\u0001'.repeat(30 * LARGE_JSON));
    const large = JSON.stringify(body('x')).padEnd(LARGE_JSON);
    const socket = connect(watched.port ?? 0, '127.0.0.1');
    socket.write(
      `POST ${GENERATE_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${large.length}\r\n\r\n${large}`,
    );
    await until(() => socket.bytesWritten > LARGE_JSON && socket.writableLength === 0);
    await fetch(`${watched.address}/health`);
    socket.destroy();
    await busy;
    const response = await post(GENERATE_PATH, large, watched.address);
    assert.deepEqual([response.status, started], [200, 1]);
  });

  it('requires its API key, except for /health', async () => {
    await using locked = await serve(engine, {}, new Secret('right'));
    assert.equal((await fetch(`${locked.address}/model`)).status, 401);
    assert.equal((await fetch(`${locked.address}/model`, withKey('wrong'))).status, 401);
    assert.equal((await fetch(`${locked.address}/model`, withKey('right'))).status, 200);
    assert.equal((await fetch(`${locked.address}/health`)).status, 200);
  });

  it('listens on a Unix socket', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-'));
    try {
      const socketPath = join(folder, 's');
      const local = await serveEngine(engine, { socketPath }, options);
      const request = httpRequest({ socketPath, path: '/health', agent: false }).end();
      const [response] = await once(request, 'response');
      assert.equal(response.statusCode, 200);
      assert.deepEqual([local.address, local.port], [socketPath, null]);
      await local.close();
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it('completes running requests when it is closed, and refuses new ones', async () => {
    const closing = await serveEngine(engine, { host: '127.0.0.1', port: 0 }, options);
    const sent = body('scripted:{"tokens":20,"tokenMs":5}');
    const response = await post(GENERATE_PATH, sent, closing.address);
    const closed = closing.close();
    assert.equal((await eventsOf(response)).at(-1)?.type, 'end');
    await closed;
    await assert.rejects(post(GENERATE_PATH, sent, closing.address));
  });

  it('sends keep-alive frames only while the engine makes steps', async (test) => {
    test.mock.timers.enable({ apis: ['setTimeout'] });
    let nowMs = performance.now();
    test.mock.method(performance, 'now', () => nowMs);
    for (const [lastStepAgeMs, expectedStepMs, expected] of [
      [100, 10, true],
      [31_000, 10, false],
      [31_000, 10_000, true],
    ] as const) {
      const slow = new ScriptedEngine();
      const health = { lastStepAgeMs, expectedStepMs };
      slow.health = () => ({ ...ScriptedEngine.prototype.health.call(slow), ...health });
      await using silent = await serve(slow);
      const response = await post(GENERATE_PATH, body('scripted:{"prefillMs":200}'), silent.address);
      nowMs += 20_000;
      test.mock.timers.tick(20_000);
      assert.equal((await response.text()).split('\n').slice(0, -1).includes(''), expected);
    }
  });

  it('sends a keep-alive frame after a second to a request that waits for a slot', async (test) => {
    test.mock.timers.enable({ apis: ['setTimeout'] });
    const busy = new ScriptedEngine({ slots: 1 });
    await using narrow = await serve(busy);
    const running = await post(GENERATE_PATH, body('scripted:{"prefillMs":60000}'), narrow.address);
    const waiting = post(GENERATE_PATH, body('x'), narrow.address);
    while (busy.health().queued === 0) await new Promise((resolve) => setImmediate(resolve));
    test.mock.timers.tick(1000);
    const reader = (await waiting).body?.getReader();
    assert.equal(Buffer.from((await reader?.read())?.value ?? []).toString(), KEEP_ALIVE_FRAME);
    await Promise.all([running.body?.cancel(), reader?.cancel()]);
  });

  it('stops reading from the engine while the client reads nothing, and ends the generation after a minute', async (test) => {
    test.mock.timers.enable({ apis: ['setInterval'] });
    const endless = new EndlessEngine();
    await using flooded = await serve(endless);
    const socket = connect(flooded.port ?? 0, '127.0.0.1');
    const sent = JSON.stringify(body('x'));
    socket.pause();
    socket.write(
      `POST ${GENERATE_PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: ${sent.length}\r\n\r\n${sent}`,
    );
    await endless.started;
    // The socket buffers of both sides fill up first.
    const emitted = await settled(() => endless.emitted);
    assert(emitted < 200, `the engine generated ${emitted} tokens of 64 KiB`);
    // The stalled connection is closed after 60 ticks of a second, each of which Node ends with an immediate.
    for (let second = 0; second <= 61; second++) {
      test.mock.timers.tick(1000);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await endless.ended;
    socket.destroy();
  });
});

async function serve(
  local: Engine,
  more: Partial<typeof options & { bodyBytes: number }> = {},
  apiKey?: Secret,
): Promise<EngineServer & AsyncDisposable> {
  const one = await serveEngine(local, { host: '127.0.0.1', port: 0, apiKey }, { ...options, ...more });
  return { ...one, [Symbol.asyncDispose]: () => one.close() };
}

/** Generates tokens of 64 KiB until it is aborted. */
class EndlessEngine extends ScriptedEngine {
  emitted = 0;
  readonly #start = Promise.withResolvers<void>();
  readonly #end = Promise.withResolvers<void>();
  readonly started = this.#start.promise;
  readonly ended = this.#end.promise;

  override async *generate(
    _request: GenerationRequest,
    signal: AbortSignal,
  ): AsyncGenerator<GenerationEvent> {
    try {
      yield { type: 'started', promptTokens: 1, cachedTokens: 0 };
      this.#start.resolve();
      while (!signal.aborted) {
        this.emitted++;
        yield { type: 'token', choice: 0, text: 'x'.repeat(65_536), completionTokens: 1, logprobs: null };
      }
    } finally {
      this.#end.resolve();
    }
  }
}
