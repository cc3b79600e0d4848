import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { openingOnly, openScripted, Raw } from './replicas.ts';
import { chat, collect, settled, STAYS } from './requests.ts';

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
    await settled(() => written);
    // What the sockets of both sides hold, and a quarter of a megabyte here.
    assert(written < frames, 'all 16 MB were taken from a caller who reads nothing');
    let characters = 0;
    for (let next = await events.next(); !next.done; next = await events.next()) {
      if (next.value.type === 'token') characters += next.value.text.length;
    }
    assert.equal(characters, frames * 4096);
  });
});
