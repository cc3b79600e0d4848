import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from 'fast-check';
import { openReplica } from '../../src/engine/client.ts';
import { NOTHING_TOLD } from '../../src/engine/report.ts';
import { ReplicaRefused, type Engine, type EngineState } from '../../src/engine/engine.ts';
import { ServiceError } from '../../src/errors.ts';
import { fewestInFlight } from '../../src/routing/policy.ts';
import { Router, type Lease, type QueueLimits, type QueuePlace } from '../../src/routing/router.ts';
import { REPLICA } from '../engine/replicas.ts';

const ID = 'test/model';
const READY: EngineState = { state: 'ready' };

/** Clients that are never asked anything: a router only counts what it gives them. */
const engines = ['a', 'b', 'c', 'd'].map((name) => openReplica({ ...REPLICA, name }));
after(() => Promise.all(engines.map((engine) => engine[Symbol.asyncDispose]())));

/** A router of one model, whose replicas have these states. */
function routerOf(states: readonly EngineState[], queue: Partial<QueueLimits> = {}): Router {
  const router = new Router({ maxRequests: 4, maxWaitMs: 1000, ...queue });
  router.serve(
    { id: ID, required: false, dialects: ['sluice'], price: { prompt: 1, completion: 2 }, card: () => null },
    states.map((state, index) => ({
      engine: engineAt(index),
      state: () => state,
      report: () => NOTHING_TOLD,
    })),
  );
  return router;
}

function engineAt(index: number): Engine {
  const engine = engines[index];
  assert.ok(engine);
  return engine;
}

const acquire = (router: Router, refused: readonly (readonly [Engine, ReplicaRefused])[] = []) =>
  router.acquire(ID, new Map(refused));
const inFlight = (router: Router) => router.overview()[0]?.replicas.map((replica) => replica.inFlight);

function fault(run: () => unknown): ServiceError {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ServiceError);
    return error;
  }
  throw new assert.AssertionError({ message: 'it was not refused' });
}

test('the policy chooses one with the fewest in flight, and the first such one after the last choice', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3), { maxLength: 8 }), fc.nat(20), (loads, seed) => {
      const replicas = loads.map((load) => ({ inFlight: load }));
      if (replicas.length === 0) {
        assert.equal(fewestInFlight(replicas, seed), -1);
        return;
      }
      const last = seed % replicas.length;
      const chosen = fewestInFlight(replicas, last);
      const turns = loads.map((_, step) => (last + 1 + step) % loads.length);
      assert.equal(
        chosen,
        turns.find((index) => loads[index] === Math.min(...loads)),
      );
    }),
  );
});

test('replicas with nothing to do take turns', () => {
  const router = routerOf([READY, READY, READY]);
  const names = Array.from({ length: 6 }, () => {
    const lease = acquire(router);
    lease.release();
    return lease.engine.name;
  });
  assert.deepEqual(names, ['a', 'b', 'c', 'a', 'b', 'c']);
});

test('a replica that keeps its requests longer gets fewer of them', () => {
  const router = routerOf([READY, READY]);
  acquire(router);
  const quick = Array.from({ length: 5 }, () => {
    const lease = acquire(router);
    lease.release();
    return lease.engine.name;
  });
  assert.deepEqual(quick, ['b', 'b', 'b', 'b', 'b']);
});

test('whatever comes and goes, the counts are those of what is held, and the choice is the least of them', () => {
  const command = fc.oneof(
    fc.constant('enter' as const),
    fc.constant('acquire' as const),
    fc.nat(20).map((index) => ({ leave: index })),
    fc.nat(20).map((index) => ({ release: index })),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const router = routerOf([READY, READY, READY]);
      const places: QueuePlace[] = [];
      const leases: Lease[] = [];
      const left = new Set<QueuePlace>();
      const released = new Set<Lease>();
      const held = () =>
        engines
          .slice(0, 3)
          .map((engine) => leases.filter((lease) => lease.engine === engine && !released.has(lease)).length);
      for (const step of commands) {
        if (step === 'enter') {
          if (places.length - left.size < 4) places.push(router.enter(ID));
          else assert.equal(fault(() => router.enter(ID)).code, 'queue_full');
        } else if (step === 'acquire') {
          const least = Math.min(...held());
          const lease = acquire(router);
          assert.equal(held()[engines.indexOf(lease.engine)], least);
          leases.push(lease);
        } else if ('leave' in step) {
          // The same place may be left again, which counts once.
          const place = places[step.leave];
          place?.left();
          if (place) left.add(place);
        } else {
          const lease = leases[step.release];
          lease?.release();
          if (lease) released.add(lease);
        }
        assert.deepEqual(inFlight(router), held());
        assert.equal(router.overview()[0]?.waiting, places.length - left.size);
      }
    }),
  );
});

test('one more than may wait is queue_full with the time to come back, until one of them is served', () => {
  const router = routerOf([READY], { maxRequests: 2 });
  const first = router.enter(ID);
  router.enter(ID);
  const refused = fault(() => router.enter(ID));
  assert.deepEqual([refused.code, refused.status, refused.retryAfterMs], ['queue_full', 503, 1000]);
  assert.equal(refused.message, '2 requests wait for this model already.');
  first.left();
  first.left();
  router.enter(ID);
  assert.equal(fault(() => router.enter(ID)).code, 'queue_full');
});

test('only replicas that are ready and have not refused the request are chosen', () => {
  const down: EngineState = { state: 'down', reason: 'gone', retryInMs: null };
  const router = routerOf([down, READY, { state: 'loading', fraction: 0.5 }, READY]);
  assert.equal(acquire(router).engine.name, 'b');
  assert.equal(acquire(router).engine.name, 'd');
  const busy = new ReplicaRefused(new Error('busy'), 7000);
  assert.equal(acquire(router, [[engineAt(1), busy]]).engine.name, 'd');
  const refused = fault(() =>
    acquire(router, [
      [engineAt(1), busy],
      [engineAt(3), busy],
    ]),
  );
  assert.equal(refused, busy, 'the last refusal is the answer');
});

test('with no replica ready the caller is told when to come back: when the first of them may be', () => {
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
    const refused = fault(() => acquire(routerOf(states)));
    assert.deepEqual([refused.code, refused.retryAfterMs], ['engine_unavailable', waitMs]);
    assert.doesNotMatch(refused.message, /secret/);
  }
});

test('a model that is not served is model_not_found, and a long name is cut', () => {
  const router = routerOf([READY]);
  for (const ask of [
    () => router.model('x'),
    () => router.enter('x'),
    () => router.acquire('x', new Map()),
  ]) {
    const refused = fault(ask);
    assert.deepEqual([refused.code, refused.param], ['model_not_found', 'model']);
  }
  assert.ok(fault(() => router.model('x'.repeat(10_000))).message.length < 300);
});
