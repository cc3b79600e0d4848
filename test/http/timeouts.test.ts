import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import type { AuthenticatedKey } from '../../src/accounts/keys.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { refuseLateRequest } from '../../src/http/client-error.ts';
import type { HttpContext } from '../../src/http/context.ts';
import { authenticatedRequests } from '../../src/http/limit-headers.ts';
import { chat, scriptedYaml, blockProcess, startService, until } from '../harness.ts';
import { assertError, requestText, Wire } from './wire.ts';

const service = await startService(
  scriptedYaml({}, 'limits:\n  bodyMs: 300\n  drainBytes: 100000\n  idleConnectionMs: 600000\n'),
);
after(() => service[Symbol.asyncDispose]());

const CHAT = 'POST /v1/chat/completions';
const key = { Authorization: `Bearer ${service.key}` };
const hello = JSON.stringify(chat(scripted({ text: 'Hello' })));

const unfinished: Record<string, string> = {
  'half a body': requestText(CHAT, { ...key, 'Content-Length': String(hello.length + 1) }) + hello,
  'half a body in chunks': `${requestText(CHAT, { ...key, 'Transfer-Encoding': 'chunked' })}5\r\n{"mod`,
  'half its headers': `${CHAT} HTTP/1.1\r\nHost: sluice.test\r\nX-Half: `,
  'half a request line': 'POST /v1/chat',
};

// Concurrently, because each waits for the same timeout.
test('incomplete requests end with their connections', { concurrency: true }, async (group) => {
  for (const [name, bytes] of Object.entries(unfinished)) {
    group.test(`a request with ${name} is refused with 408, and the connection ends`, async () => {
      using wire = await Wire.open(service.url);
      assertError(await wire.send(bytes).response(), 'request_timeout');
      assert.equal(await wire.rest(), '');
    });
  }

  group.test(
    'the connection of a request with a wrong key and half a body is closed after the 401',
    async () => {
      using wire = await Wire.open(service.url);
      wire.send(requestText(CHAT, { Authorization: 'Bearer wrong', 'Content-Length': '1000' }));
      assertError(await wire.response(), 'invalid_api_key');
      assert.equal(await wire.rest(), '');
    },
  );
});

test('a first request that is sent more than bodyMs after its connection was opened is served', async () => {
  using early = await Wire.open(service.url);
  // The 408 of `later` shows that more than bodyMs has passed since `early` was opened.
  using later = await Wire.open(service.url);
  assertError(await later.send(unfinished['half a request line'] ?? '').response(), 'request_timeout');
  const response = await early.send(requestText(CHAT, key, hello)).response();
  assert.equal(response.status, 200);
  assert.equal(response.header('keep-alive'), 'timeout=600');
});

test('an idle connection is closed without a response, whether or not it has served a request', async () => {
  await using strict = await startService(scriptedYaml({}, 'limits: {idleConnectionMs: 1000}\n'));
  using unused = await Wire.open(strict.url);
  using used = await Wire.open(strict.url);
  const own = { Authorization: `Bearer ${strict.key}` };
  assert.equal((await used.send(requestText(CHAT, own, hello)).response()).status, 200);
  assert.equal(await unused.rest(), '');
  assert.equal(await used.rest(), '');
});

test('an incomplete second request on a connection is refused with 408', async () => {
  using wire = await Wire.open(service.url);
  assert.equal((await wire.send(requestText(CHAT, key, hello)).response()).status, 200);
  assertError(await wire.send(unfinished['half a request line'] ?? '').response(), 'request_timeout');
});

test('a request whose rest arrived while the service was suspended is served', async () => {
  const text = requestText(CHAT, key, hello);
  using wire = await sendPart(text.slice(0, -5));
  wire.send(text.slice(-5));
  blockProcess(1000);
  assert.equal((await wire.response()).status, 200);
});

