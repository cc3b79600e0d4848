import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { EMPTY_REPORT } from '../../src/replicas/replica-report.ts';
import { ReplicaRefused, type ReplicaClient, type EngineState } from '../../src/replicas/replica.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { SILENT } from '../../src/support/log.ts';
import type { BacklogEntry } from '../../src/routing/backlog.ts';
import { Permit } from '../../src/routing/permit.ts';
import { Router } from '../../src/routing/router.ts';
import type { RoutingOptions, ServedModel } from '../../src/routing/served-model.ts';
import { REPLICA } from '../replicas/replicas.ts';
import { chat, NEVER_ABORTED } from '../engine/requests.ts';

const ID = 'test/model';
const READY: EngineState = { state: 'ready' };

/** Clients that are never called: a router only counts requests. */
const clients: ReplicaClient[] = ['a', 'b', 'c', 'd'].map(
  (name) => new HttpReplicaClient({ ...REPLICA, name }),
);
after(() => Promise.all(clients.map((client) => client[Symbol.asyncDispose]())));

/** A clock that tests set; pauses have their full length. */
const clock = { ms: 0, now: () => clock.ms, random: () => 0 };

const OPTIONS: RoutingOptions = {
  routing: { policy: 'least-requests' },
  queue: { maxRequests: 4, maxWaitMs: 1000 },
  retry: { share: 0.2, minPerMinute: 2 },
  log: SILENT,
  clock,
};

/** Returns a model whose replicas have these states, and room for these numbers of choices (unlimited by default). */
function modelOf(
  states: readonly EngineState[],
  maxInFlight: readonly (number | undefined)[] = [],
): ServedModel {
  const router = new Router(OPTIONS);
  router.serve(
    { id: ID, required: false, price: { prompt: 1, completion: 2, inputCacheRead: null }, card: () => null },
    states.map((state, index) => ({
      client: clientAt(index),
      state: () => state,
      capacity: () => null,
      report: () => EMPTY_REPORT,
      maxInFlight: maxInFlight[index],
    })),
  );
  return router.model(ID);
}

function clientAt(index: number): ReplicaClient {
  const client = clients[index];
  assert.ok(client);
  return client;
}

/** Acquires a replica that has room. */
function acquire(
  model: ServedModel,
  failed: readonly (readonly [ReplicaClient, ServiceError])[] = [],
): Permit {
  const permit = model.acquire({
    request: chat(),
    accountId: 'account',
    weight: 1,
    failures: new Map(failed),
    isRetry: failed.length > 0,
    charged: 0,
    waitedMs: 0,
    signal: NEVER_ABORTED,
  });
  assert.ok(permit instanceof Permit);
  return permit;
}

const enter = (model: ServedModel) => model.enter('account', new AbortController());

const inFlight = (model: ServedModel) => model.overview().replicas.map((replica) => replica.inFlight);

function fault(run: () => unknown): ServiceError {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    return error;
  }
  throw new assert.AssertionError({ message: 'it was not refused' });
}

test('idle replicas take turns', () => {
  const model = modelOf([READY, READY, READY]);
  const names = Array.from({ length: 6 }, () => {
    const permit = acquire(model);
    permit.release('succeeded');
    return permit.client.name;
  });
  assert.deepEqual(names, ['a', 'b', 'c', 'a', 'b', 'c']);
});

test('a slower replica gets fewer requests', () => {
  const model = modelOf([READY, READY]);
  acquire(model);
  const quick = Array.from({ length: 5 }, () => {
    const permit = acquire(model);
    permit.release('succeeded');
    return permit.client.name;
  });
  assert.deepEqual(quick, ['b', 'b', 'b', 'b', 'b']);
});

test('the counts equal the running requests, and the selected replica has the lowest count', () => {
  const command = fc.oneof(
    fc.constant('enter' as const),
    fc.constant('acquire' as const),
    fc.nat(20).map((index) => ({ leave: index })),
    fc.nat(20).map((index) => ({ release: index })),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const model = modelOf([READY, READY, READY], [10, 10, 10]);
      const entries: BacklogEntry[] = [];
      const permits: Permit[] = [];
      const left = new Set<BacklogEntry>();
      const released = new Set<Permit>();
      const runningCounts = () =>
        clients
          .slice(0, 3)
          .map(
            (client) => permits.filter((permit) => permit.client === client && !released.has(permit)).length,
          );
      for (const step of commands) {
        if (step === 'enter') {
          const running = permits.length - released.size;
          if (entries.length - left.size < 4 + Math.max(0, 30 - running)) entries.push(enter(model));
          else assert.equal(fault(() => enter(model)).code, 'queue_full');
        } else if (step === 'acquire') {
          if (permits.length - released.size === 30) continue;
          const least = Math.min(...runningCounts());
          const permit = acquire(model);
          assert.equal(runningCounts()[clients.indexOf(permit.client)], least);
          permits.push(permit);
        } else if ('leave' in step) {
          // Leaving twice has no effect.
          const entry = entries[step.leave];
          entry?.leave();
          if (entry) left.add(entry);
        } else {
          const permit = permits[step.release];
          permit?.release('succeeded');
          if (permit) released.add(permit);
        }
        assert.deepEqual(inFlight(model), runningCounts());
        assert.equal(model.overview().waiting, 0);
      }
    }),
  );
});

