import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { ReplicaRefused, type EngineState } from '../../src/replicas/replica.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { EMPTY_REPORT } from '../../src/replicas/replica-report.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { SILENT } from '../../src/support/log.ts';
import { Dispatcher } from '../../src/routing/dispatcher.ts';
import { Permit } from '../../src/routing/permit.ts';
import type { PolicyName, RoutedRequest } from '../../src/routing/placement.ts';
import { RoutedReplica } from '../../src/routing/replica.ts';
import { REPLICA } from '../replicas/replicas.ts';
import { chat } from '../engine/requests.ts';

const READY: EngineState = { state: 'ready' };

const clients = ['a', 'b', 'c'].map((name) => new HttpReplicaClient({ ...REPLICA, name }));
after(() => Promise.all(clients.map((client) => client[Symbol.asyncDispose]())));

const BROKEN = new ServiceError('internal_error', 'The engine failed to answer the request.');

/** Aborted after the tests, so that no waiting request keeps a timer running. */
const ended = new AbortController();
after(() => ended.abort());

interface Bed {
  readonly dispatcher: Dispatcher;
  readonly replicas: readonly RoutedReplica[];
  readonly states: EngineState[];
  readonly clock: { ms: number };
}

/** A dispatcher for `count` replicas, with room for `room` choices each. */
function bed(
  count: number,
  {
    room = 1,
    policy = 'cost',
    maxWaitMs = 600_000,
  }: { room?: number; policy?: PolicyName; maxWaitMs?: number } = {},
): Bed {
  const clock = { ms: 60_000, now: () => clock.ms, random: () => 0 };
  const states = clients.slice(0, count).map(() => READY);
  const replicas = states.map(
    (_, index) =>
      new RoutedReplica(
        {
          client: clients[index] as HttpReplicaClient,
          state: () => states[index] as EngineState,
          capacity: () => null,
          report: () => EMPTY_REPORT,
          maxInFlight: room,
        },
        SILENT,
        clock,
      ),
  );
  // The replicas have been ready for a minute.
  assert.ok(replicas.every(({ ready }) => ready));
  clock.ms += 60_000;
  return {
    dispatcher: new Dispatcher(replicas, { policy, maxWaitMs, clock }),
    replicas,
    states,
    clock,
  };
}

function routed(accountId: string, more: Partial<RoutedRequest> & { text?: string } = {}): RoutedRequest {
  const { text = 'hello', ...rest } = more;
  return {
    request: {
      ...chat({}, { messages: [{ role: 'user', content: text }] }),
      cacheScope: accountId,
    },
    accountId,
    weight: 1,
    failures: new Map(),
    isRetry: rest.failures !== undefined,
    charged: 0,
    waitedMs: 0,
    signal: ended.signal,
    ...rest,
  };
}

function sent(permit: Permit | Promise<Permit>): Permit {
  assert.ok(permit instanceof Permit, 'the request waits');
  return permit;
}

const CONVERSATION = 'a long conversation '.repeat(200);

/** Sends a long prompt of an account, which its replica then has cached. */
function converse(dispatcher: Dispatcher, accountId = 'x'): Permit {
  const permit = sent(dispatcher.acquire(routed(accountId, { text: CONVERSATION })));
  permit.responseStarted();
  return permit;
}

/** Asks for a replica for the prompt and its next turn. */
const nextTurn = (dispatcher: Dispatcher, accountId = 'x') =>
  dispatcher.acquire(routed(accountId, { text: `${CONVERSATION} and its next turn` }));

const USAGE = { promptTokens: 100, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 };

/** Records the account of each waiting request when it is sent. */
function recordOrder(waiting: readonly (readonly [string, Permit | Promise<Permit>])[]): string[] {
  const order: string[] = [];
  for (const [name, permit] of waiting)
    void Promise.resolve(permit).then(
      () => order.push(name),
      () => {},
    );
  return order;
}

const turn = () => new Promise<void>((resolve) => queueMicrotask(resolve));
const settled = async () => {
  for (let i = 0; i < 20; i++) await turn();
};

