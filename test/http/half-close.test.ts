import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { scripted } from '../../src/engine/scripted/options.ts';
import { atRest, chat, scriptedYaml, startService } from '../harness.ts';
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
    let answer = await wire.head();
    while (answer.status === 102) answer = await wire.head();
    assert.equal(answer.status, 200);
    assert.match(await wire.rest(), /one two three four/);
  });

  test('gets a stream to its end', async () => {
    using wire = await Wire.open(service.url);
    wire.send(requestText(CHAT, key, JSON.stringify({ ...chat(scripted(slow)), stream: true })));
    wire.socket.end();
    let answer = await wire.head();
    while (answer.status === 102) answer = await wire.head();
    assert.equal(answer.status, 200);
    assert.match(await wire.restOfBody(), /data: \[DONE\]\n\n$/);
  });

  test('and is gone afterwards has its generation ended', async () => {
    for (const stream of [false, true]) {
      const endless = { tokens: 16, tokenMs: 1_000_000 };
      using wire = await Wire.open(service.url);
      wire.send(requestText(CHAT, key, JSON.stringify({ ...chat(scripted(endless)), stream })));
      wire.socket.end();
      // It has been admitted and tested when this comes; from here on nobody reads.
      await wire.head();
      wire.socket.destroy();
      await atRest(service);
    }
  });
});
