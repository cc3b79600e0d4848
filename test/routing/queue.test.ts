import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ServiceError } from '../../src/errors.ts';
import { Queue, type QueueEntry } from '../../src/routing/queue.ts';

const MAX_REQUESTS = 4;

interface Request {
  account: string;
  entry: QueueEntry;
  stop: AbortController;
}

function newQueue(): Queue {
  return new Queue({ maxRequests: MAX_REQUESTS, maxWaitMs: 1000 });
}

/** Enters a queue. `free`: requests that could be sent now. Throws if the request is refused. */
function enter(queue: Queue, account: string, free = 0): Request {
  const stop = new AbortController();
  return { account, entry: queue.enter(free, account, stop), stop };
}

function enterAll(queue: Queue, accounts: string): Request[] {
  return Array.from(accounts, (account) => enter(queue, account));
}

/** Returns the requests that were removed, such as `a1` for the second request of account `a`. */
function removed(requests: readonly Request[]): string[] {
  return requests.flatMap(({ account, stop }, index) => {
    const earlier = requests.slice(0, index).filter((request) => request.account === account);
    return stop.signal.aborted ? [`${account}${earlier.length}`] : [];
  });
}

const FULL = { code: 'queue_full', status: 503, retryAfterMs: 1000 };

test('an account that fills the queue is refused, and loses none of its requests', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aaaa');
  const message = 'The queue of this model is full: 4 requests are waiting. Try again later.';
  assert.throws(() => enter(queue, 'a'), { ...FULL, message });
  assert.deepEqual(removed(requests), []);
});

test('another account gets the place of the latest request of the account that fills the queue', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aaaab');
  assert.deepEqual(removed(requests), ['a3']);
  const reason: unknown = requests[3]?.stop.signal.reason;
  assert.ok(reason instanceof ServiceError);
  assert.deepEqual({ code: reason.code, status: reason.status, retryAfterMs: reason.retryAfterMs }, FULL);
  assert.equal(
    reason.message,
    'The queue of this model is full: 4 requests are waiting. This account had the most, so its latest request was ' +
      'removed for another one. Try again later.',
  );
});

test('two accounts that send as many requests as they can each get half of the queue', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aaaabb');
  assert.deepEqual(removed(requests), ['a2', 'a3']);
  for (const account of ['a', 'b']) assert.throws(() => enter(queue, account), FULL);
  assert.deepEqual(removed(requests), ['a2', 'a3']);
});

test('a request is refused if its account would then have at least as many requests as each of the others', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'abcd');
  assert.throws(() => enter(queue, 'e'), FULL);
  const uneven = newQueue();
  requests.push(...enterAll(uneven, 'aabc'));
  for (const account of ['a', 'b', 'c']) assert.throws(() => enter(uneven, account), FULL);
  assert.deepEqual(removed(requests), []);
});

test('of accounts with equally many requests, the one that began to wait first loses a request first', () => {
  const queue = newQueue();
  // An account whose requests have all left begins to wait again.
  enter(queue, 'b').entry.leave();
  const requests = enterAll(queue, 'abbac');
  assert.deepEqual(removed(requests), ['a1']);
  enter(queue, 'd');
  assert.deepEqual(removed(requests), ['b1', 'a1']);
});

test('requests that have left the queue are neither counted nor removed', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aaaa');
  requests[3]?.entry.leave();
  requests[3]?.entry.leave();
  requests.push(...enterAll(queue, 'bc'));
  assert.deepEqual(removed(requests), ['a2']);
  // The removed request leaves when it ends.
  requests[2]?.entry.leave();
  for (const account of ['a', 'b', 'c']) assert.throws(() => enter(queue, account), FULL);
});

test('requests that could be sent now do not take the places of waiting requests', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aaaa');
  requests.push(enter(queue, 'b', 2), enter(queue, 'a', 2));
  assert.deepEqual(removed(requests), []);
  assert.throws(() => enter(queue, 'a', 2), FULL);
});

