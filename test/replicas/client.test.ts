import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, it, mock } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { ENGINE_PROTOCOL } from '../../src/engine/engine-protocol.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { ReplicaRefused } from '../../src/replicas/replica.ts';
import { DIALECTS, NO_USAGE } from '../../src/core/generation.ts';
import { Secret } from '../../src/support/secret.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { temporaryFolder } from '../harness.ts';
import { HttpReplica, isUnavailable, REPLICA, openScripted, respondHello } from './replicas.ts';
import { chat, collect, NEVER_ABORTED, text, textOf } from '../engine/requests.ts';

describe('the client of a replica', () => {
  for (const dialect of DIALECTS.filter((each) => each !== 'sluice')) {
    it(`returns the same events for a streaming and a non-streaming response of a ${dialect} replica`, async () => {
      await using replica = await HttpReplica.listen(respondHello, { dialect });
      for (const create of [chat, text]) {
        for (const stream of [true, false]) {
          const events = await collect(replica.client.generate(create({}, { stream }), NEVER_ABORTED));
          assert.equal(textOf(events), 'hé 東京');
          assert.equal(events.filter(({ type }) => type === 'started').length, 1);
          assert.deepEqual(
            events.slice(0, 2).map(({ type }) => type),
            ['sent', 'started'],
          );
          assert.deepEqual(events.at(-2), { type: 'finish', choice: 0, reason: 'stop', stopSequence: null });
          const usage = { ...NO_USAGE, promptTokens: 7, completionTokens: 2 };
          assert.deepEqual(events.at(-1), { type: 'end', usage, usageSource: 'engine' });
        }
      }
      assert.equal(replica.bodies.filter(({ stream }) => stream === false).length, 2);
      const paths = ['/v1/chat/completions', '/v1/chat/completions', '/v1/completions', '/v1/completions'];
      assert.deepEqual(replica.paths, paths);
    });
  }

  it('reports the prompt tokens at the start if the first chunk has them', async () => {
    await using client = await openScripted();
    const request = chat({ cachedTokens: 2 });
    const [started] = await collect(client.generate(request, NEVER_ABORTED));
    assert.deepEqual(started, { type: 'started', promptTokens: 7, cachedTokens: 2 });
  });

  it('decodes characters that are split between chunks', async () => {
    const content = 'héllo 東京 🙂!';
    const chunk = { choices: [{ index: 0, delta: { content: content }, finish_reason: 'stop' }] };
    const bytes = Buffer.from(`data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`);
    await using replica = await HttpReplica.listen((response) => {
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
        assert.equal(textOf(await collect(replica.client.generate(chat(), NEVER_ABORTED))), content);
      }),
      { numRuns: 50 },
    );
  });

  it('estimates the usage if the replica does not report it', async () => {
    const chunk = (text: string) => `data: {"choices":[{"index":0,"delta":{"content":"${text}"}}]}\n\n`;
    await using replica = await HttpReplica.listen(
      (response) => {
        response.writeHead(200);
        response.write(['a', 'b', 'c', 'd', 'e'].map(chunk).join(''));
        response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
      },
      { dialect: 'openai' },
    );
    const events = await collect(replica.client.generate(chat(), NEVER_ABORTED));
    const end = events.at(-1);
    assert(end?.type === 'end');
    assert.deepEqual([end.usageSource, end.usage.completionTokens], ['estimated', 5]);
  });
});