for (const next of ['its response', 'the response to the next request']) {
  test(`a request whose rest arrives while its limits are read for a 408 is not refused, nor is ${next} cut`, async () => {
    const limits = Promise.withResolvers<string[]>();
    const unused = () => ({});
    // A late request needs only these parts of the context.
    const context = {
      inference: {
        accounting: { plans: { of: unused }, limiter: { currentHeaders: () => limits.promise } },
      },
      refusals: { record: unused },
    } as unknown as HttpContext;
    const server = createServer().listen(0, '127.0.0.1');
    try {
      await once(server, 'listening');
      using wire = await Wire.open(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
      const receive = async () => {
        const [request, response] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
        authenticatedRequests.set(request, { requestId: 'r', caller: {} as AuthenticatedKey });
        return { request: request.resume(), response };
      };
      wire.send(requestText(CHAT, { 'Content-Length': '4' }));
      const { request, response } = await receive();
      const refusing = refuseLateRequest(context, request.socket);
      wire.send('rest');
      await once(request, 'end');
      let waiting = response;
      if (next !== 'its response') {
        response.end('first');
        assert.equal((await wire.response()).body, 'first');
        wire.send(requestText('GET /'));
        waiting = (await receive()).response;
      }
      limits.resolve([]);
      await refusing;
      waiting.end('served');
      assert.equal((await wire.response()).body, 'served');
    } finally {
      server.closeAllConnections();
      server.close();
    }
  });
}

/** Sends a part of a request, and returns when the service has read it and most of `bodyMs` is left. */
async function sendPart(text: string): Promise<Wire> {
  for (;;) {
    const wire = await Wire.open(service.url);
    const sentAt = performance.now();
    wire.send(text);
    using later = await Wire.open(service.url);
    assert.equal((await later.send(requestText(CHAT, key, hello)).response()).status, 200);
    if (performance.now() - sentAt < 150) return wire;
    // This machine is busy, and the request may be refused with 408 before its rest arrives.
    wire[Symbol.dispose]();
  }
}

test('the body of a refused request is read up to drainBytes, then the connection is closed', async () => {
  using wire = await Wire.open(service.url);
  wire.send(requestText(CHAT, { Authorization: 'Bearer wrong', 'Content-Length': '1000000000' }));
  assertError(await wire.response(), 'invalid_api_key');
  wire.send(Buffer.alloc(1_000_000));
  assert.equal(await wire.rest(), '');
});

test('a client that disconnects in the middle of a body does not affect others', async () => {
  using wire = await Wire.open(service.url);
  wire.send(unfinished['half a body'] ?? '');
  wire.socket.destroySoon();
  await wire.rest();
  using next = await Wire.open(service.url);
  assert.equal((await next.send(requestText(CHAT, key, hello)).response()).status, 200);
  assert.doesNotMatch(service.log(), /unexpected error/);
});

test('connections above the limit take the place of idle ones, and only health checks work if there are none', async () => {
  await using small = await startService(scriptedYaml({}, 'limits:\n  connections: 2\n'));
  const headers = { Authorization: `Bearer ${small.key}` };
  const endless = JSON.stringify(chat(scripted({ tokens: 3000, tokenMs: 100 }), { stream: true }));
  using idle = await Wire.open(small.url);
  using first = await Wire.open(small.url);
  using second = await Wire.open(small.url);
  assert.equal(await idle.rest(), '');
  for (const wire of [first, second]) {
    assert.equal((await wire.send(requestText(CHAT, headers, endless)).head()).status, 200);
  }
  using spare = await Wire.open(small.url);
  for (const path of ['/healthz', '/readyz?verbose'])
    assert.equal((await spare.send(requestText(`GET ${path}`)).response()).status, 200);
  const refused = await spare.send(requestText(CHAT, headers, hello)).response();
  assertError(refused, 'overloaded');
  assert.equal(refused.header('connection'), 'close');
  assert.equal(await spare.rest(), '');
  first[Symbol.dispose]();
  await until(async () => {
    using next = await Wire.open(small.url);
    return (await next.send(requestText(CHAT, headers, hello)).response()).status === 200;
  });
});