test('a request that waits again takes its earlier place, and the latest of the account with the most is removed', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aa');
  for (const { entry } of requests) entry.leave();
  requests.push(...enterAll(queue, 'aaab'));
  requests[0]?.entry.waitAgain(0);
  assert.deepEqual(removed(requests), ['a4']);
  requests[1]?.entry.waitAgain(0);
  assert.deepEqual(removed(requests), ['a3', 'a4']);
  assert.throws(() => enter(queue, 'a'), FULL);
});

test('of accounts with equally many requests, a request that waits again takes the place of a later one', () => {
  const queue = newQueue();
  const requests = [enter(queue, 'a')];
  requests[0]?.entry.leave();
  requests.push(...enterAll(queue, 'bcde'));
  requests[0]?.entry.waitAgain(0);
  assert.deepEqual(removed(requests), ['b0']);
  requests[0]?.entry.leave();
  requests.push(enter(queue, 'f'));
  assert.throws(() => enter(queue, 'g'), FULL);
});

test('a request that waits again and could be sent now removes none', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'a');
  requests[0]?.entry.leave();
  requests.push(...enterAll(queue, 'aaaa'));
  requests[0]?.entry.waitAgain(1);
  assert.deepEqual(removed(requests), []);
});

test('a response that waits to be continued is counted, but neither removed nor a reason to remove others', () => {
  const queue = newQueue();
  const requests = enterAll(queue, 'aaaa');
  for (const { entry } of requests) entry.leave();
  requests.push(...enterAll(queue, 'aa'));
  for (const { entry } of requests.slice(0, 4)) entry.waitToContinue();
  assert.deepEqual(removed(requests), []);
  requests.push(enter(queue, 'b'));
  assert.deepEqual(removed(requests), ['a5']);
  assert.throws(() => enter(queue, 'b'), FULL);
  for (const { entry } of requests) {
    entry.leave();
    entry.leave();
  }
  enterAll(queue, 'aaaa');
  assert.throws(() => enter(queue, 'a'), FULL);
});

test('the account with the most requests makes room for an account with at least two fewer, and no count leaks', () => {
  const command = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ account: fc.constantFrom('a', 'a', 'a', 'b', 'c', 'd'), free: fc.nat(2) }),
    },
    { weight: 1, arbitrary: fc.record({ leave: fc.nat(20) }) },
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 60 }), (commands) => {
      const queue = newQueue();
      const requests: Request[] = [];
      const waiting = new Set<Request>();
      const waitingOf = (account: string) => [...waiting].filter((each) => each.account === account);
      const most = () => Math.max(...Array.from('abcd', (account) => waitingOf(account).length));
      for (const step of commands) {
        if ('leave' in step) {
          const request = requests[step.leave];
          if (!request) continue;
          request.entry.leave();
          waiting.delete(request);
          continue;
        }
        const { account, free } = step;
        const own = waitingOf(account).length;
        if (waiting.size >= MAX_REQUESTS + free && own + 1 >= most()) {
          assert.throws(() => enter(queue, account, free), FULL);
        } else {
          const isFull = waiting.size >= MAX_REQUESTS + free;
          const before = most();
          const request = enter(queue, account, free);
          const lost = [...waiting].filter(({ stop }) => stop.signal.aborted);
          assert.equal(lost.length, isFull ? 1 : 0);
          for (const each of lost) {
            assert.equal(waitingOf(each.account).length, before);
            assert.equal(waitingOf(each.account).at(-1), each);
            waiting.delete(each);
          }
          requests.push(request);
          waiting.add(request);
        }
        assert.ok([...waiting].every(({ stop }) => !stop.signal.aborted));
      }
      for (const { entry } of requests) entry.leave();
      enterAll(queue, 'aaaa');
      assert.throws(() => enter(queue, 'a'), FULL);
    }),
  );
});
