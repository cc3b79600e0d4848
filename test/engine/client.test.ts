import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { openReplica, type ReplicaOptions } from '../../src/engine/client.ts';
import { ReplicaRefused, type Engine } from '../../src/engine/engine.ts';
import { ScriptedEngine } from '../../src/engine/scripted/engine.ts';
import type { ScriptedOptions } from '../../src/engine/scripted/options.ts';
import { spoil } from '../../src/engine/scripted/spoil.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { ServiceError } from '../../src/errors.ts';
import { DIALECTS, type Dialect } from '../../src/generation.ts';
import { SILENT } from '../../src/log.ts';
import { Secret } from '../../src/secret.ts';
import { chat, collect, MODEL, STAYS, text, textOf } from './requests.ts';
import { ScriptedChild } from './scripted-child.ts';

describe('the client of a replica', () => {
  for (const dialect of DIALECTS) {
    it(`brings a stream and a whole answer of a ${dialect} replica as the same events`, async () => {
      await using replica = await Raw.listen(sayHello, { dialect });
      for (const make of [chat, text]) {
        for (const stream of [true, false]) {
          const events = await collect(replica.engine.generate(make({}, { stream }), STAYS));
          assert.equal(textOf(events), 'hé 東京');
          assert.equal(events.filter(({ type }) => type === 'started').length, 1);
          assert.equal(events[0]?.type, 'started');
          assert.deepEqual(events.at(-2), { type: 'finish', choice: 0, reason: 'stop' });
          const usage = { promptTokens: 7, completionTokens: 2, cachedTokens: 0 };
          assert.deepEqual(events.at(-1), { type: 'end', usage, usageSource: 'engine' });
        }
      }
      const wholes = dialect === 'sluice' ? 0 : 2;
      assert.equal(replica.bodies.filter(({ stream }) => stream === false).length, wholes);
      const paths = ['/v1/chat/completions', '/v1/chat/completions', '/v1/completions', '/v1/completions'];
      assert.deepEqual(replica.paths, paths);
    });
  }

  it('tells the tokens of the prompt at the start, where the first chunk does', async () => {
    await using engine = await openScripted();
    const request = chat({ cachedTokens: 2 }, { continuousUsage: true });
    const [started] = await collect(engine.generate(request, STAYS));
    assert.deepEqual(started, { type: 'started', promptTokens: 7, cachedTokens: 2 });
  });

  it('reads characters whole, wherever the bytes are split', async () => {
    const said = 'héllo 東京 🙂!';
    const chunk = { choices: [{ index: 0, delta: { content: said }, finish_reason: 'stop' }] };
    const bytes = Buffer.from(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    await using replica = await Raw.listen((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      const at = cuts.shift() ?? 1;
      response.write(bytes.subarray(0, at), () => {
        setImmediate(() => response.end(bytes.subarray(at)));
      });
    });
    let cuts: number[] = [];
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: bytes.length - 1 }), async (at) => {
        cuts = [at];
        assert.equal(textOf(await collect(replica.engine.generate(chat(), STAYS))), said);
      }),
      { numRuns: 50 },
    );
  });

  it('counts what came where the replica tells no usage, and says so', async () => {
    await using engine = await openScripted();
    const events = await collect(engine.generate(chat({ tokens: 5, noUsage: true }), STAYS));
    const end = events.at(-1);
    assert(end?.type === 'end');
    assert.deepEqual([end.usageSource, end.usage.completionTokens], ['estimated', 5]);
  });
});