describe('long events', () => {
  it('returns an echoed prompt of several megabytes, from an engine process or another server', async () => {
    await using folder = await temporaryFolder();
    const prompt = `${'Lorem "ipsum" 東京 😀\n'.repeat(60_000)}${scripted({ text: ' end' })}`;
    for (const more of [{ socketPath: join(folder.path, 'engine.sock') }, {}]) {
      await using client = await openScripted({ contextTokens: 1_000_000 }, more);
      for (const stream of [true, false]) {
        const request = text({}, { prompts: [prompt], echo: true, stream });
        const events = await collect(client.generate(request, NEVER_ABORTED));
        assert.ok(textOf(events) === `${prompt} end`, 'the text is complete');
        const parts = events.flatMap((event) => (event.type === 'token' ? event.text.length : []));
        assert.ok(Math.max(...parts) < 100_000, 'the prompt is split');
      }
    }
  });

  it('accepts the token IDs, the text and the log probabilities of a long prompt in one event', async () => {
    const prompt = 'é 😀 x\u0001'.repeat(20_000);
    const ids = Array.from({ length: 200_000 }, (_, index) => 100_000 + index);
    const escaped = JSON.stringify(prompt).replaceAll(
      /[^ -~]/g,
      (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
    );
    const entry = '{" token":-12.345678901234567,"other":-12.345678901234567}';
    const tops = Array.from({ length: 30_000 }, () => entry);
    const logprobs = `{"tokens":[${tops.map(() => '" "').join()}],"top_logprobs":[${tops.join()}]}`;
    await using replica = await HttpReplica.listen(
      (response, _request, body) => {
        const first =
          body['echo'] === true
            ? `"text":${escaped},"logprobs":${logprobs}`
            : `"prompt_token_ids":[${ids.join()}]`;
        response.write(`data: {"choices":[{"index":0,${first},"finish_reason":null}]}\n\n`);
        response.end('data: {"choices":[{"index":0,"text":"!","finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
      },
      { dialect: 'vllm' },
    );
    const request = text({}, { prompts: [prompt], tokenIds: true });
    const [, started] = await collect(replica.client.generate(request, NEVER_ABORTED));
    assert.ok(started?.type === 'started' && started.promptTokenIds?.length === ids.length);
    const echo = text({}, { prompts: [prompt], echo: true, logprobs: 1 });
    assert.ok(textOf(await collect(replica.client.generate(echo, NEVER_ABORTED))) === `${prompt}!`);
    // The same events are not possible after a short prompt.
    const refused = async (fields: Parameters<typeof text>[1], error: assert.AssertPredicate) => {
      const short = text({}, { prompts: ['short'], ...fields });
      await assert.rejects(collect(replica.client.generate(short, NEVER_ABORTED)), error);
    };
    await refused({ tokenIds: true }, isUnavailable);
    // Log probabilities of tokens that were not read in time can be this large.
    await refused({ echo: true, logprobs: 1 }, { code: 'response_too_large' });
  });
});

describe('connections', () => {
  it('are reused, one per concurrent request', async () => {
    await using replica = await HttpReplica.listen((response) => {
      response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    });
    const run = async () => void (await collect(replica.client.generate(chat(), NEVER_ABORTED)));
    await run();
    // A connection becomes free in the next turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve));
    await run();
    assert.equal(replica.connections, 1);
    await Promise.all(Array.from({ length: 20 }, run));
    assert(replica.connections >= 20);
  });
});

describe('a connection that the replica closed while idle', () => {
  it('does not affect the next request', async () => {
    await using replica = await HttpReplica.listen(respondHello);
    for (let round = 0; round < 3; round++) {
      assert.equal((await collect(replica.client.generate(chat(), NEVER_ABORTED))).at(-1)?.type, 'end');
      replica.closeIdle();
      await replica.closed();
    }
  });
});

describe('a large response that is not a stream', () => {
  const entry = { token: 'a', logprob: -1, bytes: [97] };
  const content = Array.from({ length: 1000 }, () => ({ ...entry, top_logprobs: [entry] }));
  const choice = { index: 0, message: { content: 'é' }, logprobs: { content }, finish_reason: 'stop' };
  const json = JSON.stringify({ choices: [choice] });
  const request = chat({}, { stream: false, logprobs: 1 });

  it('is parsed on the thread for JSON, and has all log probabilities', async () => {
    await using replica = await HttpReplica.listen((response) => response.end(json), { dialect: 'vllm' });
    const parse = mock.method(JSON, 'parse');
    const events = await collect(replica.client.generate(request, NEVER_ABORTED));
    const parsed = parse.mock.calls.map(({ arguments: [text] }) => text.length);
    parse.mock.restore();
    assert.ok(
      Math.max(0, ...parsed) < json.length / 4,
      `a text of ${Math.max(...parsed)} characters was parsed`,
    );
    assert.equal(textOf(events), 'é');
    const logprobs = events.flatMap((event) => (event.type === 'token' ? (event.logprobs ?? []) : []));
    assert.deepEqual(
      logprobs,
      Array.from(content, () => ({ ...entry, top: [entry] })),
    );
  });

  it('has the errors of a small one', async () => {
    const bodies = {
      invalid: json.slice(0, -2),
      empty: json.replace(/"choices".*/s, `"x":"${json.length}"}`),
    };
    const failed = JSON.stringify({ error: { message: 'no', code: 503 }, filler: json });
    for (const body of [bodies.invalid, `${bodies.empty}${' '.repeat(json.length)}`, failed]) {
      await using replica = await HttpReplica.listen((response) => response.end(body), { dialect: 'vllm' });
      await assert.rejects(collect(replica.client.generate(request, NEVER_ABORTED)), isUnavailable);
    }
  });
});

describe('the event `sent`', () => {
  for (const stream of [true, false]) {
    it(`comes before the response of a server without slots, with stream ${stream}`, async () => {
      const received = Promise.withResolvers<() => void>();
      await using replica = await HttpReplica.listen(
        (...exchange) => received.resolve(() => respondHello(...exchange)),
        {
          dialect: 'vllm',
        },
      );
      const events = replica.client.generate(chat({}, { stream }), NEVER_ABORTED)[Symbol.asyncIterator]();
      assert.deepEqual((await events.next()).value, { type: 'sent', whole: !stream });
      const respond = await received.promise;
      respond();
      const rest = await collect({ [Symbol.asyncIterator]: () => events });
      assert.equal(rest[0]?.type, 'started');
      assert.equal(rest.filter(({ type }) => type === 'sent').length, 0);
    });
  }
});

describe('a replica client', () => {
  it('reads the health and the description of a Sluice engine', async () => {
    await using client = await openScripted({ slots: 3, contextTokens: 77 });
    const tokens = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
    const { memoryBytes, conversations, draftTokens, acceptedDraftTokens, ...health } =
      await client.health(NEVER_ABORTED);
    assert.deepEqual(health, { slots: 3, slotsInUse: 0, queued: 0, lastStepAgeMs: null, ...tokens });
    assert.ok((memoryBytes ?? 0) > 1_000_000, String(memoryBytes));
    assert.deepEqual(conversations, { entries: 0, bytes: 0, saves: 0, loads: 0, loadMs: 0 });
    assert.deepEqual([draftTokens, acceptedDraftTokens], [0, 0]);
    assert.equal((await client.describe(NEVER_ABORTED)).contextTokens, 77);
  });

  it('rejects with ReplicaRefused if the server is unreachable or its status is wrong', async () => {
    await using replica = await HttpReplica.listen((response) => response.writeHead(500).end());
    await assert.rejects(replica.client.health(NEVER_ABORTED), ReplicaRefused);
    await using unreachable = new HttpReplicaClient({ ...REPLICA, url: 'http://replica.invalid' });
    await assert.rejects(unreachable.health(NEVER_ABORTED), ReplicaRefused);
    await assert.rejects(unreachable.describe(NEVER_ABORTED), ReplicaRefused);
  });

  it('rejects with ReplicaRefused if the replica makes no steps', async () => {
    const stuck = { slots: 1, slotsInUse: 1, queued: 0, lastStepAgeMs: 2 * REPLICA.silenceMs };
    const body = JSON.stringify({ protocol: ENGINE_PROTOCOL, ...stuck });
    await using replica = await HttpReplica.listen((response) => response.end(body), { dialect: 'sluice' });
    await assert.rejects(replica.client.health(NEVER_ABORTED), ReplicaRefused);
  });

  it('sends the API key with every request', async () => {
    const keys: unknown[] = [];
    await using replica = await HttpReplica.listen(
      (response, request) => {
        keys.push(request.headers.authorization);
        response.writeHead(503).end();
      },
      { apiKey: new Secret('k') },
    );
    await assert.rejects(collect(replica.client.generate(chat(), NEVER_ABORTED)));
    await assert.rejects(replica.client.health(NEVER_ABORTED));
    assert.deepEqual(keys, ['Bearer k', 'Bearer k']);
  });

  it('sends the additional headers with every request', async () => {
    const received: unknown[] = [];
    await using replica = await HttpReplica.listen(
      (response, request) => {
        received.push([request.headers['x-team'], request.headers['x-key']]);
        response.writeHead(503).end();
      },
      {
        headers: new Map<string, string | Secret>([
          ['X-Team', 'a b'],
          ['X-Key', new Secret('k')],
        ]),
      },
    );
    await assert.rejects(collect(replica.client.generate(chat(), NEVER_ABORTED)));
    await assert.rejects(replica.client.health(NEVER_ABORTED));
    assert.deepEqual(received, [
      ['a b', 'k'],
      ['a b', 'k'],
    ]);
  });
});
