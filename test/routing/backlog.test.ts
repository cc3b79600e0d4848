import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { Backlog, type BacklogEntry } from '../../src/routing/backlog.ts';

const MAX_REQUESTS = 4;

interface Request {
  account: string;
  entry: BacklogEntry;
  stop: AbortController;
}

function newBacklog(): Backlog {
  return new Backlog({ maxRequests: MAX_REQUESTS, maxWaitMs: 1000 });
}

/** Enters a queue. `free`: requests that could be sent now. Throws if the request is refused. */
function enter(backlog: Backlog, account: string, free = 0): Request {
  const stop = new AbortController();
  return { account, entry: backlog.enter(() => free, account, stop), stop };
}

function enterAll(backlog: Backlog, accounts: string): Request[] {
  return Array.from(accounts, (account) => enter(backlog, account));
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
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aaaa');
  const message = 'The queue of this model is full: 4 requests are waiting. Try again later.';
  assert.throws(() => enter(backlog, 'a'), { ...FULL, message });
  assert.deepEqual(removed(requests), []);
});

test('another account gets the place of the latest request of the account that fills the queue', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aaaab');
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
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aaaabb');
  assert.deepEqual(removed(requests), ['a2', 'a3']);
  for (const account of ['a', 'b']) assert.throws(() => enter(backlog, account), FULL);
  assert.deepEqual(removed(requests), ['a2', 'a3']);
});

test('a request is refused if its account would then have at least as many requests as each of the others', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'abcd');
  assert.throws(() => enter(backlog, 'e'), FULL);
  const uneven = newBacklog();
  requests.push(...enterAll(uneven, 'aabc'));
  for (const account of ['a', 'b', 'c']) assert.throws(() => enter(uneven, account), FULL);
  assert.deepEqual(removed(requests), []);
});

test('of accounts with equally many requests, the one that began to wait first loses a request first', () => {
  const backlog = newBacklog();
  // An account whose requests have all left begins to wait again.
  enter(backlog, 'b').entry.leave();
  const requests = enterAll(backlog, 'abbac');
  assert.deepEqual(removed(requests), ['a1']);
  enter(backlog, 'd');
  assert.deepEqual(removed(requests), ['b1', 'a1']);
});

test('requests that have left the queue are neither counted nor removed', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aaaa');
  requests[3]?.entry.leave();
  requests[3]?.entry.leave();
  requests.push(...enterAll(backlog, 'bc'));
  assert.deepEqual(removed(requests), ['a2']);
  // The removed request leaves when it ends.
  requests[2]?.entry.leave();
  for (const account of ['a', 'b', 'c']) assert.throws(() => enter(backlog, account), FULL);
});

test('requests that could be sent now do not take the places of waiting requests', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aaaa');
  requests.push(enter(backlog, 'b', 2), enter(backlog, 'a', 2));
  assert.deepEqual(removed(requests), []);
  assert.throws(() => enter(backlog, 'a', 2), FULL);
});

test('a request that waits again takes its earlier place, and the latest of the account with the most is removed', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aa');
  for (const { entry } of requests) entry.leave();
  requests.push(...enterAll(backlog, 'aaab'));
  requests[0]?.entry.waitAgain(0);
  assert.deepEqual(removed(requests), ['a4']);
  requests[1]?.entry.waitAgain(0);
  assert.deepEqual(removed(requests), ['a3', 'a4']);
  assert.throws(() => enter(backlog, 'a'), FULL);
});

test('of accounts with equally many requests, a request that waits again takes the place of a later one', () => {
  const backlog = newBacklog();
  const requests = [enter(backlog, 'a')];
  requests[0]?.entry.leave();
  requests.push(...enterAll(backlog, 'bcde'));
  requests[0]?.entry.waitAgain(0);
  assert.deepEqual(removed(requests), ['b0']);
  requests[0]?.entry.leave();
  requests.push(enter(backlog, 'f'));
  assert.throws(() => enter(backlog, 'g'), FULL);
});

test('a request that waits again and could be sent now removes none', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'a');
  requests[0]?.entry.leave();
  requests.push(...enterAll(backlog, 'aaaa'));
  requests[0]?.entry.waitAgain(1);
  assert.deepEqual(removed(requests), []);
});

test('a response that waits to be continued is counted, but neither removed nor a reason to remove others', () => {
  const backlog = newBacklog();
  const requests = enterAll(backlog, 'aaaa');
  for (const { entry } of requests) entry.leave();
  requests.push(...enterAll(backlog, 'aa'));
  for (const { entry } of requests.slice(0, 4)) entry.waitToContinue();
  assert.deepEqual(removed(requests), []);
  requests.push(enter(backlog, 'b'));
  assert.deepEqual(removed(requests), ['a5']);
  assert.throws(() => enter(backlog, 'b'), FULL);
  for (const { entry } of requests) {
    entry.leave();
    entry.leave();
  }
  enterAll(backlog, 'aaaa');
  assert.throws(() => enter(backlog, 'a'), FULL);
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
      const backlog = newBacklog();
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
          assert.throws(() => enter(backlog, account, free), FULL);
        } else {
          const isFull = waiting.size >= MAX_REQUESTS + free;
          const before = most();
          const request = enter(backlog, account, free);
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
      enterAll(backlog, 'aaaa');
      assert.throws(() => enter(backlog, 'a'), FULL);
    }),
  );
});
