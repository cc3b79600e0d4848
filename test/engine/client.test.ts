import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import * as fc from 'fast-check';
import { openReplica } from '../../src/engine/client.ts';
import { ReplicaRefused } from '../../src/engine/engine.ts';
import { DIALECTS } from '../../src/generation.ts';
import { Secret } from '../../src/secret.ts';
import { Raw, REPLICA, openScripted, sayHello } from './replicas.ts';
import { chat, collect, STAYS, text, textOf } from './requests.ts';

describe('the client of a replica', () => {
  for (const dialect of DIALECTS) {
    it(`brings a stream and a whole answer of a ${dialect} replica as the same events`, async () => {
      await using replica = await Raw.listen(sayHello, { dialect });
      for (const make of [chat, text]) {
        for (const stream of [true, false]) {
          const events = await collect(replica.engine.generate(make({}, { stream }), STAYS));
          assert.equal(textOf(events), 'hé 東京');
          assert.equal(events.filter(({ type }) => type === 'started').length, 1);
          const before = dialect === 'sluice' ? [] : ['sent'];
          assert.deepEqual(
            events.slice(0, before.length + 1).map(({ type }) => type),
            [...before, 'started'],
          );
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

describe('a connection that the replica closed while idle', () => {
  it('costs the next request nothing', async () => {
    await using replica = await Raw.listen(sayHello);
    for (let round = 0; round < 3; round++) {
      assert.equal((await collect(replica.engine.generate(chat(), STAYS))).at(-1)?.type, 'end');
      replica.closeIdle();
      await replica.closed();
    }
  });
});

describe('a request that has been sent', () => {
  for (const stream of [true, false]) {
    it(`is reported before a server without slots responds, stream ${stream}`, async () => {
      const asked = Promise.withResolvers<() => void>();
      await using replica = await Raw.listen((...exchange) => asked.resolve(() => sayHello(...exchange)), {
        dialect: 'vllm',
      });
      const events = replica.engine.generate(chat({}, { stream }), STAYS)[Symbol.asyncIterator]();
      assert.deepEqual((await events.next()).value, { type: 'sent', whole: !stream });
      const respond = await asked.promise;
      respond();
      const rest = await collect({ [Symbol.asyncIterator]: () => events });
      assert.equal(rest[0]?.type, 'started');
      assert.equal(rest.filter(({ type }) => type === 'sent').length, 0);
    });
  }
});

describe('health, description and keys', () => {
  it('are those of a Sluice engine', async () => {
    await using engine = await openScripted({ slots: 3, contextTokens: 77 });
    const tokens = { promptTokens: 0, cachedTokens: 0, completionTokens: 0 };
    const { memoryBytes, ...health } = await engine.health(STAYS);
    assert.deepEqual(health, { slots: 3, slotsInUse: 0, queued: 0, lastStepAgeMs: null, ...tokens });
    assert.ok((memoryBytes ?? 0) > 1_000_000, String(memoryBytes));
    assert.equal((await engine.describe(STAYS)).contextTokens, 77);
  });

  it('fail as refusals when nobody listens or the status is wrong', async () => {
    await using replica = await Raw.listen((response) => response.writeHead(500).end());
    await assert.rejects(replica.engine.health(STAYS), ReplicaRefused);
    await using nobody = openReplica({ ...REPLICA, url: 'http://replica.invalid' });
    await assert.rejects(nobody.health(STAYS), ReplicaRefused);
    await assert.rejects(nobody.describe(STAYS), ReplicaRefused);
  });

  it('is not that of a replica that makes no steps', async () => {
    const stuck = { slots: 1, slotsInUse: 1, queued: 0, lastStepAgeMs: 60_000 };
    await using replica = await Raw.listen((response) => response.end(JSON.stringify(stuck)));
    await assert.rejects(replica.engine.health(STAYS), ReplicaRefused);
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
