import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { scripted } from '../../src/engine/scripted/options.ts';
import { untilIdle, chat, scriptedYaml, startService } from '../harness.ts';
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
