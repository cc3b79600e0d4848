import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { describe, it } from 'node:test';
import { respondFirstChunkOnly, openScripted, HttpReplica } from './replicas.ts';
import { chat, collect, settled, NEVER_ABORTED } from '../engine/requests.ts';

describe('a request with an abort signal', () => {
  it('is not sent if the signal is already aborted', async () => {
    await using replica = await HttpReplica.listen(() => {});
    const reason = new Error('gone');
    await assert.rejects(collect(replica.client.generate(chat(), AbortSignal.abort(reason))), reason);
    assert.equal(replica.bodies.length, 0);
  });

  it('rejects with the reason of the signal and closes the connection', async () => {
    await using replica = await HttpReplica.listen(respondFirstChunkOnly);
    const disconnect = new AbortController();
    const events = replica.client.generate(chat(), disconnect.signal)[Symbol.asyncIterator]();
    await events.next();
    const waiting = events.next();
    const reason = new Error('the client disconnected');
    disconnect.abort(reason);
    await assert.rejects(waiting, reason);
    await replica.closed();
    assert.deepEqual(await events.next(), { value: undefined, done: true });
    assert.equal(getEventListeners(disconnect.signal, 'abort').length, 0);
  });

  it('closes its connection when the consumer stops reading its events', async () => {
    await using replica = await HttpReplica.listen(respondFirstChunkOnly);
    const { signal } = new AbortController();
    for await (const event of replica.client.generate(chat(), signal)) {
      assert.equal(event.type, 'sent');
      break;
    }
    await replica.closed();
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('removes its listeners from the signal after success and failure', async () => {
    await using client = await openScripted();
    const { signal } = new AbortController();
    await collect(client.generate(chat(), signal));
    await assert.rejects(collect(client.generate(chat({ cutAfter: 2 }), signal)));
    await assert.rejects(collect(client.generate(chat({ error: 'queue_full' }), signal)));
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });

  it('is not sent if the signal is aborted while connecting', async () => {
    await using replica = await HttpReplica.listen(() => {});
    const disconnect = new AbortController();
    const next = replica.client.generate(chat(), disconnect.signal)[Symbol.asyncIterator]().next();
    disconnect.abort(new Error('gone'));
    await assert.rejects(next, /gone/);
    assert.equal(replica.bodies.length, 0);
  });
});

describe('a consumer that reads slowly', () => {
  it('pauses the connection and receives all events', async () => {
    const frames = 4000;
    let written = 0;
    await using replica = await HttpReplica.listen(async (response) => {
      response.writeHead(200);
      const chunk = { choices: [{ index: 0, delta: { content: 'x'.repeat(4096) } }] };
      for (; written < frames; written++) {
        if (!response.write(`data: ${JSON.stringify(chunk)}\n\n`)) {
          await new Promise((resolve) => response.once('drain', resolve));
        }
      }
      response.end('data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n');
    });
    const events = replica.client.generate(chat(), NEVER_ABORTED)[Symbol.asyncIterator]();
    await events.next();
    await settled(() => written);
    // The socket buffers of both sides and the client's buffer of 256 KiB fill up first.
    assert(written < frames, 'all 16 MB were read while the consumer read nothing');
    let characters = 0;
    for (let next = await events.next(); !next.done; next = await events.next()) {
      if (next.value.type === 'token') characters += next.value.text.length;
    }
    assert.equal(characters, frames * 4096);
  });
});
