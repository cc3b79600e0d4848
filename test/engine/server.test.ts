import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { Agent } from 'undici';
import type { GenerationEvent, GenerationRequest } from '../../src/generation.ts';
import type { LocalEngine } from '../../src/engine/engine.ts';
import { ScriptedEngine } from '../../src/engine/scripted/engine.ts';
import { injectFaults } from '../../src/engine/scripted/fault-injection.ts';
import { serveEngine, type EngineServer } from '../../src/engine/server.ts';
import { SILENT } from '../../src/log.ts';
import { Secret } from '../../src/secret.ts';
import { temporaryFolder } from '../harness.ts';
import { MODEL, settled } from './requests.ts';

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

function chatBody(content: string, more: object = {}): object {
  return { model: MODEL, messages: [{ role: 'user', content }], ...more };
}

describe('the server of an engine', () => {
  it('responds to a chat without streaming', async () => {
    const response = await post('/v1/chat/completions', chatBody('scripted:{"text":"a 東京 b"}'));
    assert.equal(response.status, 200);
    const body = await jsonBody(response);
    assert.equal(body.choices[0].message.content, 'a 東京 b');
    assert.equal(body.usage.completion_tokens, 3);
  });

  it('streams a text completion that ends with [DONE]', async () => {
    const response = await post('/v1/completions', {
      model: MODEL,
      prompt: 'scripted:{"text":"a b"}',
      stream: true,
    });
    assert.match(response.headers.get('content-type') ?? '', /^text\/event-stream/);
    const frames = (await response.text()).split('\n\n');
    assert.deepEqual(frames.slice(-2), ['data: [DONE]', '']);
    assert.match(frames.join(''), /"text":"a".*"text":" b"/s);
  });

  it('sends the status of a stream when the request has a slot, before the first token', async () => {
    const prompt = 'scripted:{"prefillMs":60000}';
    const response = await post('/v1/completions', { model: MODEL, prompt, stream: true });
    assert.equal(response.status, 200);
    await response.body?.cancel();
  });

  it('reports its load in /health and its model in /v1/models', async () => {
    const health = await jsonBody(await fetch(`${server.address}/health`));
    const load = ['slots', 'slotsInUse', 'queued', 'lastStepAgeMs', 'medianStepMs'];
    const totals = ['promptTokens', 'cachedTokens', 'completionTokens', 'memoryBytes'];
    assert.deepEqual(Object.keys(health), [...load, ...totals]);
    const models = await jsonBody(await fetch(`${server.address}/v1/models`));
    assert.deepEqual(Object.keys(models), ['data']);
    assert.deepEqual([models.data[0].id, models.data[0].context_length], [MODEL, 4096]);
  });

  for (const [name, path, body, status, code] of [
    ['another model', '/v1/completions', { model: 'other/model', prompt: 'x' }, 404, 'model_not_found'],
    ['an invalid JSON body', '/v1/completions', '{"model":', 400, 'invalid_json'],
    ['an unknown path', '/v1/embeddings', {}, 404, 'unknown_url'],
    [
      'an error before the first token',
      '/v1/chat/completions',
      chatBody('scripted:{"error":"queue_full"}'),
      503,
      'queue_full',
    ],
    ['too many choices', '/v1/chat/completions', chatBody('x', { n: 5 }), 400, 'invalid_value'],
    [
      'an unknown field',
      '/v1/chat/completions',
      chatBody('x', { nonsense: 1 }),
      400,
      'unsupported_parameter',
    ],
  ] as const) {
    it(`responds to ${name} with ${status} ${code}, streaming or not`, async () => {
      for (const stream of [false, true]) {
        const response = await post(path, typeof body === 'string' ? body : { ...body, stream });
        assert.equal(response.status, status);
        assert.equal((await jsonBody(response)).error.code, code);
      }
    });
  }

  it('responds to a wrong method with 405 and the supported method', async () => {
    const response = await fetch(`${server.address}/v1/completions`);
    assert.deepEqual([response.status, response.headers.get('allow')], [405, 'POST']);
  });

  it('sends an error in the middle of a stream as an event with the usage so far', async () => {
    const response = await post(
      '/v1/chat/completions',
      chatBody('scripted:{"errorAfter":2}', { stream: true }),
    );
    const frames = (await response.text()).trimEnd().split('\n\n');
    assert.equal(frames.at(-1), 'data: [DONE]');
    const event = JSON.parse(frames.at(-2)?.slice('data: '.length) ?? '');
    assert.equal(event.error.code, 'internal_error');
    assert.equal(event.usage.completion_tokens, 2);
  });

  it('ends the generation when the client disconnects', async () => {
    const disconnect = new AbortController();
    const body = JSON.stringify(chatBody('scripted:{"tokens":1000,"tokenMs":10}', { stream: true }));
    const address = `${server.address}/v1/chat/completions`;
    const response = await fetch(address, { method: 'POST', body, signal: disconnect.signal });
    assert(response.body);
    await response.body.getReader().read();
    assert.equal(engine.health().slotsInUse, 1);
    disconnect.abort();
    while (engine.health().slotsInUse !== 0) await new Promise((resolve) => setImmediate(resolve));
  });

  it('refuses a body that is too large without reading it', async () => {
    await using small = await serve(engine, { bodyBytes: 1000 });
    const response = await post('/v1/completions', 'x'.repeat(100_000), small.address);
    assert.equal(response.status, 413);
    assert.equal((await jsonBody(response)).error.code, 'request_too_large');
  });

  it('leaves the size of bodies on a socket to the service', async () => {
    await using folder = await temporaryFolder();
    const socketPath = join(folder.path, 'engine.sock');
    const onSocket = await serveEngine(engine, { socketPath }, options);
    const client = new Agent({ socketPath });
    try {
      const { statusCode, body } = await client.request({
        origin: 'http://engine',
        path: '/v1/completions',
        method: 'POST',
        body: `{"model": "missing", "prompt": "x"${' '.repeat(65 * 1024 * 1024)}}`,
      });
      assert.equal(statusCode, 404, await body.text());
    } finally {
      await client.close();
      await onSocket.close();
    }
  });

  it('requires its API key, except for /health', async () => {
    await using locked = await serve(engine, {}, new Secret('right'));
    assert.equal((await fetch(`${locked.address}/v1/models`)).status, 401);
    assert.equal((await fetch(`${locked.address}/v1/models`, withKey('wrong'))).status, 401);
    assert.equal((await fetch(`${locked.address}/v1/models`, withKey('right'))).status, 200);
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
    const body = chatBody('scripted:{"tokens":20,"tokenMs":5}', { stream: true });
    const response = await post('/v1/chat/completions', body, closing.address);
    const closed = closing.close();
    assert.match(await response.text(), /\[DONE\]/);
    await closed;
    await assert.rejects(post('/v1/chat/completions', body, closing.address));
  });

  it('sends keep-alive comments only while the engine makes steps', async (test) => {
    test.mock.timers.enable({ apis: ['setTimeout'] });
    for (const [lastStepAgeMs, expected] of [
      [100, true],
      [31_000, false],
    ] as const) {
      const slow = new ScriptedEngine();
      slow.health = () => ({ ...ScriptedEngine.prototype.health.call(slow), lastStepAgeMs });
      await using silent = await serve(slow);
      const body = { model: MODEL, prompt: 'scripted:{"prefillMs":200}', stream: true };
      const response = await post('/v1/completions', body, silent.address);
      test.mock.timers.tick(20_000);
      assert.equal((await response.text()).includes(': keep-alive\n\n'), expected);
    }
  });

  it('stops reading from the engine while the client reads nothing, and ends the generation after a minute', async (test) => {
    test.mock.timers.enable({ apis: ['setTimeout'] });
    const endless = new EndlessEngine();
    await using flooded = await serve(endless);
    const socket = connect(flooded.port ?? 0, '127.0.0.1');
    const body = JSON.stringify(chatBody('x', { stream: true }));
    socket.pause();
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await endless.started;
    // The socket buffers of both sides fill up first.
    const emitted = await settled(() => endless.emitted);
    assert(emitted < 200, `the engine generated ${emitted} tokens of 64 KiB`);
    test.mock.timers.tick(60_000);
    await endless.ended;
    socket.destroy();
  });
});

async function serve(
  local: LocalEngine,
  more: { bodyBytes?: number } = {},
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