test('a request waits while its replica has no room, and is sent when another request ends', async () => {
  const { dispatcher } = bed(1);
  const first = sent(dispatcher.acquire(routed('x')));
  const second = dispatcher.acquire(routed('x'));
  assert.ok(second instanceof Promise);
  assert.equal(dispatcher.waiting, 1);
  first.release('succeeded');
  assert.equal(dispatcher.waiting, 0);
  assert.equal((await second).client.name, 'a');
});

test('while one account has many requests waiting, the request of another account is sent next', async () => {
  const { dispatcher } = bed(1);
  const running = sent(dispatcher.acquire(routed('flood')));
  running.charge({ promptTokens: 100, cachedTokens: 0, completionTokens: 0, reasoningTokens: 0 });
  const waiting: [string, Permit | Promise<Permit>][] = Array.from({ length: 10 }, () => [
    'flood',
    dispatcher.acquire(routed('flood')),
  ]);
  waiting.push(['other', dispatcher.acquire(routed('other'))]);
  const order = recordOrder(waiting);
  running.release('succeeded');
  await settled();
  (await waiting.at(-1)?.[1])?.release('succeeded');
  await settled();
  assert.deepEqual(order, ['other', 'flood']);
});

test('work that an account did while no request waited gives the other accounts no credit', async () => {
  const { dispatcher } = bed(1);
  const alone = sent(dispatcher.acquire(routed('busy')));
  alone.charge({ ...USAGE, promptTokens: 1_000_000 });
  alone.release('succeeded');
  const running = sent(dispatcher.acquire(routed('busy')));
  const waiting = ['returning', 'returning', 'returning', 'busy'].map((account) => {
    const permit = dispatcher.acquire(routed(account));
    return [account, permit] as const;
  });
  const order = recordOrder(waiting);
  running.release('succeeded');
  const first = await Promise.race(waiting.map(async ([, permit]) => await permit));
  first.charge(USAGE);
  first.release('succeeded');
  await settled();
  assert.deepEqual(order.toSorted(), ['busy', 'returning']);
});

test('a request waits for the replica that has its prompt cached, and others use the one that is free', async () => {
  const { dispatcher } = bed(2);
  const first = converse(dispatcher);
  const next = nextTurn(dispatcher);
  assert.ok(next instanceof Promise, 'it waits although another replica is free');
  const other = sent(dispatcher.acquire(routed('y', { text: 'something else' })));
  assert.notEqual(other.client.name, first.client.name);
  first.release('succeeded');
  assert.equal((await next).client, first.client);
});

test('a request that has waited for a second is sent to any replica with room', async () => {
  const { dispatcher, clock } = bed(2);
  const first = converse(dispatcher);
  const next = nextTurn(dispatcher);
  clock.ms += 999;
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 1);
  clock.ms += 1;
  dispatcher.tick();
  assert.notEqual((await next).client.name, first.client.name);
});

test('a request that has waited for a second goes before requests of accounts with more work, at any replica', async () => {
  const { dispatcher, clock } = bed(2);
  const stuck = converse(dispatcher);
  const next = nextTurn(dispatcher);
  const flood = [0, 1, 2].map(() => dispatcher.acquire(routed('flood')));
  const [running] = flood.map((permit) => (permit instanceof Permit ? permit : null));
  running?.charge(USAGE);
  const order = recordOrder(
    [next, ...flood.slice(1)].map((permit, index) => [index === 0 ? 'x' : 'flood', permit]),
  );
  clock.ms += 1000;
  running?.release('succeeded');
  await settled();
  assert.deepEqual(order, ['x']);
  assert.notEqual((await next).client, stuck.client);
});