test('a request that would exceed the queue is queue_full with a retry-after, until a waiting request leaves', () => {
  const model = modelOf([READY], [1]);
  const entries = Array.from({ length: 5 }, () => enter(model));
  const refused = fault(() => enter(model));
  assert.deepEqual([refused.code, refused.status, refused.retryAfterMs], ['queue_full', 503, 1000]);
  assert.equal(refused.message, 'The queue of this model is full: 4 requests are waiting. Try again later.');
  acquire(model);
  entries[0]?.leave();
  entries[0]?.leave();
  assert.equal(fault(() => enter(model)).code, 'queue_full', 'the place of the sent request is not free');
  entries[1]?.leave();
  enter(model);
});

test('only ready replicas that have not refused the request are selected', () => {
  const down: EngineState = { state: 'down', reason: 'gone', retryInMs: null };
  const model = modelOf([down, READY, { state: 'loading', fraction: 0.5 }, READY]);
  assert.equal(acquire(model).client.name, 'b');
  assert.equal(acquire(model).client.name, 'd');
  const busy = new ReplicaRefused(new Error('busy'), { retryAfterMs: 7000 });
  assert.equal(acquire(model, [[clientAt(1), busy]]).client.name, 'd');
  const refused = fault(() =>
    acquire(model, [
      [clientAt(1), busy],
      [clientAt(3), busy],
    ]),
  );
  assert.equal(refused, busy, 'the last refusal is the answer');
});

test('without a ready replica, retry-after is the time until the first may be ready', () => {
  const down = (retryInMs: number | null): EngineState => ({ state: 'down', reason: 'secret', retryInMs });
  for (const [states, waitMs] of [
    [[{ state: 'downloading', pull: null }], 10_000],
    [[{ state: 'loading', fraction: 0 }], 1000],
    [[down(200)], 1000],
    [[down(5000)], 5000],
    [[down(1e9)], 60_000],
    [[down(null)], 60_000],
    [[down(null), down(5000), { state: 'downloading', pull: null }], 5000],
  ] as const) {
    const refused = fault(() => acquire(modelOf(states)));
    assert.deepEqual([refused.code, refused.retryAfterMs], ['engine_unavailable', waitMs]);
    assert.doesNotMatch(refused.message, /secret/);
  }
});

test('engines forget the prompts of a closed account, also while they are drained', (t) => {
  const states: EngineState[] = [READY, READY, { state: 'loading', fraction: 0 }];
  const model = modelOf(states);
  model.setDrained((server) => server === 'a');
  const asked = clients.map((client) => t.mock.method(client, 'forget', () => Promise.resolve()));
  model.forget('closed');
  assert.deepEqual(
    asked.map(({ mock }) => mock.callCount()),
    [1, 1, 0, 0],
  );
});

/** Returns a router that serves these models. */
function routerOf(ids: readonly string[]): Router {
  const router = new Router(OPTIONS);
  for (const id of ids) {
    router.serve(
      { id, required: false, price: { prompt: 1, completion: 2, inputCacheRead: null }, card: () => null },
      [{ client: clientAt(0), state: () => READY, capacity: () => null, report: () => EMPTY_REPORT }],
    );
  }
  return router;
}

test('an unknown model is model_not_found, and the message lists the models, the nearest name first', () => {
  const router = routerOf(['acme/large', 'acme/small', 'other/tiny']);
  const refused = fault(() => router.model('gpt-4o'));
  assert.deepEqual([refused.code, refused.param], ['model_not_found', 'model']);
  assert.equal(
    refused.message,
    'The model `gpt-4o` does not exist. Available models: `acme/large`, `acme/small`, `other/tiny`.',
  );
  assert.equal(
    fault(() => router.model('acme/tinny')).message,
    'The model `acme/tinny` does not exist. Did you mean `other/tiny`? Other models: `acme/large`, `acme/small`.',
  );
  assert.equal(
    fault(() => routerOf(['acme/small']).model('acme/smal')).message,
    'The model `acme/smal` does not exist. Did you mean `acme/small`?',
  );
});

