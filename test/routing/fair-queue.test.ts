import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import {
  AccountShares,
  type AccountShare,
  FairQueue,
  type QueuedRequest,
} from '../../src/routing/fair-queue.ts';

interface Waiting extends QueuedRequest {
  readonly number: number;
}

const accounts = ['a', 'b', 'c', 'd'];

const command = fc.oneof(
  fc.record({ add: fc.nat(3), isRetry: fc.boolean() }),
  fc.record({ remove: fc.nat(50) }),
  fc.record({ charge: fc.nat(3), work: fc.nat(1000) }),
  fc.constant('take' as const),
  fc.constant('take odd' as const),
);

test('the account with the smallest counter is served first, and its retries before its other requests', () => {
  fc.assert(
    fc.property(fc.array(command, { maxLength: 80 }), (commands) => {
      const shares = new AccountShares();
      const queue = new FairQueue<Waiting>();
      const of = (index: number): AccountShare => shares.of(accounts[index] ?? '', 1);
      let model: Waiting[] = [];
      let number = 0;
      /** The first request of an account. */
      const first = (share: AccountShare): Waiting | undefined => {
        const own = model.filter((waiting) => waiting.share === share);
        return own.find(({ isRetry }) => isRetry) ?? own[0];
      };
      for (const step of commands) {
        if (step === 'take' || step === 'take odd') {
          const accepts = ({ number: id }: Waiting) => step === 'take' || id % 2 === 1;
          const offered = [0, 1, 2, 3].map((index) => first(of(index))).filter((one) => one !== undefined);
          const smallest = Math.min(...offered.filter(accepts).map(({ share }) => share.counter));
          const taken = queue.take(accepts);
          if (taken) {
            assert.ok(offered.includes(taken) && accepts(taken));
            assert.equal(taken.share.counter, smallest);
          } else assert.equal(smallest, Infinity);
          model = model.filter((one) => one !== taken);
        } else if ('add' in step) {
          const waiting = { share: of(step.add), isRetry: step.isRetry, number: number++ };
          model.push(waiting);
          queue.add(waiting);
        } else if ('remove' in step) {
          const [removed] = model.splice(step.remove % Math.max(1, model.length), 1);
          if (removed) assert.ok(queue.remove(removed));
          if (removed) assert.ok(!queue.remove(removed));
        } else shares.charge(of(step.charge), step.work);
        assert.equal(queue.size, model.length);
        const counters = model.map(({ share }) => share.counter);
        assert.equal(queue.smallestCounter, counters.length > 0 ? Math.min(...counters) : null);
        for (const index of [0, 1, 2, 3]) {
          assert.equal(of(index).waiting, model.filter(({ share }) => share === of(index)).length);
        }
      }
      assert.deepEqual(new Set(queue.clear()), new Set(model));
      assert.equal(queue.size, 0);
    }),
  );
});

/** Serves `count` requests of accounts that always have a request waiting, each with this work. Returns the requests served by account. */
function serve(
  queue: FairQueue<Waiting>,
  shares: AccountShares,
  count: number,
  work: (share: AccountShare) => number,
) {
  const served = new Map<string, number>();
  for (let number = 0; number < count; number++) {
    const next = queue.take();
    assert.ok(next);
    served.set(next.share.accountId, (served.get(next.share.accountId) ?? 0) + 1);
    shares.charge(next.share, work(next.share));
    queue.add({ ...next, number });
  }
  return served;
}

test('accounts get work in proportion to their weights', () => {
  const shares = new AccountShares();
  const queue = new FairQueue<Waiting>();
  for (const [index, weight] of [1, 2, 5].entries()) {
    queue.add({ share: shares.of(accounts[index] ?? '', weight), isRetry: false, number: index });
  }
  const served = serve(queue, shares, 800, () => 100);
  assert.deepEqual(
    ['a', 'b', 'c'].map((account) => served.get(account)),
    [100, 200, 500],
  );
});

test('an account with long requests gets fewer of them', () => {
  const shares = new AccountShares();
  const queue = new FairQueue<Waiting>();
  for (const account of ['a', 'b']) queue.add({ share: shares.of(account, 1), isRetry: false, number: 0 });
  const served = serve(queue, shares, 400, ({ accountId }) => (accountId === 'a' ? 300 : 100));
  assert.deepEqual([served.get('a'), served.get('b')], [100, 300]);
});

test('a returning account gets at least the smallest counter of the waiting accounts, so it cannot accumulate credit', () => {
  const shares = new AccountShares();
  const [idle, busy] = [shares.of('idle', 1), shares.of('busy', 1)];
  shares.charge(busy, 5000);
  shares.lift(idle, 5000);
  assert.equal(idle.counter, 5000);
  idle.waiting = 1;
  shares.charge(busy, 100);
  shares.lift(idle, 5100);
  assert.equal(idle.counter, 5000, 'it already waits');
});

test('an account that returns while no account waits gets the largest counter, so that all start equal', () => {
  const shares = new AccountShares();
  shares.charge(shares.of('busy', 1), 700);
  shares.charge(shares.of('other', 1), 100);
  for (const name of ['other', 'new']) {
    const share = shares.of(name, 1);
    shares.lift(share, null);
    assert.equal(share.counter, 700);
  }
});

test('a new account that waits with others gets the smallest of their counters', () => {
  const shares = new AccountShares();
  shares.charge(shares.of('running', 1), 700);
  const fresh = shares.of('new', 1);
  shares.lift(fresh, 100);
  assert.equal(fresh.counter, 100);
});

/** Starts the next request. Returns its account. */
function startNext(queue: FairQueue<Waiting>, shares: AccountShares): string {
  const next = queue.take();
  assert.ok(next);
  shares.start(next.share);
  return next.share.accountId;
}

test('an account that has waited longer goes before new accounts with an equal counter', () => {
  const shares = new AccountShares();
  const queue = new FairQueue<Waiting>();
  const served = ['patient', 'new 1', 'new 2', 'new 3'].map((account, number) => {
    for (const name of number === 0 ? [account, 'new 0'] : [account]) {
      const share = shares.of(name, 1);
      shares.lift(share, queue.smallestCounter);
      queue.add({ share, isRetry: false, number });
    }
    return startNext(queue, shares);
  });
  assert.deepEqual(served, ['patient', 'new 0', 'new 1', 'new 2']);
});

test('accounts with equal counters take turns', () => {
  const shares = new AccountShares();
  const queue = new FairQueue<Waiting>();
  for (let number = 0; number < 6; number++) {
    queue.add({ share: shares.of(number < 4 ? 'many' : 'few', 1), isRetry: false, number });
  }
  const served = Array.from({ length: 6 }, () => startNext(queue, shares));
  assert.deepEqual(served, ['many', 'few', 'many', 'few', 'many', 'many']);
});

test('inactive accounts are forgotten when there are many, and active ones are kept', () => {
  const shares = new AccountShares();
  const running = shares.of('running', 1);
  running.running = 1;
  shares.charge(running, 42);
  for (let index = 0; index < 10_000; index++) shares.of(`account ${index}`, 1);
  assert.equal(shares.of('running', 1), running);
  assert.deepEqual(shares.active(), [running]);
});
