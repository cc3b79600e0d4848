import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { injectFaults } from '../support/scripted-engine/fault-injection.ts';
import { serveEngine, type EngineServer } from '../../src/engine/server.ts';
import { SILENT } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';
import { assertError } from '../http/wire.ts';
import { chat, MODEL, post, requestLog, startService, until } from '../harness.ts';

const REPLICA_KEY = 'replica-key';

/** A replica on its own server, which requires a key and counts what it generates. */
async function serveReplica(port = 0): Promise<{ server: EngineServer; generated: number }> {
  const engine = new ScriptedEngine();
  const replica = {
    generated: 0,
    server: await serveEngine(
      engine,
      { host: '127.0.0.1', port, apiKey: new Secret(REPLICA_KEY) },
      {
        maxChoices: 16,
        modelId: 'its-own-name',
        log: SILENT,
        beforeResponse: (request, response) => {
          replica.generated++;
          injectFaults(request, response);
        },
      },
    ),
  };
  return replica;
}

const first = await serveReplica();
let second = await serveReplica();
after(() => first.server.close());
after(() => second.server.close());

const entry = ({ server }: typeof first) =>
  `      - {url: "${server.address}", dialect: sluice, model: its-own-name, apiKeyEnv: TEST_REPLICA_KEY}\n`;
const service = await startService(
  `models:\n  - id: ${MODEL}\n    replicas:\n${entry(first)}${entry(second)}`,
  { TEST_REPLICA_KEY: REPLICA_KEY },
);
after(() => service[Symbol.asyncDispose]());
const states = () => service.service.router.overview()[0]?.replicas.map(({ state }) => state.state);
await until(() => states()?.every((state) => state === 'ready') ?? false);

const ask = (directive: Directive, stream = false) =>
  post(service, '/v1/chat/completions', chat(scripted(directive), { stream }));

test('requests are distributed evenly, and responses have the requested model name', async () => {
  const responses = await Promise.all(Array.from({ length: 8 }, () => ask({ tokenMs: 20 })));
  for (const response of responses) {
    assert.equal(response.status, 200);
    assert.equal(((await response.json()) as { model: string }).model, MODEL);
  }
  assert.deepEqual([first.generated, second.generated], [4, 4]);
});

test('a replica whose server is down is skipped, before and after its failure is detected', async () => {
  await second.server.close();
  const before = first.generated;
  // Both still count as ready, so every other request first gets a refused connection.
  for (let turn = 0; turn < 4; turn++) {
    for (const stream of [true, false]) {
      const response = await ask({ text: 'fine' }, stream);
      assert.equal(response.status, 200);
      assert.match(await response.text(), /"content":"fine"/);
    }
  }
  assert.equal(first.generated - before, 8);
  assert.ok(
    requestLog(service)
      .slice(-8)
      .every(({ replica }) => replica === `${MODEL}#0`),
  );
  await until(() => states()?.[1] === 'down');
  assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
});

test('a replica that is available again gets requests', async () => {
  const { port } = second.server;
  assert.ok(port !== null);
  second = await serveReplica(port);
  // Paused after the refused connections; the next request is its trial.
  await until(() => states()?.[1] !== 'down');
  await until(async () => {
    await (await ask({})).text();
    return states()?.[1] === 'ready';
  });
  second.generated = 0;
  await Promise.all(Array.from({ length: 4 }, async () => (await ask({ tokenMs: 20 })).text()));
  assert.ok(second.generated === 1 || second.generated === 2, 'fewer in its first seconds');
});

test('a 500 is retried at the other replica, and a stream that breaks three times ends with an error event', async () => {
  const before = first.generated + second.generated;
  const whole = await ask({ status: 500, body: '{"error":{"message":"its own words"}}' });
  const body = await whole.text();
  assertError({ status: whole.status, body }, 'internal_error');
  assert.doesNotMatch(body, /its own words/);
  const broken = await (await ask({ tokens: 9, cutAfter: 3 }, true)).text();
  assert.match(broken, /"code":"engine_unavailable"\},"usage":.*\n\ndata: \[DONE\]\n\n$/);
  assert.equal(first.generated + second.generated - before, 2 + 3);
});

test('replicas that keep failing are shown as paused, and one that responds is used again', async () => {
  for (let turn = 0; turn < 5; turn++) assert.equal((await ask({ status: 500, body: '{}' })).status, 500);
  assert.deepEqual(states(), ['paused', 'paused']);
  assert.equal((await fetch(`${service.url}/readyz`)).status, 200, 'they still get requests');
  const { key } = await service.service.keys.create({ name: 'operator', kind: 'admin' });
  const headers = { authorization: `Bearer ${key.reveal()}` };
  const engines = (await (await fetch(`${service.url}/api/engines`, { headers })).json()) as {
    data: { state: string; reason: string }[];
  };
  for (const { state, reason } of engines.data) {
    assert.equal(state, 'paused');
    assert.match(reason, /^\d+ consecutive failures; last: the replica responded with status 500/);
  }
  assert.equal((await ask({ text: 'fine' })).status, 200);
  assert.ok(states()?.includes('ready'));
  assert.match(service.log(), /replica paused/);
  assert.match(service.log(), /replica responds again/);
});

test('without replicas, requests get 503 with a retry-after, and the service is not ready', async () => {
  await Promise.all([first.server.close(), second.server.close()]);
  const response = await ask({});
  const body = await response.text();
  assertError({ status: response.status, body }, 'engine_unavailable');
  assert.equal(response.headers.get('retry-after'), '1');
  assert.doesNotMatch(body, /127\.0\.0\.1/);
  await until(async () => (await fetch(`${service.url}/readyz`)).status === 503);
});