test('a model is found by what follows the slash, if the caller may use only one such model', () => {
  const router = routerOf(['acme/large', 'acme/small', 'other/Small']);
  assert.equal(router.model('Large').id, 'acme/large');
  assert.equal(router.model('small', new Set(['acme/small'])).id, 'acme/small');
  assert.equal(fault(() => router.model('small')).code, 'model_not_found');
  assert.equal(fault(() => router.model('large', new Set(['acme/small']))).code, 'model_not_found');
});

test('the message about an unknown model lists only models that the caller may use', () => {
  const router = routerOf(['acme/large', 'acme/small']);
  assert.equal(
    fault(() => router.model('acme/smal', new Set(['acme/large', 'acme/removed']))).message,
    'The model `acme/smal` does not exist. Available models: `acme/large`.',
  );
  assert.equal(
    fault(() => router.model('acme/smal', new Set())).message,
    'The model `acme/smal` does not exist. No models are available to you.',
  );
});

test('the message about an unknown model is bounded', () => {
  const ids = Array.from({ length: 40 }, (_, index) => `acme/${'long'.repeat(48)}${index}`);
  const { message } = fault(() => routerOf(ids).model('x'.repeat(10_000)));
  assert.match(message, /, and 35 more \(see `GET \/v1\/models`\)\.$/);
  assert.ok(message.length < 1500, message);
});

const BROKEN = new ServiceError('internal_error', 'The engine failed to answer the request.');

/** Fails the next request on its replica. */
function fail(model: ServedModel): string {
  const permit = acquire(model);
  permit.release('failed', BROKEN);
  return permit.client.name;
}

/** A model with two replicas; `a` was just paused. */
function withPaused(): ServedModel {
  const model = modelOf([READY, READY]);
  for (let turn = 0; turn < 10; turn++) {
    const permit = acquire(model);
    permit.release(permit.client.name === 'a' ? 'failed' : 'succeeded', BROKEN);
  }
  return model;
}

test('a replica is paused after 5 consecutive failures, and gets one request when the pause ends', () => {
  clock.ms = 0;
  const model = withPaused();
  const names = () =>
    Array.from({ length: 4 }, () => {
      const permit = acquire(model);
      permit.release('succeeded');
      return permit.client.name;
    });
  assert.deepEqual(names(), ['b', 'b', 'b', 'b']);
  assert.deepEqual(model.overview().replicas[0]?.state, {
    state: 'paused',
    reason: '5 consecutive failures; last: The engine failed to answer the request.',
    retryInMs: 1000,
  });
  clock.ms = 50_000;
  const trial = acquire(model);
  assert.equal(trial.client.name, 'a');
  assert.deepEqual([acquire(model).client.name, acquire(model).client.name], ['b', 'b']);
  trial.responseStarted();
  assert.deepEqual(model.overview().replicas[0]?.state, READY);
  assert.equal(acquire(model).client.name, 'b', 'it gets few requests at first');
  clock.ms += 10_000;
  assert.equal(acquire(model).client.name, 'a', 'a trial that responds lets others in before it ends');
});

test('a paused replica with unlimited room does not lengthen the queue', () => {
  clock.ms = 0;
  const model = modelOf([READY, READY], [undefined, 1]);
  for (let failures = 0; failures < 5;) {
    const permit = acquire(model);
    if (permit.client.name === 'a') failures++;
    permit.release(permit.client.name === 'a' ? 'failed' : 'succeeded', BROKEN);
  }
  for (const ms of [0, 1000]) {
    clock.ms = ms;
    const entries = Array.from({ length: 5 }, () => enter(model));
    assert.equal(fault(() => enter(model)).code, 'queue_full');
    for (const entry of entries) entry.leave();
  }
});

test('a request that failed elsewhere is not the trial of a paused replica', () => {
  clock.ms = 0;
  const model = withPaused();
  clock.ms = 1000;
  const failed = [[clientAt(1), BROKEN]] as const;
  // No other replica is left, so the paused one gets the request.
  assert.equal(acquire(model, failed).client.name, 'a');
  const three = modelOf([READY, READY, READY]);
  while (three.overview().replicas[0]?.state.state !== 'paused') {
    const permit = acquire(three);
    permit.release(permit.client.name === 'a' ? 'failed' : 'succeeded', BROKEN);
  }
  clock.ms = 5000;
  assert.equal(acquire(three, failed).client.name, 'c');
});

test('if every replica is paused, the one whose pause ends first gets the requests', () => {
  clock.ms = 0;
  const model = modelOf([READY, READY]);
  for (let failures = 0; failures < 5; failures++) {
    assert.equal(fail(model), 'a');
    clock.ms += 1;
    assert.equal(fail(model), 'b');
  }
  assert.equal(fail(model), 'a', 'its pause began first');
  assert.equal(fail(model), 'b', 'the pause of `a` is twice as long now');
  const permit = acquire(model);
  permit.release('succeeded');
  assert.equal(model.overview().replicas.filter(({ state }) => state.state === 'ready').length, 1);
});