test('a request overtakes an earlier one of its account only if it arrived less than a second later', async () => {
  for (const [olderMs, expected] of [
    [999, 'later'],
    [1000, 'earlier'],
  ] as const) {
    const { dispatcher, clock } = bed(2);
    converse(dispatcher);
    const earlier = nextTurn(dispatcher);
    const other = sent(dispatcher.acquire(routed('x')));
    clock.ms += olderMs;
    const later = dispatcher.acquire(routed('x'));
    const order = recordOrder([
      ['earlier', earlier],
      ['later', later],
    ]);
    clock.ms += 1000;
    other.release('succeeded');
    await settled();
    assert.deepEqual(order, [expected]);
  }
});

test('a free replica takes the request of the account with the least work, whichever replica it waits for', async () => {
  for (const waitsForFirst of ['x', 'y']) {
    const { dispatcher, clock, replicas } = bed(3);
    const waitsForSecond = waitsForFirst === 'x' ? 'y' : 'x';
    const running = [waitsForFirst, waitsForSecond, 'z'].map((account) => converse(dispatcher, account));
    assert.deepEqual(
      running.map(({ replica }) => replica),
      replicas,
    );
    const next = (account: string) => [account, nextTurn(dispatcher, account)] as const;
    const order = recordOrder([next(waitsForFirst), next(waitsForSecond)]);
    running[waitsForFirst === 'x' ? 0 : 1]?.charge(USAGE);
    clock.ms += 1000;
    running[2]?.release('succeeded');
    await settled();
    assert.deepEqual(order, ['y']);
  }
});

test('requests that are waiting for a replica when it fails are sent to another', async () => {
  const { dispatcher, states } = bed(2);
  const first = converse(dispatcher);
  const next = nextTurn(dispatcher);
  states[clients.indexOf(first.client as HttpReplicaClient)] = {
    state: 'down',
    reason: 'gone',
    retryInMs: null,
  };
  dispatcher.tick();
  assert.notEqual((await next).client.name, first.client.name);
});

test('waiting requests fail when no replica is left', async () => {
  const { dispatcher, states, replicas } = bed(1);
  sent(dispatcher.acquire(routed('x')));
  const next = dispatcher.acquire(routed('x'));
  states[0] = { state: 'down', reason: 'gone', retryInMs: 5000 };
  dispatcher.tick();
  await assert.rejects(Promise.resolve(next), { code: 'engine_unavailable', retryAfterMs: 5000 });
  assert.deepEqual([dispatcher.waiting, replicas[0]?.assigned], [0, 1]);
});

test('a request whose client disconnects while it waits leaves no trace', async () => {
  const { dispatcher, replicas } = bed(1);
  sent(dispatcher.acquire(routed('x')));
  const stop = new AbortController();
  const waiting = Promise.resolve(dispatcher.acquire(routed('y', { signal: stop.signal })));
  assert.equal(dispatcher.waiting, 1);
  const reason = new Error('gone');
  stop.abort(reason);
  await assert.rejects(waiting, reason);
  assertOneRunning(dispatcher, replicas);
  const already = Promise.resolve(dispatcher.acquire(routed('y', { signal: stop.signal })));
  await assert.rejects(already, reason);
  assertOneRunning(dispatcher, replicas);
});

test('a request that waits too long is queue_full and leaves no trace', async () => {
  const { dispatcher, replicas } = bed(1, { maxWaitMs: 20 });
  sent(dispatcher.acquire(routed('x')));
  const waiting = Promise.resolve(dispatcher.acquire(routed('y')));
  await assert.rejects(waiting, { code: 'queue_full', retryAfterMs: 1000 });
  assertOneRunning(dispatcher, replicas);
});

/** Asserts that only one request of the account `x` is counted. */
function assertOneRunning(dispatcher: Dispatcher, replicas: readonly RoutedReplica[]): void {
  assert.equal(dispatcher.waiting, 0);
  assert.deepEqual([replicas[0]?.assigned, replicas[0]?.inFlight], [1, 1]);
  const active = dispatcher.shares.active();
  assert.deepEqual(
    active.map(({ accountId, running, waiting }) => [accountId, running, waiting]),
    [['x', 1, 0]],
  );
}

