import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { LARGE_JSON, writeLargeJson } from '../../src/json/json-thread.ts';
import { untilIdle, chat, scriptedYaml, startService, until } from '../harness.ts';
import { requestText, Wire } from './wire.ts';

const service = await startService(scriptedYaml({}));
after(() => service[Symbol.asyncDispose]());

const CHAT = 'POST /v1/chat/completions';
const key = { Authorization: `Bearer ${service.key}` };

describe('a client that closes its side after a whole request', () => {
  const slow = { text: 'one two three four', tokenMs: 60 };

  test('gets a whole response', async () => {
    using wire = await Wire.open(service.url);
    wire.send(requestText(CHAT, key, JSON.stringify(chat(scripted(slow)))));
    wire.socket.end();
    let response = await wire.head();
    while (response.status === 102) response = await wire.head();
    assert.equal(response.status, 200);
    assert.match(await wire.rest(), /one two three four/);
  });

  test('gets the whole stream', async () => {
    using wire = await Wire.open(service.url);
    wire.send(requestText(CHAT, key, JSON.stringify({ ...chat(scripted(slow)), stream: true })));
    wire.socket.end();
    let response = await wire.head();
    while (response.status === 102) response = await wire.head();
    assert.equal(response.status, 200);
    assert.match(await wire.restOfBody(), /data: \[DONE\]\n\n$/);
  });

  test('ends its generation when it then disconnects', async () => {
    for (const stream of [false, true]) {
      const endless = { tokens: 16, tokenMs: 1_000_000 };
      using wire = await Wire.open(service.url);
      wire.send(requestText(CHAT, key, JSON.stringify({ ...chat(scripted(endless)), stream })));
      wire.socket.end();
      // The request has been admitted now. The client reads nothing from here on.
      await wire.head();
      wire.socket.destroy();
      await untilIdle(service);
    }
  });
});

test('a client that disconnects while its large body is parsed starts no generation', async () => {
  for (const more of [{}, { 'Idempotency-Key': 'parsed' }] as Record<string, string>[]) {
    const before = refusals();
    using wire = await Wire.open(service.url);
    // The thread is busy until the service has seen that the client is gone.
    const busy = writeLargeJson('\u0001'.repeat(30 * LARGE_JSON));
    const text = JSON.stringify(chat(scripted({ tokens: 16, tokenMs: 1_000_000 })));
    wire.send(requestText(CHAT, { ...key, ...more }, text.padEnd(LARGE_JSON)));
    await until(() => wire.socket.bytesWritten > LARGE_JSON && wire.socket.writableLength === 0);
    await fetch(`${service.url}/healthz`);
    wire.socket.destroy();
    await busy;
    await until(() => refusals() > before);
    await untilIdle(service);
  }
});

/** Number of the requests that were refused so far. */
function refusals(): number {
  return service.log().split('request refused').length;
}
