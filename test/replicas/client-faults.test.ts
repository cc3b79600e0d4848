import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import { describe, it } from 'node:test';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { ConnectionLost, ReplicaRefused } from '../../src/replicas/replica.ts';
import { formatFrame, KEEP_ALIVE_FRAME } from '../../src/engine/engine-protocol.ts';
import { NO_OUTPUT, NO_USAGE, type EngineEvent } from '../../src/core/generation.ts';
import { assertFails, openScripted, HttpReplica, REPLICA, isUnavailable, respondHello } from './replicas.ts';
import { chat, collect, NEVER_ABORTED, settled, textOf } from '../engine/requests.ts';
import { until } from '../harness.ts';
import { ScriptedProcess } from '../engine/scripted-process.ts';

describe('a request that a replica does not accept', () => {
  it('fails with ReplicaRefused if the port is closed, the host is unknown, or TLS is not supported', async () => {
    const closed = await HttpReplica.listen(() => {});
    await closed[Symbol.asyncDispose]();
    await using plain = await HttpReplica.listen(() => {});
    for (const url of [closed.url, 'http://replica.invalid', plain.url.replace('http:', 'https:')]) {
      await using client = new HttpReplicaClient({ ...REPLICA, url });
      await assert.rejects(collect(client.generate(chat(), NEVER_ABORTED)), ReplicaRefused);
    }
  });

  for (const [status, header, waitMs] of [
    [503, {}, 1000],
    [503, { 'retry-after': '7' }, 7000],
    [429, { 'retry-after-ms': '250' }, 250],
    [429, { 'retry-after-ms': '0', 'retry-after': '7' }, 7000],
    [429, { 'retry-after-ms': 'soon', 'retry-after': '7' }, 7000],
    // The longest wait.
    [429, { 'retry-after': 'Fri, 31 Dec 2100 23:59:59 GMT' }, 60_000],
    [429, { 'retry-after': 'soon' }, 1000],
  ] as const) {
    it(`fails with ReplicaRefused and a wait of ${waitMs} ms after ${status} ${JSON.stringify(header)}`, async () => {
      await using replica = await HttpReplica.listen((response) =>
        response.writeHead(status, header).end('busy'),
      );
      for (const stream of [true, false]) {
        await assert.rejects(
          collect(replica.client.generate(chat({}, { stream }), NEVER_ABORTED)),
          (error) => {
            assert(error instanceof ReplicaRefused);
            assert.equal(error.retryAfterMs, waitMs);
            return true;
          },
        );
      }
    });
  }

  it('does not fail with ReplicaRefused if the connection is lost after it was sent', async () => {
    await using replica = await HttpReplica.listen((response) => response.destroy());
    await assertFails(replica.client, {}, 'engine_unavailable');
    assert.equal(replica.bodies.length, 1);
  });

  it('is sent once more on a new connection if an idle one was lost, as are health checks', async () => {
    const used = new WeakSet<object>();
    let lost = 0;
    await using replica = await HttpReplica.listen(
      (response, request, body) => {
        if (used.has(request.socket)) {
          lost++;
          return request.socket.destroy();
        }
        used.add(request.socket);
        return request.method === 'GET' ? response.end('{}') : respondHello(response, request, body);
      },
      { dialect: 'vllm' },
    );
    for (const isHealthCheck of [false, true]) {
      lost = 0;
      for (let call = 0; call < 16; call++) {
        if (isHealthCheck) await replica.client.health(NEVER_ABORTED);
        else await collect(replica.client.generate(chat({}, { stream: false }), NEVER_ABORTED));
        // The connection becomes idle shortly after the response.
        await settled(() => replica.connections);
      }
      assert.equal(lost, 8);
    }
  });

  it('is not sent a third time, and does not fail with ReplicaRefused if the replica is gone then', async () => {
    for (const closes of [false, true]) {
      await using replica = await HttpReplica.listen(
        (response, request, body) => {
          if (replica.bodies.length === 1) return respondHello(response, request, body);
          if (closes) replica.stopListening();
          return response.destroy();
        },
        { dialect: 'vllm' },
      );
      await collect(replica.client.generate(chat({}, { stream: false }), NEVER_ABORTED));
      await settled(() => replica.connections);
      await assertFails(replica.client, {}, 'engine_unavailable');
      assert.equal(replica.bodies.length, closes ? 2 : 3);
    }
  });

  it('is not sent again if its connection was lost after a while, because the replica may have worked on it', async () => {
    const held: (() => void)[] = [];
    await using replica = await HttpReplica.listen(
      (response, request, body) => {
        if (replica.bodies.length === 1) return respondHello(response, request, body);
        return held.push(() => response.destroy());
      },
      { dialect: 'vllm', firstByteMs: 200 },
    );
    const whole = chat({}, { stream: false });
    await collect(replica.client.generate(whole, NEVER_ABORTED));
    await settled(() => replica.connections);
    const lost = assert.rejects(collect(replica.client.generate(whole, NEVER_ABORTED)), ConnectionLost);
    await until(() => held.length === 1);
    assert.equal(replica.connections, 1);
    // Takes as long as the first byte of a stream may take.
    await assertFails(replica.client, {}, 'engine_unavailable');
    held[0]?.();
    await lost;
    assert.equal(replica.bodies.length, 3);
  });

  it('does not fail with ReplicaRefused if the replica responds with another error', async () => {
    await using client = await openScripted();
    await assertFails(client, { error: 'context_length_exceeded' }, 'context_length_exceeded');
    await assertFails(client, { error: 'internal_error' }, 'engine_unavailable', 'internal_error');
    await assertFails(client, { status: 500, body: 'no JSON' }, 'engine_unavailable', 'internal_error');
    await assertFails(client, { status: 404, body: '{}' }, 'engine_unavailable', 'internal_error');
  });
});