describe('a replica that does not take the request', () => {
  it('has refused it when nobody listens, when its name is unknown, and when it does not speak TLS', async () => {
    const gone = await Raw.listen(() => {});
    await gone[Symbol.asyncDispose]();
    await using plain = await Raw.listen(() => {});
    for (const url of [gone.url, 'http://replica.invalid', plain.url.replace('http:', 'https:')]) {
      await using engine = openReplica({ ...options, url });
      await assert.rejects(collect(engine.generate(chat(), STAYS)), ReplicaRefused);
    }
  });

  for (const [status, header, waitMs] of [
    [503, {}, 1000],
    [503, { 'retry-after': '7' }, 7000],
    [429, { 'retry-after-ms': '250' }, 250],
  ] as const) {
    it(`has refused it with ${status} ${JSON.stringify(header)}, and the wait is ${waitMs} ms`, async () => {
      await using replica = await Raw.listen((response) => response.writeHead(status, header).end('busy'));
      for (const stream of [true, false]) {
        await assert.rejects(collect(replica.engine.generate(chat({}, { stream }), STAYS)), (error) => {
          assert(error instanceof ReplicaRefused);
          assert.equal(error.retryAfterMs, waitMs);
          return true;
        });
      }
    });
  }

  it('has not refused it when the connection is lost after the request went out', async () => {
    await using replica = await Raw.listen((response) => response.destroy());
    await fails(replica.engine, {}, 'engine_unavailable');
    assert.equal(replica.bodies.length, 1);
  });

  it('has not refused it when it answers with another error', async () => {
    await using engine = await openScripted();
    await fails(engine, { error: 'context_length_exceeded' }, 'context_length_exceeded');
    await fails(engine, { error: 'internal_error' }, 'engine_unavailable', 'internal_error');
    await fails(engine, { status: 500, body: 'no JSON' }, 'engine_unavailable', 'internal_error');
    await fails(engine, { status: 404, body: '{}' }, 'engine_unavailable', 'internal_error');
  });
});

describe('a replica that fails in the middle', () => {
  it('gives the events so far and then engine_unavailable, when its process is killed', async () => {
    await using child = await ScriptedChild.start();
    await using engine = openReplica({ ...options, socketPath: child.socketPath });
    const seen: string[] = [];
    await assert.rejects(async () => {
      for await (const event of engine.generate(chat({ dieAfter: 2 }), STAYS)) seen.push(event.type);
    }, unavailable);
    assert.deepEqual(seen, ['started', 'token', 'token']);
    assert.deepEqual(await child.ended(), [null, 'SIGKILL']);
    await assert.rejects(collect(engine.generate(chat(), STAYS)), ReplicaRefused);
  });

  for (const [name, directive] of [
    ['sends bytes that are no JSON', { garbageAfter: 2 }],
    ['closes the connection', { cutAfter: 3 }],
    ['ends without a finish', { endAfter: 3 }],
    ['answers a stream with something else', { status: 200, body: '<html></html>' }],
    ['answers with nothing', { status: 200, body: '' }],
  ] as const) {
    it(`is engine_unavailable when it ${name}`, async () => {
      await using engine = await openScripted();
      await fails(engine, directive, 'engine_unavailable');
      // Its connections are none the worse for it.
      assert.equal((await collect(engine.generate(chat(), STAYS))).at(-1)?.type, 'end');
    });
  }

  for (const body of ['<html>', '{}', '{"choices":[', '']) {
    it(`is engine_unavailable when a whole answer is ${JSON.stringify(body)}`, async () => {
      await using replica = await Raw.listen((response) => response.end(body), { dialect: 'vllm' });
      const events = replica.engine.generate(chat({}, { stream: false }), STAYS);
      await assert.rejects(collect(events), unavailable);
    });
  }

  it('brings the error that the replica framed', async () => {
    await using engine = await openScripted();
    await fails(engine, { errorAfter: 2 }, 'engine_unavailable', 'internal_error');
  });

  it('is engine_unavailable when it says nothing, before the first byte and after it', async () => {
    await using engine = await openScripted({}, { firstByteMs: 200, silenceMs: 100 });
    await fails(engine, { startMs: 600_000 }, 'engine_unavailable');
    await fails(engine, { hangAfter: 2 }, 'engine_unavailable');
  });

  it('is engine_unavailable when its event loop stands still', async () => {
    await using child = await ScriptedChild.start();
    await using engine = openReplica({ ...options, socketPath: child.socketPath, silenceMs: 100 });
    await fails(engine, { freezeAfter: 1 }, 'engine_unavailable');
  });
});

