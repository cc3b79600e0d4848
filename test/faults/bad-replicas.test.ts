import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { after, test } from 'node:test';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { SILENT } from '../../src/support/log.ts';
import { HttpReplica } from '../replicas/replicas.ts';
import { assertError } from '../http/wire.ts';
import { chat, MODEL, post, startService, until } from '../harness.ts';

const healthy = await serve({ slots: 32, tokenMs: 1 });
after(() => healthy.close());
const slow = await serve({ slots: 32, tokenMs: 10 });
after(() => slow.close());

/** Starts an engine that the service uses as a replica. */
function serve(options: ConstructorParameters<typeof ScriptedEngine>[0]) {
  return serveEngine(
    new ScriptedEngine({ queue: 1000, ...options }),
    { host: '127.0.0.1', port: 0 },
    { maxChoices: 64, modelId: MODEL, log: SILENT },
  );
}

/** Starts a server that is healthy, but responds to generations with `respond`. */
async function misbehaving(respond: Parameters<typeof HttpReplica.listen>[0]): Promise<HttpReplica> {
  const replica = await HttpReplica.listen((response, request, body) => {
    if (request.method === 'POST') return respond(response, request, body);
    return response.end('{"data":[]}');
  });
  after(() => replica[Symbol.asyncDispose]());
  return replica;
}

const hanging = await misbehaving(() => {});
const garbage = await misbehaving((response) => response.end('data: {{{\n\n<html>'));
const cut = await misbehaving((response) => {
  response.writeHead(200).write('data: {"choices":[{"index":0,"delta":');
  response.socket?.destroy();
});

/** Accepts connections and never responds, not even to health checks. */
const blackHole = createServer(() => {}).listen(0, '127.0.0.1');
await once(blackHole, 'listening');
after(() => blackHole.close());

const urls = [
  [healthy.address, 'sluice'],
  [slow.address, 'sluice'],
  [hanging.url, 'vllm'],
  [garbage.url, 'vllm'],
  [cut.url, 'vllm'],
  [`http://127.0.0.1:${(blackHole.address() as AddressInfo).port}`, 'vllm'],
];
const service = await startService(`
models:
  - id: ${MODEL}
    contextTokens: 4096
    replicas: [${urls.map(([url, dialect]) => `{url: '${url}', dialect: ${dialect}}`).join(', ')}]
engine: {firstByteMs: 3000}
`);
after(() => service[Symbol.asyncDispose]());

const TEXT = 'the same text as from an unbroken replica';

/** Returns whether the request succeeded. Fails if it succeeded with the wrong text. */
async function ask(): Promise<boolean> {
  const response = await post(
    service,
    '/v1/chat/completions',
    chat(scripted({ text: TEXT }), { stream: true }),
  );
  const body = await response.text();
  if (response.status !== 200 || body.includes('"error"')) return false;
  const deltas = [...body.matchAll(/"content":"([^"]*)"/g)].map(([, text]) => text);
  assert.equal(deltas.join(''), TEXT);
  return true;
}

/** Sends `count` requests, 16 at a time. Returns how many succeeded. */
async function askMany(count: number): Promise<number> {
  let left = count;
  let succeeded = 0;
  const caller = async () => {
    while (left-- > 0) if (await ask()) succeeded++;
  };
  await Promise.all(Array.from({ length: 16 }, caller));
  return succeeded;
}

test('at least 99% of requests succeed if some replicas hang, send invalid or incomplete responses, are slow or down', async () => {
  await askMany(100);
  await until(() => {
    const replicas = service.service.router.overview()[0]?.replicas ?? [];
    const working = replicas.filter(({ state }) => state.state === 'ready');
    return working.every(({ dialect }) => dialect === 'sluice');
  });
  const succeeded = await askMany(600);
  assert.ok(succeeded >= 594, `${succeeded} of 600 requests succeeded`);
});

test('a non-streaming response that takes longer than engine.responseMs is 504, and clients do not retry it', async () => {
  await using impatient = await startService(`
models:
  - id: ${MODEL}
    contextTokens: 4096
    replicas: [{url: '${hanging.url}', dialect: vllm}]
engine: {responseMs: 1000}
`);
  const response = await post(impatient, '/v1/chat/completions', chat('hi'));
  assertError({ status: response.status, body: await response.text() }, 'response_timeout');
  assert.equal(response.headers.get('x-should-retry'), 'false');
  const [model] = impatient.service.router.overview();
  assert.deepEqual(
    model?.replicas.map(({ pauses }) => pauses),
    [0],
  );
});