describe('a request whose replica fails', () => {
  it('fails with engine_unavailable when its non-streaming response never ends', async () => {
    const part = `: ${'x'.repeat(1_000_000)}\n\n`;
    for (const exactCounts of [false, true]) {
      await using replica = await HttpReplica.listen(
        async (response) => {
          while (!response.closed) {
            if (!response.write(part)) {
              await new Promise<void>((resolve) => response.once('drain', resolve).once('close', resolve));
            }
          }
        },
        { dialect: 'vllm', exactCounts },
      );
      const events = collect(replica.client.generate(chat({}, { stream: false }), NEVER_ABORTED));
      await assert.rejects(events, isUnavailable);
    }
  });

  it('returns the events so far and then fails with engine_unavailable when the process is killed', async () => {
    await using child = await ScriptedProcess.start();
    await using client = new HttpReplicaClient({ ...REPLICA, socketPath: child.socketPath });
    const seen: string[] = [];
    await assert.rejects(async () => {
      for await (const event of client.generate(chat({ dieAfter: 2 }), NEVER_ABORTED)) seen.push(event.type);
    }, isUnavailable);
    assert.deepEqual(seen, ['started', 'token', 'token']);
    assert.deepEqual(await child.exited(), [null, 'SIGKILL']);
    await assert.rejects(collect(client.generate(chat(), NEVER_ABORTED)), ReplicaRefused);
  });

  for (const [name, directive] of [
    ['sends invalid JSON', { garbageAfter: 2 }],
    ['closes the connection', { cutAfter: 3 }],
    ['ends without a finish', { endAfter: 3 }],
    ['responds with HTML', { status: 200, body: '<html></html>' }],
    ['responds with an empty body', { status: 200, body: '' }],
  ] as const) {
    it(`fails with engine_unavailable when the replica ${name}`, async () => {
      await using client = await openScripted();
      await assertFails(client, directive, 'engine_unavailable');
      // The client still works.
      assert.equal((await collect(client.generate(chat(), NEVER_ABORTED))).at(-1)?.type, 'end');
    });
  }

  it('fails with the error of its status when the body of an error never ends, or is never sent', async () => {
    const endless = (bytes: number) => (response: ServerResponse) => {
      const timer = setInterval(() => response.write('x'.repeat(bytes)), 10);
      response.once('close', () => clearInterval(timer));
    };
    for (const send of [endless(10_000), endless(1), (response: ServerResponse) => response.flushHeaders()]) {
      await using replica = await HttpReplica.listen((response) => send(response.writeHead(500)), {
        dialect: 'vllm',
        silenceMs: 200,
      });
      for (const stream of [true, false]) {
        const events = collect(replica.client.generate(chat({}, { stream }), NEVER_ABORTED));
        await assert.rejects(events, { code: 'internal_error' });
        await replica.closed();
      }
    }
  });

  for (const body of ['<html>', '{}', '{"choices":[', '']) {
    it(`fails with engine_unavailable when its non-streaming response is ${JSON.stringify(body)}`, async () => {
      await using replica = await HttpReplica.listen((response) => response.end(body), { dialect: 'vllm' });
      const events = replica.client.generate(chat({}, { stream: false }), NEVER_ABORTED);
      await assert.rejects(collect(events), isUnavailable);
    });
  }

  it('fails with the error event of the replica', async () => {
    await using client = await openScripted();
    await assertFails(client, { errorAfter: 2 }, 'engine_unavailable', 'internal_error');
  });

  it('fails with engine_unavailable when the replica sends nothing, before or after the first byte', async () => {
    await using client = await openScripted({}, { firstByteMs: 200, silenceMs: 100 });
    await assertFails(client, { startMs: 600_000 }, 'engine_unavailable');
    await assertFails(client, { hangAfter: 2 }, 'engine_unavailable');
  });

  it('fails with engine_unavailable when the event loop of the replica is blocked', async () => {
    await using child = await ScriptedProcess.start();
    await using client = new HttpReplicaClient({ ...REPLICA, socketPath: child.socketPath, silenceMs: 100 });
    await assertFails(client, { freezeAfter: 1 }, 'engine_unavailable');
  });
});

