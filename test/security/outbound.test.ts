/**
 * The service only connects to configured servers (GHSA-9f46-w24h-69w4: a gateway fetched a URL from a request, and
 * followed a redirect past the check of that URL).
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { MODEL, openService, post, ready, scriptedYaml, startService, type TestService } from '../harness.ts';

/** An internal server that callers must not reach. */
let internal: Server;
const reached: string[] = [];
let trap: string;
before(async () => {
  internal = createServer((request, response) => {
    reached.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.end('{}');
  });
  trap = await listening(internal);
});
after(() => internal.close());

test('URLs in requests are not fetched', async () => {
  await using service = await startService(scriptedYaml());
  const image = { type: 'image_url', image_url: { url: `${trap}/image` } };
  const contents = [
    [image],
    [{ type: 'text', text: `![](${trap}/markdown)` }, image],
    [{ type: 'file', file: { file_data: `${trap}/file` } }],
    [{ type: 'input_audio', input_audio: { data: `${trap}/audio`, format: 'wav' } }],
    `${trap}/text`,
  ];
  const fields = [
    {},
    {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', schema: { $ref: `${trap}/schema` } },
      },
    },
    { base_url: trap, api_base: trap, callback: trap, webhook: trap },
    { user: trap, metadata: { url: trap } },
  ];
  for (const content of contents) {
    for (const more of fields) {
      const response = await post(service, '/v1/chat/completions', {
        model: MODEL,
        messages: [{ role: 'user', content }],
        ...more,
      });
      await response.text();
    }
  }
  for (const model of [trap, `${trap}/v1#x`, `hf:${trap}`, `scripted:{}`, `../${MODEL}`]) {
    const response = await post(service, '/v1/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'hi' }],
    });
    assert.equal(response.status, 404);
    await response.text();
  }
  assert.deepEqual(reached, []);
});

test('redirects of a replica are not followed, and its key is not sent elsewhere', async () => {
  for (const [status, dialect] of [
    [301, 'vllm'],
    [302, 'openai'],
    [303, 'vllm'],
    [307, 'openai'],
    [308, 'vllm'],
  ] as const) {
    const redirecting = createServer((request, response) => {
      if (request.method === 'GET')
        response.end(JSON.stringify({ data: [{ id: MODEL, max_model_len: 4096 }] }));
      else response.writeHead(status, { location: `${trap}${request.url}` }).end();
    });
    const url = await listening(redirecting);
    const replica = { url, dialect, apiKeyEnv: 'REPLICA_KEY' };
    const yaml = JSON.stringify({ models: [{ id: MODEL, contextTokens: 4096, replicas: [replica] }] });
    {
      await using service = await openService(yaml, { REPLICA_KEY: 'replica-secret' });
      const { key } = await service.service.keys.create({ name: 'test' });
      const test: TestService = { ...service, key: key.reveal() };
      await ready(service.service);
      const response = await post(test, '/v1/chat/completions', {
        model: MODEL,
        messages: [{ role: 'user', content: 'hi' }],
      });
      assert.ok(response.status >= 500, `${status}: ${response.status}`);
      assert.equal(response.headers.get('location'), null);
      assert.doesNotMatch(await response.text(), new RegExp(trap));
    }
    redirecting.closeAllConnections();
    redirecting.close();
  }
  assert.deepEqual(reached, []);
});

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // TCP servers have an address of this type.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
