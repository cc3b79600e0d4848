/**
 * The service calls nobody whom its operator has not named, whatever callers and replicas tell it (GHSA-9f46-w24h-69w4:
 * a gateway fetched an address out of a request, and followed a redirect past the check of that address).
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, test } from 'node:test';
import { MODEL, openService, post, ready, scriptedYaml, startService, type TestService } from '../harness.ts';

/** A server inside, as a caller would like to reach it; every request that gets there is noted. */
let inside: Server;
const reached: string[] = [];
let trap: string;
before(async () => {
  inside = createServer((request, response) => {
    reached.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.end('{}');
  });
  trap = await listening(inside);
});
after(() => inside.close());

test('no address in a request is fetched', async () => {
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
      const answer = await post(service, '/v1/chat/completions', {
        model: MODEL,
        messages: [{ role: 'user', content }],
        ...more,
      });
      await answer.text();
    }
  }
  for (const model of [trap, `${trap}/v1#x`, `hf:${trap}`, `scripted:{}`, `../${MODEL}`]) {
    const answer = await post(service, '/v1/chat/completions', {
      model,
      messages: [{ role: 'user', content: 'hi' }],
    });
    assert.equal(answer.status, 404);
    await answer.text();
  }
  assert.deepEqual(reached, []);
});

test('a replica that redirects is not followed, and its key goes nowhere else', async () => {
  for (const status of [301, 302, 303, 307, 308]) {
    const redirecting = createServer((request, response) => {
      if (request.method === 'GET')
        response.end(JSON.stringify({ data: [{ id: MODEL, max_model_len: 4096 }] }));
      else response.writeHead(status, { location: `${trap}${request.url}` }).end();
    });
    const url = await listening(redirecting);
    const replica = { url, dialect: 'vllm', apiKeyEnv: 'REPLICA_KEY' };
    const yaml = JSON.stringify({ models: [{ id: MODEL, contextTokens: 4096, replicas: [replica] }] });
    {
      await using service = await openService(yaml, { REPLICA_KEY: 'replica-secret' });
      const { key } = await service.service.keys.create({ name: 'test' });
      const test: TestService = { ...service, key: key.reveal() };
      await ready(service.service);
      const answer = await post(test, '/v1/chat/completions', {
        model: MODEL,
        messages: [{ role: 'user', content: 'hi' }],
      });
      assert.ok(answer.status >= 500, `${status}: ${answer.status}`);
      assert.equal(answer.headers.get('location'), null);
      assert.doesNotMatch(await answer.text(), new RegExp(trap));
    }
    redirecting.closeAllConnections();
    redirecting.close();
  }
  assert.deepEqual(reached, []);
});

async function listening(server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  // A server that listens on TCP has an address of this type.
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