const chunk = (value: object) => `data: ${JSON.stringify(value)}\n\n`;
const token = (content: string, more: object = {}) =>
  chunk({ choices: [{ index: 0, delta: { content } }], ...more });

/** Sends what `next` returns, every 10 ms, until it returns null. */
function sendEvery10Ms(response: ServerResponse, next: () => string | null): void {
  const timer = setInterval(() => {
    const data = next();
    if (data === null) clearInterval(timer);
    else response.write(data);
  }, 10);
  response.on('close', () => clearInterval(timer));
}

describe('a stream without output', () => {
  const limits = { firstByteMs: 200, silenceMs: 200 };

  for (const [name, data] of [
    ['comments', ': processing\n\n'],
    ['chunks without choices', chunk({ choices: [] })],
    ['chunks without text', token('')],
  ] as const) {
    for (const [when, first] of [
      ['before the first token', data],
      ['after a token', token('hi')],
    ] as const) {
      it(`fails with engine_unavailable if the server sends only ${name} ${when}`, async () => {
        await using replica = await HttpReplica.listen((response) => {
          response.write(first);
          sendEvery10Ms(response, () => data);
        }, limits);
        await assertFails(replica.client, {}, 'engine_unavailable');
        await replica.closed();
      });
    }
  }

  it('is accepted while the server reports more tokens, because it may send a tool call as a whole', async () => {
    let tokens = 0;
    await using replica = await HttpReplica.listen((response) => {
      sendEvery10Ms(response, () => {
        const usage = { prompt_tokens: 5, completion_tokens: ++tokens };
        if (tokens < 60) return token('', { usage });
        response.end(
          chunk({ choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: 'stop' }], usage }),
        );
        return null;
      });
    }, limits);
    assert.equal(textOf(await collect(replica.client.generate(chat(), NEVER_ABORTED))), 'hi');
  });

  const frames = { ...limits, dialect: 'sluice' } as const;

  it('is accepted while an engine sends keep-alive frames, because its prompt may be long', async () => {
    let sent = 0;
    const end: EngineEvent = { type: 'end', usage: NO_USAGE, usageSource: 'engine' };
    await using replica = await HttpReplica.listen((response) => {
      sendEvery10Ms(response, () => {
        if (++sent < 60) return KEEP_ALIVE_FRAME;
        response.end(formatFrame(end));
        return null;
      });
    }, frames);
    assert.deepEqual(await collect(replica.client.generate(chat(), NEVER_ABORTED)), [end]);
  });

  it('is accepted after more than responseMs if an engine reports the progress of a prompt', async () => {
    const end: EngineEvent = { type: 'end', usage: NO_USAGE, usageSource: 'engine' };
    let doneTokens = 0;
    await using replica = await HttpReplica.listen(
      (response) => {
        sendEvery10Ms(response, () => {
          if (++doneTokens < 90) return formatFrame({ type: 'prefill', promptTokens: 90, doneTokens });
          response.end(formatFrame(end));
          return null;
        });
      },
      { ...frames, responseMs: 300 },
    );
    const events = await collect(replica.client.generate(chat({}, { maxTokens: 1 }), NEVER_ABORTED));
    assert.equal(events.length, 90);
  });

  it('fails with engine_unavailable if an engine sends only keep-alive frames for responseMs', async () => {
    await using replica = await HttpReplica.listen(
      (response) => sendEvery10Ms(response, () => KEEP_ALIVE_FRAME),
      { ...frames, responseMs: 600 },
    );
    await assertFails(replica.client, {}, 'engine_unavailable');
    await replica.closed();
  });
});