test('a retry goes before the other requests of its account', async () => {
  const { dispatcher } = bed(2, { policy: 'least-requests' });
  const running = [sent(dispatcher.acquire(routed('x'))), sent(dispatcher.acquire(routed('x')))];
  const first = dispatcher.acquire(routed('x'));
  const failures = new Map([[clients[0] as HttpReplicaClient, BROKEN]]);
  const retry = dispatcher.acquire(routed('x', { failures }));
  const order = recordOrder([
    ['first', first],
    ['retry', retry],
  ]);
  running.find(({ client }) => client.name === 'b')?.release('succeeded');
  await settled();
  assert.deepEqual(order, ['retry']);
});

test('a retried request that was charged for its first attempt is not charged twice', () => {
  const { dispatcher } = bed(2);
  const usage = { promptTokens: 100, cachedTokens: 0, completionTokens: 50, reasoningTokens: 0 };
  const first = sent(dispatcher.acquire(routed('x')));
  first.charge(usage);
  first.release('failed', BROKEN);
  const [share] = [dispatcher.shares.of('x', 1)];
  assert.equal(share.counter, 200);
  const failures = new Map([[first.client, BROKEN]]);
  const second = sent(dispatcher.acquire(routed('x', { failures, charged: first.charged })));
  second.charge(usage);
  assert.equal(share.counter, 200);
  // Further tokens are charged 32 at a time, and the rest at the end.
  second.charge({ ...usage, completionTokens: 81 });
  assert.equal(share.counter, 200);
  second.charge({ ...usage, completionTokens: 82 });
  assert.equal(share.counter, 264);
  second.charge({ ...usage, completionTokens: 83 });
  second.release('succeeded');
  assert.equal(share.counter, 266);
});

test('after any sequence of requests, no request is lost and no count leaks', async () => {
  const step = fc.oneof(
    fc.record({ acquire: fc.constantFrom('x', 'y', 'z'), prompt: fc.nat(3) }),
    fc.record({ release: fc.nat(20), failed: fc.boolean() }),
    fc.record({ abort: fc.nat(20) }),
    fc.record({ toggle: fc.nat(2) }),
    fc.record({ wait: fc.nat(3000) }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60 }),
      fc.constantFrom<PolicyName[]>('cost', 'least-requests', 'round-robin'),
      async (steps, policy) => {
        const { dispatcher, replicas, states, clock } = bed(3, { room: 2, policy });
        const permits: Permit[] = [];
        const stops: AbortController[] = [];
        const outcomes: Promise<void>[] = [];
        let rejected = 0;
        for (const each of steps) {
          if ('acquire' in each) {
            const stop = new AbortController();
            stops.push(stop);
            const request = routed(each.acquire, {
              text: 'word '.repeat(300 * each.prompt),
              signal: stop.signal,
            });
            const attempt = async () => {
              try {
                permits.push(await dispatcher.acquire(request));
              } catch {
                rejected++;
              }
            };
            outcomes.push(attempt());
          } else if ('release' in each) {
            permits[each.release]?.release(each.failed ? 'failed' : 'succeeded', BROKEN);
          } else if ('abort' in each) stops[each.abort]?.abort();
          else if ('toggle' in each) {
            const down: EngineState = { state: 'down', reason: 'gone', retryInMs: null };
            states[each.toggle] = states[each.toggle] === READY ? down : READY;
          } else {
            clock.ms += each.wait;
            dispatcher.tick();
          }
          await settled();
          for (const { choicesInFlight } of replicas) assert.ok(choicesInFlight <= 2);
        }
        for (const index of states.keys()) states[index] = READY;
        for (let index = 0; permits.length + rejected < outcomes.length || index < permits.length; index++) {
          permits[index]?.release('succeeded');
          clock.ms += 1000;
          dispatcher.tick();
          await settled();
        }
        await Promise.all(outcomes);
        assert.equal(permits.length + rejected, outcomes.length);
        assert.equal(dispatcher.waiting, 0);
        for (const { assigned, inFlight, choicesInFlight, outstandingPrefillTokens } of replicas) {
          assert.deepEqual([assigned, inFlight, choicesInFlight], [0, 0, 0]);
          assert.ok(Math.abs(outstandingPrefillTokens) < 1e-6);
        }
        assert.deepEqual(dispatcher.shares.active(), []);
      },
    ),
  );
});

