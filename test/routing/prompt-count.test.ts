import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineState, ReplicaClient } from '../../src/replicas/replica.ts';
import { EMPTY_REPORT } from '../../src/replicas/replica-report.ts';
import type { Dialect } from '../../src/core/generation.ts';
import { promptTokenBounds } from '../../src/core/prompt-bound.ts';
import { SILENT } from '../../src/support/log.ts';
import type { ReplicaEntry } from '../../src/routing/replica.ts';
import { Router } from '../../src/routing/router.ts';
import type { ServedModel } from '../../src/routing/served-model.ts';
import { HttpReplica, openScripted } from '../replicas/replicas.ts';
import { chat, MODEL, NEVER_ABORTED } from '../engine/requests.ts';

const REQUEST = chat({}, { messages: [{ role: 'user', content: 'Wie geht’s?' }] });
const ESTIMATE = { tokens: promptTokenBounds(REQUEST)[0], exact: false, late: false };

/** A ready replica unless `more` has another state. */
function entryOf(client: ReplicaClient, more: Partial<ReplicaEntry> = {}): ReplicaEntry {
  const state = (): EngineState => ({ state: 'ready' });
  return { client, state, capacity: () => null, report: () => EMPTY_REPORT, ...more };
}

/** A clock that tests set. */
const clock = { ms: 0, now: () => clock.ms, random: () => 0 };

function modelOf(...replicas: ReplicaEntry[]): ServedModel {
  const router = new Router({
    routing: { policy: 'least-requests' },
    queue: { maxRequests: 4, maxWaitMs: 1000 },
    retry: { share: 0.2, minPerMinute: 2 },
    log: SILENT,
    clock,
  });
  return router.serve(
    {
      id: MODEL,
      required: false,
      price: { prompt: 1, completion: 2, inputCacheRead: null },
      card: () => null,
    },
    replicas,
  );
}

/** A server that tokenizes any request as three tokens. */
const counting = (dialect: Dialect = 'vllm') =>
  HttpReplica.listen((response) => response.end('{"tokens":[1,2,3]}'), { dialect });

/** A server without the endpoint. */
const failing = () => HttpReplica.listen((response) => response.writeHead(500).end('{}'));

test('a replica counts the texts around images, and the estimate for the images is added', async () => {
  await using replica = await counting();
  const image = { at: 2, url: 'data:', detail: null, digest: 'png', file: null, path: '' };
  const messages = [{ role: 'user', content: 'a\nb', images: [image, image] }] as const;
  const request = chat({}, { messages, imageTokens: 100 });
  const counted = await modelOf(entryOf(replica.client)).countPromptTokens(request, NEVER_ABORTED);
  assert.deepEqual(counted, { tokens: 203, exact: false, late: false });
  assert.deepEqual(replica.bodies[0]?.['messages'], [{ role: 'user', content: 'a\n[image][image]b' }]);
});

test('a replica that is ready counts the tokens', async () => {
  await using replica = await counting();
  const model = modelOf(
    entryOf(replica.client, { state: () => ({ state: 'loading', fraction: 0 }) }),
    entryOf(replica.client),
  );
  assert.deepEqual(await model.countPromptTokens(REQUEST, NEVER_ABORTED), {
    tokens: 3,
    exact: true,
    late: false,
  });
  assert.equal(replica.bodies.length, 1);
});

test('another replica counts them after a failure, and instead of one that cannot', async () => {
  await using good = await counting();
  await using bad = await failing();
  await using provider = await counting('openai');
  const model = modelOf(entryOf(bad.client), entryOf(provider.client), entryOf(good.client));
  assert.deepEqual(await model.countPromptTokens(REQUEST, NEVER_ABORTED), {
    tokens: 3,
    exact: true,
    late: false,
  });
  assert.deepEqual([bad.bodies.length, provider.connections], [1, 0]);
});

test('the upper bound is returned after two failures, and if no replica can count', async () => {
  await using bad = await failing();
  await using good = await counting();
  await using provider = await counting('openai');
  const failed = modelOf(entryOf(bad.client), entryOf(bad.client), entryOf(good.client));
  assert.deepEqual(await failed.countPromptTokens(REQUEST, NEVER_ABORTED), ESTIMATE);
  assert.deepEqual([bad.bodies.length, good.connections], [2, 0]);
  assert.deepEqual(
    await modelOf(entryOf(provider.client)).countPromptTokens(REQUEST, NEVER_ABORTED),
    ESTIMATE,
  );
});

test('a count does not keep a model loaded', async () => {
  await using replica = await counting();
  const model = modelOf(entryOf(replica.client));
  clock.ms += 1000;
  await model.countPromptTokens(REQUEST, NEVER_ABORTED);
  assert.equal(model.idleMs(), 1000);
});

test('a model is in use while requests wait for it, for example during a pause of its replica', async () => {
  await using replica = await counting();
  const model = modelOf(entryOf(replica.client));
  const waiting = model.enter('account', new AbortController());
  clock.ms += 1000;
  assert.equal(model.idleMs(), 0);
  waiting.leave();
  clock.ms += 1000;
  assert.equal(model.idleMs(), 1000);
});

test('an idle model is not loaded for a count', async () => {
  await using replica = await counting();
  let woken = 0;
  const idle = entryOf(replica.client, {
    state: () => ({ state: 'idle' }),
    wakesUp: true,
    wake: () => void woken++,
  });
  assert.deepEqual(await modelOf(idle).countPromptTokens(REQUEST, NEVER_ABORTED), {
    ...ESTIMATE,
    late: true,
  });
  assert.deepEqual([woken, replica.connections], [0, 0]);
});

test('the upper bound is returned for a prompt that is too long for the context', async () => {
  await using client = await openScripted({ contextTokens: 3 });
  await using other = await counting();
  const model = modelOf(entryOf(client), entryOf(other.client));
  assert.deepEqual(await model.countPromptTokens(REQUEST, NEVER_ABORTED), ESTIMATE);
  assert.equal(other.connections, 0);
});

test('the error of an engine that refuses the prompts is thrown', async () => {
  await using client = await openScripted();
  const invalid = { ...REQUEST, choices: 5 };
  await assert.rejects(modelOf(entryOf(client)).countPromptTokens(invalid, NEVER_ABORTED), {
    code: 'invalid_value',
    status: 400,
  });
});

test('the upper bound is returned if the replicas do not respond in time', async (t) => {
  const received = Promise.withResolvers<void>();
  await using silent = await HttpReplica.listen(() => received.resolve());
  await using other = await counting();
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const model = modelOf(entryOf(silent.client), entryOf(other.client));
  const counted = model.countPromptTokens(REQUEST, NEVER_ABORTED);
  await received.promise;
  t.mock.timers.tick(5000);
  assert.deepEqual(await counted, { ...ESTIMATE, late: true });
  assert.equal(other.connections, 0);
});

test('a caller that disconnects ends the count, without another attempt', async () => {
  const disconnect = new AbortController();
  const reason = new Error('the client disconnected');
  await using silent = await HttpReplica.listen(() => disconnect.abort(reason));
  await using other = await counting();
  const model = modelOf(entryOf(silent.client), entryOf(other.client));
  await assert.rejects(model.countPromptTokens(REQUEST, disconnect.signal), reason);
  await silent.closed();
  assert.equal(other.connections, 0);
  await assert.rejects(model.countPromptTokens(REQUEST, disconnect.signal), reason);
});