it('embeddings that take longer than responseMs fail with the advice to send fewer inputs', async () => {
  await using replica = await HttpReplica.listen(() => {}, { dialect: 'openai', responseMs: 600 });
  const shared = { model: 'test/model', cacheScope: null, traceparent: null, user: null };
  const request = { ...NO_OUTPUT, ...shared, kind: 'embedding', inputs: ['a'], dimensions: null } as const;
  await assert.rejects(collect(replica.client.generate(request, NEVER_ABORTED)), {
    code: 'response_timeout',
    message: /after 1 s\. Send fewer inputs in a request\.$/,
  });
});

describe('a stream that does not stop', () => {
  const endless = (data: string) => (response: ServerResponse) => {
    const write = (): void => {
      while (!response.destroyed && response.write(data));
      if (!response.destroyed) setImmediate(write);
    };
    write();
  };

  for (const [name, data, most] of [
    ['tokens', token('hi'), 2000],
    ['long texts', token('x'.repeat(1000)), 100],
    ['reasoning', chunk({ choices: [{ index: 0, delta: { reasoning_content: 'hi' } }] }), 40_000],
  ] as const) {
    it(`fails with engine_unavailable after many more ${name} than max_tokens`, async () => {
      await using replica = await HttpReplica.listen(endless(data), { contextTokens: 4096 });
      let events = 0;
      await assert.rejects(async () => {
        for await (const _ of replica.client.generate(chat({}, { maxTokens: 16 }), NEVER_ABORTED)) events++;
      }, isUnavailable);
      assert(events < most, `${events} events`);
      await replica.closed();
    });
  }
});

describe('a stream whose choices are finished', () => {
  const finished =
    chunk({ choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: 'stop' }] }) +
    chunk({ choices: [], usage: { prompt_tokens: 5, completion_tokens: 2 } });
  const end = {
    type: 'end',
    usage: { promptTokens: 5, completionTokens: 2, cachedTokens: 0, reasoningTokens: 0 },
    usageSource: 'engine',
  };

  for (const [fault, after] of [
    ['the connection is lost', (response: ServerResponse) => response.destroy()],
    ['the server sends nothing more', () => {}],
    [
      'the server sends empty chunks forever',
      (response: ServerResponse) => sendEvery10Ms(response, () => chunk({ choices: [] })),
    ],
  ] as const) {
    it(`ends with the usage that the server has reported if ${fault}`, async () => {
      await using replica = await HttpReplica.listen(
        (response) => response.write(finished, () => after(response)),
        { silenceMs: 200 },
      );
      const events = await collect(replica.client.generate(chat(), NEVER_ABORTED));
      assert.deepEqual(events.at(-1), end);
      await replica.closed();
    });
  }

  it('is not complete if the server has sent fewer choices than were requested', async () => {
    await using replica = await HttpReplica.listen((response) =>
      response.write(finished, () => response.destroy()),
    );
    const request = chat({}, { choices: 2 });
    await assert.rejects(collect(replica.client.generate(request, NEVER_ABORTED)), ConnectionLost);
  });
});

it('a response with a choice that was not requested is invalid', async () => {
  const choice = (index: number) => ({
    index,
    delta: { content: 'a' },
    message: { content: 'a' },
    finish_reason: 'stop',
  });
  await using replica = await HttpReplica.listen((response, _request, body) => {
    const value = JSON.stringify({ choices: [choice(0), choice(1)] });
    response.end(body['stream'] === true ? `data: ${value}\n\ndata: [DONE]\n\n` : value);
  });
  for (const stream of [true, false]) {
    const of = (choices: number) =>
      collect(replica.client.generate(chat({}, { stream, choices }), NEVER_ABORTED));
    await assert.rejects(of(1), isUnavailable);
    assert.equal((await of(2)).filter(({ type }) => type === 'finish').length, 2);
  }
});