/** A 429 of a server that accepts requests again after `retryAfterMs`. */
const limited = (retryAfterMs: number) =>
  new ReplicaRefused(new Error('429'), { retryAfterMs, rateLimited: true });

test('after a 429, a replica gets no requests until its retry-after has passed, although it is idle', () => {
  for (const policy of ['cost', 'least-requests', 'round-robin'] as const) {
    const { dispatcher, clock, replicas } = bed(2, { policy, room: 100 });
    const first = sent(dispatcher.acquire(routed('x')));
    first.release('inconclusive', limited(5000));
    assert.deepEqual(first.replica.state, {
      state: 'paused',
      reason: 'the server limits the rate of requests',
      retryInMs: 5000,
    });
    const chosen = () => sent(dispatcher.acquire(routed('x'))).replica;
    for (let turns = 0; turns < 20; turns++) assert.notEqual(chosen(), first.replica);
    clock.ms += 4999;
    assert.notEqual(chosen(), first.replica);
    clock.ms += 1;
    assert.equal(first.replica.state.state, 'ready');
    const both = new Set(Array.from({ length: 30 }, chosen));
    assert.equal(both.size, replicas.length);
  }
});

test('if all replicas responded with 429, requests wait for the first that accepts requests again', async () => {
  const { dispatcher, clock } = bed(2, { room: 100 });
  const [a, b] = [sent(dispatcher.acquire(routed('x'))), sent(dispatcher.acquire(routed('x')))];
  a.release('inconclusive', limited(5000));
  b.release('inconclusive', limited(2000));
  const waiting = [dispatcher.acquire(routed('x')), dispatcher.acquire(routed('y'))];
  clock.ms += 1999;
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 2);
  clock.ms += 1;
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 1, 'one request tries it first');
  const tried = await Promise.race(waiting.map((permit) => Promise.resolve(permit)));
  assert.equal(tried.replica, b.replica);
  tried.responseStarted();
  for (const permit of waiting) assert.equal((await permit).replica, b.replica);
});

test('after a 429, as many requests are sent as have been accepted since, and half as many after the next', async () => {
  const { dispatcher, clock } = bed(1, { room: 1000, maxWaitMs: 600_000 });
  const first = Array.from({ length: 8 }, () => sent(dispatcher.acquire(routed('x'))));
  const permits: Permit[] = [];
  const limitPasses = async () => {
    clock.ms += 999;
    dispatcher.tick();
    await settled();
    assert.equal(permits.length, 0);
    clock.ms += 1;
    dispatcher.tick();
    await settled();
  };
  /** Lets the requests that were sent respond. Returns how many are sent then. */
  const respond = async (): Promise<number> => {
    for (const permit of permits.splice(0)) permit.responseStarted();
    await settled();
    return permits.length;
  };
  first.pop()?.release('inconclusive', limited(1000));
  for (let index = 0; index < 200; index++)
    void Promise.resolve(dispatcher.acquire(routed('x'))).then(
      (permit) => permits.push(permit),
      () => {},
    );
  for (const permit of first) permit.release('inconclusive', limited(1000));
  await limitPasses();
  assert.equal(permits.length, 1);
  // Half of the 8 requests that were sent before, and then an eighth more with each response.
  assert.deepEqual([await respond(), await respond(), await respond(), await respond()], [2, 4, 4, 5]);
  // Some responses begin late, but a 429 would have arrived by now.
  clock.ms += 999;
  dispatcher.tick();
  await settled();
  assert.equal(permits.length, 5);
  clock.ms += 1;
  dispatcher.tick();
  await settled();
  assert.equal(permits.splice(0, 5).length + permits.length, 10);
  const refused = permits.pop();
  for (const permit of permits.splice(0)) permit.release('failed', BROKEN);
  await settled();
  assert.equal(permits.length, 4, 'failures are no reason to send more');
  refused?.release('inconclusive', limited(1000));
  for (const permit of permits.splice(0)) permit.release('inconclusive', limited(1000));
  await limitPasses();
  assert.equal(permits.length, 1);
  // Half of the 5 requests that were sent before, and then an eighth more.
  assert.deepEqual([await respond(), await respond(), await respond()], [2, 3, 3]);
});

