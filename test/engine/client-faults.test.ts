import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openReplica } from '../../src/engine/client.ts';
import { ReplicaRefused } from '../../src/engine/engine.ts';
import { fails, openScripted, Raw, REPLICA, unavailable } from './replicas.ts';
import { chat, collect, STAYS } from './requests.ts';
import { ScriptedChild } from './scripted-child.ts';

describe('a replica that does not take the request', () => {
  it('has refused it when nobody listens, when its name is unknown, and when it does not speak TLS', async () => {
    const gone = await Raw.listen(() => {});
    await gone[Symbol.asyncDispose]();
    await using plain = await Raw.listen(() => {});
    for (const url of [gone.url, 'http://replica.invalid', plain.url.replace('http:', 'https:')]) {
      await using engine = openReplica({ ...REPLICA, url });
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
    await using engine = openReplica({ ...REPLICA, socketPath: child.socketPath });
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
    await using engine = openReplica({ ...REPLICA, socketPath: child.socketPath, silenceMs: 100 });
    await fails(engine, { freezeAfter: 1 }, 'engine_unavailable');
  });
});
