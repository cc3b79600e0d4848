import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineState } from '../../src/replicas/replica.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { EMPTY_REPORT } from '../../src/replicas/replica-report.ts';
import { SILENT } from '../../src/support/log.ts';
import { Dispatcher } from '../../src/routing/dispatcher.ts';
import { RoutedReplica } from '../../src/routing/replica.ts';
import { REPLICA } from '../replicas/replicas.ts';
import { chat as chatRequest } from '../engine/requests.ts';
import {
  chat,
  MODEL,
  post,
  scriptedYaml,
  startService,
  until,
  untilIdle,
  type TestService,
} from '../harness.ts';
import { Management } from '../management.ts';

/** Models are unloaded as soon as they are not used. They load long enough for a test to see it. */
const YAML = scriptedYaml(
  { loadMs: 1000 },
  `engine: {idleUnloadMs: 1}
stream: {holdMs: 10, keepAliveMs: 20}
plans:
  wide: {}
  few-tokens: {tokensPerDay: 100}
defaultPlan: wide
`,
);

test('an unused model is unloaded, stays listed and ready, and is loaded for the next requests', async () => {
  await using service = await startService(YAML);
  const [replica] = service.service.embeddedReplicas;
  assert.ok(replica);
  const management = await Management.of(service);
  await until(() => replica.state().state === 'idle' && replica.pid === null);
  const models = (await (await fetch(`${service.url}/v1/models`)).json()) as { data: { id: string }[] };
  assert.deepEqual(
    models.data.map(({ id }) => id),
    [MODEL],
  );
  assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  const listed = (await management.call('GET', '/api/models')) as unknown as { data: { state: string }[] };
  assert.deepEqual(
    listed.data.map(({ state }) => state),
    ['idle'],
  );

  const ask = (stream: boolean) => post(service, '/v1/chat/completions', chat('1 2 3', { stream }));
  const answers = [ask(true), ask(false), ask(true)];
  await until(() => replica.waking);
  assert.equal((await fetch(`${service.url}/readyz`)).status, 200);
  for (const response of await Promise.all(answers)) {
    const body = await response.text();
    assert.equal(response.status, 200, body);
    if (body.startsWith('{')) continue;
    assert.ok(body.startsWith(': '), 'the stream begins with a comment');
    assert.ok(body.endsWith('data: [DONE]\n\n'), body);
  }
  await until(() => replica.state().state === 'idle');
  assert.equal(service.log().match(/loading an idle model for a request/g)?.length, 1);

  // The prompt must be counted first.
  const { key } = await management.caller('few-tokens');
  const limited = await post({ ...service, key }, '/v1/chat/completions', chat('1 2 3', { max_tokens: 5 }));
  assert.equal(limited.status, 200, await limited.text());
});

test('a caller that disconnects while an idle model is being loaded leaves nothing behind', async () => {
  await using service = await startService(YAML);
  const [replica] = service.service.embeddedReplicas;
  await until(() => replica?.state().state === 'idle');
  const stop = new AbortController();
  const request = fetch(`${service.url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${service.key}` },
    body: JSON.stringify(chat('1 2 3')),
    signal: stop.signal,
  });
  await until(() => service.service.router.overview()[0]?.waiting === 1);
  stop.abort();
  await assert.rejects(request, { name: 'AbortError' });
  await until(() => service.service.router.overview()[0]?.waiting === 0);
  await until(() => timesReady(service) === 2);
  await untilIdle(service);
});

test('an operator can unload an idle model, which is then not loaded for requests', async () => {
  await using service = await startService(YAML);
  const [replica] = service.service.embeddedReplicas;
  const management = await Management.of(service);
  await until(() => replica?.state().state === 'idle');
  await management.call('POST', '/api/models/unload', { model: MODEL });
  assert.equal(replica?.state().state, 'unloaded');
  assert.equal((await post(service, '/v1/chat/completions', chat('1 2 3'))).status, 503);
  await management.call('POST', '/api/models/load', { model: MODEL });
  await until(() => timesReady(service) === 2);
});

/** Returns how often the engine was ready. Its state may be idle again before a test sees that it was ready. */
function timesReady(service: TestService): number {
  return service.log().match(/"engine ready"/g)?.length ?? 0;
}

/** A dispatcher for one idle replica, whose loading the test controls. */
function idleBed(maxWaitMs = 600_000) {
  const client = new HttpReplicaClient({ ...REPLICA, name: 'a' });
  const bed = { state: { state: 'idle' } as EngineState, wakes: 0 };
  const clock = { now: () => 60_000, random: () => 0 };
  const replica = new RoutedReplica(
    {
      client,
      state: () => bed.state,
      capacity: () => null,
      report: () => EMPTY_REPORT,
      maxInFlight: 8,
      get wakesUp() {
        return bed.state.state === 'idle' || bed.state.state === 'down';
      },
      get waking() {
        return bed.state.state === 'loading';
      },
      wake() {
        bed.wakes += 1;
        bed.state = { state: 'loading', fraction: 0 };
      },
    },
    SILENT,
    clock,
  );
  const dispatcher = new Dispatcher([replica], { policy: 'cost', maxWaitMs, clock });
  const acquire = () =>
    dispatcher.acquire({
      request: { ...chatRequest(), cacheScope: null },
      accountId: 'x',
      weight: 1,
      failures: new Map(),
      isRetry: false,
      charged: 0,
      waitedMs: 0,
      signal: new AbortController().signal,
    });
  return { bed, dispatcher, replica, acquire, [Symbol.asyncDispose]: () => client[Symbol.asyncDispose]() };
}

test('requests for an idle model wait until it is ready, and load it once', async () => {
  await using idle = idleBed();
  const { bed, dispatcher, acquire } = idle;
  const waiting = [acquire(), acquire(), acquire()];
  assert.deepEqual([bed.wakes, dispatcher.waiting], [1, 3]);
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 3);
  bed.state = { state: 'ready' };
  dispatcher.tick();
  for (const lease of waiting) (await lease).release('succeeded');
});

test('requests for an idle model that cannot be loaded are refused, and the next one tries again', async () => {
  await using idle = idleBed();
  const { bed, dispatcher, acquire } = idle;
  const first = acquire();
  bed.state = { state: 'down', reason: 'no memory', retryInMs: null };
  dispatcher.tick();
  await assert.rejects(async () => await first, { code: 'engine_unavailable' });
  const second = acquire();
  assert.equal(bed.wakes, 2);
  bed.state = { state: 'ready' };
  dispatcher.tick();
  (await second).release('succeeded');
});

test('a request for an idle model is refused after the maximum wait, with the reason', async () => {
  await using idle = idleBed(1);
  await assert.rejects(async () => await idle.acquire(), {
    code: 'engine_unavailable',
    message: /waited 1 s for this model to be loaded/,
  });
});

test('a drained replica is not loaded for requests', async () => {
  await using idle = idleBed();
  idle.replica.drained = true;
  assert.throws(() => idle.acquire(), { code: 'engine_unavailable' });
  assert.equal(idle.bed.wakes, 0);
});