test('a server that limits the rate of requests refuses few of them', async () => {
  const { dispatcher, clock } = bed(1, { room: 1000, maxWaitMs: 600_000 });
  const server = { tokens: 50, refused: 0, served: 0 };
  let mostRefusals = 0;
  const answers: { atMs: number; answer: () => void }[] = [];
  const send = (refusals = 0) => {
    mostRefusals = Math.max(mostRefusals, refusals);
    const permit = Promise.resolve(dispatcher.acquire(routed('x', { isRetry: refusals > 0 })));
    void permit.then((sent) => serve(sent, refusals));
  };
  const serve = (permit: Permit, refusals: number) => {
    const accepted = server.tokens >= 1;
    if (accepted) server.tokens--;
    const answer = () => {
      if (accepted) server.served++;
      else server.refused++;
      if (accepted) permit.responseStarted();
      if (accepted) permit.release('succeeded');
      else {
        permit.release('inconclusive', limited(500));
        send(refusals + 1);
      }
    };
    answers.push({ atMs: clock.ms + 200, answer });
  };
  for (let turns = 0; server.served < 480; turns++) {
    assert.ok(turns < 3000, 'requests are never sent');
    if (turns < 480) send();
    await settled();
    clock.ms += 10;
    server.tokens = Math.min(50, server.tokens + 0.5);
    while ((answers[0]?.atMs ?? Infinity) <= clock.ms) answers.shift()?.answer();
    dispatcher.tick();
    await settled();
  }
  assert.ok(server.refused <= 60, `${server.refused} requests were refused`);
  assert.ok(mostRefusals <= 2, `a request was refused ${mostRefusals} times`);
});

test('requests that wait for a replica go to another one after its 429', async () => {
  const { dispatcher } = bed(2, { policy: 'round-robin' });
  const [a, b] = [sent(dispatcher.acquire(routed('x'))), sent(dispatcher.acquire(routed('x')))];
  const waiting = dispatcher.acquire(routed('x'));
  assert.equal(dispatcher.waiting, 1);
  a.release('inconclusive', limited(60_000));
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 1, 'the other has no room');
  b.release('succeeded');
  assert.equal((await waiting).replica, b.replica);
});

test('requests that already wait are refused too if the retry-after of every replica exceeds their longest wait', async () => {
  const { dispatcher } = bed(2, { maxWaitMs: 3000 });
  const [a, b] = [sent(dispatcher.acquire(routed('x'))), sent(dispatcher.acquire(routed('x')))];
  const waiting = dispatcher.acquire(routed('x'));
  a.release('inconclusive', limited(7000));
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 1);
  b.release('inconclusive', limited(5000));
  dispatcher.tick();
  assert.equal(dispatcher.waiting, 0);
  await assert.rejects(Promise.resolve(waiting), { code: 'engine_unavailable', retryAfterMs: 5000 });
});

test('a request is refused if the retry-after of every replica exceeds its longest wait', async () => {
  const { dispatcher, clock } = bed(1, { maxWaitMs: 3000, room: 100 });
  sent(dispatcher.acquire(routed('x'))).release('inconclusive', limited(5000));
  assert.throws(() => dispatcher.acquire(routed('x')), { code: 'engine_unavailable', retryAfterMs: 5000 });
  clock.ms += 2000;
  const waiting = dispatcher.acquire(routed('x'));
  assert.equal(dispatcher.waiting, 1);
  clock.ms += 3000;
  dispatcher.tick();
  assert.equal((await waiting).client.name, 'a');
});