describe('a caller who leaves', () => {
  it('starts nothing when gone already', async () => {
    await using replica = await Raw.listen(() => {});
    const reason = new Error('gone');
    await assert.rejects(collect(replica.engine.generate(chat(), AbortSignal.abort(reason))), reason);
    assert.equal(replica.bodies.length, 0);
  });

  it('gets the reason of the signal at once, and the replica a closed connection', async () => {
    await using replica = await Raw.listen(openingOnly);
    const leaves = new AbortController();
    const events = replica.engine.generate(chat(), leaves.signal)[Symbol.asyncIterator]();
    await events.next();
    const waiting = events.next();
    const reason = new Error('the caller hung up');
    leaves.abort(reason);
    await assert.rejects(waiting, reason);
    await replica.closed();
    assert.deepEqual(await events.next(), { value: undefined, done: true });
    assert.equal(getEventListeners(leaves.signal, 'abort').length, 0);
  });

  it('closes the connection by ending the iteration', async () => {
    await using replica = await Raw.listen(openingOnly);
    const { signal } = new AbortController();
    for await (const event of replica.engine.generate(chat(), signal)) {
      assert.equal(event.type, 'started');
      break;
    }
    await replica.closed();
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('leaves nothing on the signal after a whole generation, nor after a failed one', async () => {
    await using engine = await openScripted();
    const { signal } = new AbortController();
    await collect(engine.generate(chat(), signal));
    await assert.rejects(collect(engine.generate(chat({ cutAfter: 2 }), signal)));
    await assert.rejects(collect(engine.generate(chat({ error: 'queue_full' }), signal)));
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('may go while the connection is still being made', async () => {
    await using replica = await Raw.listen(() => {});
    const leaves = new AbortController();
    const next = replica.engine.generate(chat(), leaves.signal)[Symbol.asyncIterator]().next();
    leaves.abort(new Error('gone'));
    await assert.rejects(next, /gone/);
    assert.equal(replica.bodies.length, 0);
  });
});

describe('a caller who reads slowly', () => {
  it('makes the replica wait, and gets everything in the end', async () => {
    const frames = 4000;
    let written = 0;
    await using replica = await Raw.listen(async (response) => {
      response.writeHead(200);
      const chunk = { choices: [{ index: 0, delta: { content: 'x'.repeat(4096) } }] };
      for (; written < frames; written++) {
        if (!response.write(`data: ${JSON.stringify(chunk)}\n\n`)) {
          await new Promise((resolve) => response.once('drain', resolve));
        }
      }
      response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    });
    const events = replica.engine.generate(chat(), STAYS)[Symbol.asyncIterator]();
    await events.next();
    let before = -1;
    while (written !== before) {
      before = written;
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    // What the sockets of both sides hold, and a quarter of a megabyte here.
    assert(written < frames, 'all 16 MB were taken from a caller who reads nothing');
    let characters = 0;
    for (let next = await events.next(); !next.done; next = await events.next()) {
      if (next.value.type === 'token') characters += next.value.text.length;
    }
    assert.equal(characters, frames * 4096);
  });
});

describe('connections', () => {
  it('are used again, and there are as many as requests at once', async () => {
    await using replica = await Raw.listen((response) => {
      response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    });
    const run = async () => void (await collect(replica.engine.generate(chat(), STAYS)));
    await run();
    // A connection is free again in the next turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    await run();
    assert.equal(replica.connections, 1);
    await Promise.all(Array.from({ length: 20 }, run));
    assert(replica.connections >= 20);
  });
});

describe('health, description and keys', () => {
  it('are those of a Sluice engine', async () => {
    await using engine = await openScripted({ slots: 3, contextTokens: 77 });
    const health = { slots: 3, slotsInUse: 0, queued: 0, lastStepAgeMs: null };
    assert.deepEqual(await engine.health(STAYS), health);
    assert.equal((await engine.describe(STAYS)).contextTokens, 77);
  });

  it('fail as refusals when nobody listens or the status is wrong', async () => {
    await using replica = await Raw.listen((response) => response.writeHead(500).end());
    await assert.rejects(replica.engine.health(STAYS), ReplicaRefused);
    await using nobody = openReplica({ ...options, url: 'http://replica.invalid' });
    await assert.rejects(nobody.health(STAYS), ReplicaRefused);
    await assert.rejects(nobody.describe(STAYS), ReplicaRefused);
  });

  it('sends its key with everything', async () => {
    const keys: unknown[] = [];
    await using replica = await Raw.listen(
      (response, request) => {
        keys.push(request.headers.authorization);
        response.writeHead(503).end();
      },
      { apiKey: new Secret('k') },
    );
    await assert.rejects(collect(replica.engine.generate(chat(), STAYS)));
    await assert.rejects(replica.engine.health(STAYS));
    assert.deepEqual(keys, ['Bearer k', 'Bearer k']);
  });
});

const options: ReplicaOptions = {
  name: 'replica',
  dialect: 'sluice',
  url: 'http://localhost',
  model: MODEL,
  sharedPrefixCache: false,
  firstByteMs: 10_000,
  silenceMs: 10_000,
  log: SILENT,
};

/** A scripted engine behind a real server, and the client of it. */
async function openScripted(
  scripted: Partial<ScriptedOptions> = {},
  more: Partial<ReplicaOptions> = {},
): Promise<Engine & AsyncDisposable> {
  const server = await serveEngine(
    new ScriptedEngine(scripted),
    { host: '127.0.0.1', port: 0 },
    { maxChoices: 4, modelId: MODEL, log: SILENT, beforeAnswer: spoil },
  );
  const engine = openReplica({ ...options, url: server.address, ...more });
  return {
    name: engine.name,
    dialect: engine.dialect,
    generate: (request, signal) => engine.generate(request, signal),
    health: (signal) => engine.health(signal),
    describe: (signal) => engine.describe(signal),
    async [Symbol.asyncDispose]() {
      await engine[Symbol.asyncDispose]();
      await server.close();
    },
  };
}

async function fails(
  engine: Engine,
  directive: Parameters<typeof chat>[0],
  ...codes: string[]
): Promise<void> {
  await assert.rejects(collect(engine.generate(chat(directive), STAYS)), (error) => {
    assert(error instanceof ServiceError);
    assert(!(error instanceof ReplicaRefused));
    assert(codes.includes(error.code), `the code is ${error.code}`);
    return true;
  });
}

function unavailable(error: unknown): boolean {
  return (
    error instanceof ServiceError && error.code === 'engine_unavailable' && !(error instanceof ReplicaRefused)
  );
}

/** Says that the answer has begun, and then nothing more. */
function openingOnly(response: ServerResponse): void {
  response.writeHead(200);
  response.write('data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}\n\n');
}

/** Answers as any server of the common format does, whole or as a stream. */
function sayHello(response: ServerResponse, request: IncomingMessage, body: Record<string, unknown>): void {
  const isChat = request.url === '/v1/chat/completions';
  const usage = { prompt_tokens: 7, completion_tokens: 2, total_tokens: 9 };
  const says = (content: string) =>
    isChat ? { [body['stream'] ? 'delta' : 'message']: { content } } : { text: content };
  if (!body['stream']) {
    response.end(
      JSON.stringify({ choices: [{ index: 0, ...says('hé 東京'), finish_reason: 'stop' }], usage }),
    );
    return;
  }
  const chunks = [
    { choices: [{ index: 0, ...says('hé'), finish_reason: null }] },
    { choices: [{ index: 0, ...says(' 東京'), finish_reason: null }] },
    { choices: [{ index: 0, ...says(''), finish_reason: 'stop' }] },
    { choices: [], usage },
  ];
  response.end(`${chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('')}data: [DONE]\n\n`);
}

type Handler = (response: ServerResponse, request: IncomingMessage, body: Record<string, unknown>) => unknown;

/** A replica of bare HTTP, and the client of it. */
class Raw implements AsyncDisposable {
  readonly engine: Engine;
  readonly url: string;
  /** Of the generation requests, in order. */
  readonly paths: (string | undefined)[] = [];
  readonly bodies: Record<string, unknown>[] = [];
  connections = 0;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #wake: () => void = () => {};

  private constructor(server: Server, more: Partial<ReplicaOptions>) {
    // It listens on TCP.
    this.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    this.#server = server;
    this.engine = openReplica({ ...options, url: this.url, ...more });
    server.on('connection', (socket) => {
      this.connections++;
      this.#sockets.add(socket);
      socket.on('close', () => {
        this.#sockets.delete(socket);
        this.#wake();
      });
    });
  }

  static async listen(
    handler: Handler,
    more: Partial<ReplicaOptions> & { dialect?: Dialect } = {},
  ): Promise<Raw> {
    const server = createServer((request, response) => {
      let body = '';
      request.setEncoding('utf8').on('data', (part: string) => (body += part));
      request.on('end', () => {
        // The client sends objects.
        const fields = JSON.parse(body || '{}') as Record<string, unknown>;
        if (request.method === 'POST') {
          raw.paths.push(request.url);
          raw.bodies.push(fields);
        }
        void handler(response, request, fields);
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const raw = new Raw(server, more);
    return raw;
  }

  /** Resolves when no connection is open. */
  async closed(): Promise<void> {
    while (this.#sockets.size > 0) await new Promise<void>((resolve) => (this.#wake = resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.engine[Symbol.asyncDispose]();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
