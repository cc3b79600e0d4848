import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { PlanLimits } from '../../../src/config/plan.ts';
import type { LimitHistory } from '../../../src/accounts/limits/limiter.ts';
import { MemoryLimiter } from '../../../src/accounts/limits/memory.ts';
import { demand, FakeLedger, Fleet, headersOf, type Request } from './fleet.ts';

const DAY_MS = 86_400_000;

/** Limits in memory on a clock that only the test moves. */
class Clock {
  ms: number;
  readonly fleet: Fleet;

  constructor(startMs = Date.UTC(2026, 0, 31, 12), reservedShare = 0.25) {
    this.ms = startMs;
    const ledger = new FakeLedger(() => this.ms);
    const clock = { now: () => this.ms, elapsed: () => this.ms - startMs + 0.7 };
    this.fleet = new Fleet(ledger, [new MemoryLimiter({ history: ledger, reservedShare, clock })]);
  }
}

const perMinute = fc.oneof(fc.integer({ min: 1, max: 1000 }), fc.integer({ min: 1, max: 100_000_000_000 }));

describe('usage in the ledger', () => {
  test('is read only for the account and the keys that have limits', async () => {
    const { fleet } = new Clock();
    const limits = { tokensPerDay: 1000 };
    for (const [ask, keyIds, otherKeys] of [
      [demand(limits, { accountId: 'a', keyId: 'key_1' }), [], true],
      [demand({}, { accountId: 'b', keyId: 'key_1', keyLimits: limits }), ['key_1'], false],
      [demand(limits, { accountId: 'c', keyId: 'key_1', keyLimits: limits }), ['key_1'], true],
      // The account was read before.
      [demand(limits, { accountId: 'c', keyId: 'key_2', keyLimits: limits }), ['key_2'], false],
    ] as const) {
      await fleet.admit(ask);
      assert.deepEqual(fleet.ledger.lastRead, { accountId: ask.accountId, keyIds, otherKeys });
    }
  });
});

describe('limits over time', () => {
  test('the only caller of an account is admitted after the stated wait, and not a millisecond earlier', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          requestsPerMinute: perMinute,
          tokensPerMinute: perMinute,
          burst: fc.record({
            requests: fc.integer({ min: 1, max: 9 }),
            tokens: fc.integer({ min: 1, max: 10_000 }),
          }),
        }),
        fc.array(fc.tuple(fc.integer({ min: 1, max: 4000 }), fc.nat(4000), fc.nat(30_000)), {
          minLength: 1,
          maxLength: 20,
        }),
        async (limits, asks) => {
          const clock = new Clock();
          for (const [worstTokens, used, passedMs] of asks) {
            clock.ms += passedMs;
            const ask = demand(limits, { worstTokens });
            let { request, ...decision } = await clock.fleet.admit(ask);
            if (!decision.admitted) {
              const waitMs = decision.denial.retryAfterMs;
              assert.ok(waitMs !== null && waitMs > 0);
              clock.ms += waitMs - 1;
              await clock.fleet.denied(ask);
              clock.ms += 1;
              request = await clock.fleet.run(ask);
            }
            await request?.end(Math.min(used, worstTokens));
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test('the stated wait is also exact at the end of a day and of a month', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          plan: fc.record(
            {
              tokensPerDay: fc.integer({ min: 1, max: 300 }),
              tokensPerMonth: fc.integer({ min: 1, max: 300 }),
              usdPerMonth: fc.constantFrom('0.000100', '0.00025'),
              requestsPerMinute: fc.integer({ min: 1, max: 5 }),
            },
            { requiredKeys: [] },
          ),
          start: fc.integer({ min: Date.UTC(2026, 0), max: Date.UTC(2032, 0) }),
        }),
        fc.array(fc.tuple(fc.integer({ min: 1, max: 200 }), fc.nat(200), fc.nat(DAY_MS)), { maxLength: 12 }),
        async ({ plan, start }, asks) => {
          const clock = new Clock(start);
          for (const [worstTokens, used, passedMs] of asks) {
            clock.ms += passedMs;
            const ask = demand(plan, { worstTokens, worstPico: BigInt(worstTokens) * 1_000_000n });
            let { request, ...decision } = await clock.fleet.admit(ask);
            if (!decision.admitted) {
              const waitMs = decision.denial.retryAfterMs;
              if (waitMs === null) {
                assert.match(decision.denial.message, /Lower `max_tokens`\.$/);
                continue;
              }
              clock.ms += waitMs - 1;
              await clock.fleet.denied(ask);
              clock.ms += 1;
              request = await clock.fleet.run(ask);
            }
            const tokens = Math.min(used, worstTokens);
            await request?.end(tokens, BigInt(tokens) * 1_000_000n);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  test('in any period no more requests are admitted than burst and refill allow', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 600 }),
        fc.integer({ min: 1, max: 50 }),
        fc.array(fc.integer({ min: 0, max: 5000 }), { maxLength: 150 }),
        async (requestsPerMinute, burst, pauses) => {
          const clock = new Clock();
          const ask = demand({ requestsPerMinute, burst: { requests: burst } });
          const admittedAt: number[] = [];
          for (const pause of pauses) {
            clock.ms += pause;
            if ((await clock.fleet.admit(ask)).admitted) admittedAt.push(clock.ms);
          }
          for (const [first, from] of admittedAt.entries()) {
            for (const [last, to] of admittedAt.entries()) {
              if (last < first) continue;
              const most = Math.floor(burst + (requestsPerMinute * (to - from)) / 60_000);
              assert.ok(
                last - first + 1 <= most,
                `${last - first + 1} from ${from} to ${to}, at most ${most}`,
              );
            }
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  test('in any period no more tokens are used than burst, refill and the last debt allow', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 10, max: 6000 }),
        fc.array(fc.tuple(fc.integer({ min: 1, max: 500 }), fc.nat(5000)), { maxLength: 100 }),
        async (tokensPerMinute, asks) => {
          const clock = new Clock();
          const startMs = clock.ms;
          let before = 0;
          for (const [worstTokens, pause] of asks) {
            clock.ms += pause;
            const { request } = await clock.fleet.admit(demand({ tokensPerMinute }, { worstTokens }));
            if (!request) continue;
            // The usage before admission and the reservation of the request are within the limit together.
            const aside = Math.min(worstTokens, Math.max(1, Math.floor(tokensPerMinute / 4)));
            const most = tokensPerMinute + (tokensPerMinute * (clock.ms - startMs)) / 60_000;
            assert.ok(before + aside <= most + 1e-6, `${before} and ${aside} of ${most}`);
            before += worstTokens;
            await request.end(worstTokens);
          }
        },
      ),
      { numRuns: 100 },
    );
  });

  test('durations in headers are in milliseconds, seconds, minutes and hours', async () => {
    const reset = async (limits: PlanLimits, used: number): Promise<string | undefined> => {
      const clock = new Clock(undefined, 1);
      const decision = await clock.fleet.admit(demand(limits, { worstTokens: used }));
      return headersOf(decision.headers)['x-ratelimit-reset-tokens'];
    };
    assert.equal(await reset({ tokensPerMinute: 60_000 }, 120), '120ms');
    assert.equal(await reset({ tokensPerMinute: 60 }, 1), '1s');
    assert.equal(await reset({ tokensPerMinute: 40 }, 1), '1.5s');
    assert.equal(await reset({ tokensPerMinute: 1, burst: { tokens: 10 } }, 6), '6m0s');
    assert.equal(await reset({ tokensPerMinute: 1, burst: { tokens: 100 } }, 61), '1h1m0s');
  });
});

describe('limits and the calendar', () => {
  test('a request counts in the day and month in which it started', async () => {
    const clock = new Clock(Date.UTC(2026, 0, 31, 23, 59, 59));
    const ask = demand({ tokensPerDay: 100, tokensPerMonth: 150 }, { worstTokens: 100 });
    const running = await clock.fleet.run(ask);
    clock.ms += 1000;
    const next = await clock.fleet.run(ask);
    await running.end(100);
    await next.end(50);
    await clock.fleet.run({ ...ask, worstTokens: 50 });
    await clock.fleet.denied({ ...ask, worstTokens: 51 });
  });

  test('setting the wall clock back does not reset a day', async () => {
    const clock = new Clock(Date.UTC(2026, 0, 30, 23));
    const ask = demand({ tokensPerDay: 100 }, { worstTokens: 100 });
    await (await clock.fleet.run(ask)).end(100);
    clock.ms += 3_600_000;
    const running: Request = await clock.fleet.run(ask);
    clock.ms -= 3_600_000;
    assert.equal((await clock.fleet.denied(ask)).code, 'insufficient_quota');
    await running.end(40);
    clock.ms += 3_600_000;
    await clock.fleet.run({ ...ask, worstTokens: 60 });
    await clock.fleet.denied({ ...ask, worstTokens: 1 });
  });
});

describe('limits of instances without a shared store', () => {
  test('what other instances use and reserve counts once the ledger is read again', async () => {
    const now = Date.UTC(2026, 0, 31, 12);
    let elapsed = 0;
    const ledger = new FakeLedger(() => now);
    const clock = { now: () => now, elapsed: () => elapsed };
    const open = () => new MemoryLimiter({ history: ledger, reservedShare: 1, rereadMs: 3000, clock });
    const fleet = new Fleet(ledger, [open(), open()]);
    const ask = demand({ usdPerMonth: '1' }, { worstPico: 400_000_000_000n });
    const first = await fleet.run(ask, 0);
    const second = await fleet.run(ask, 1);
    elapsed += 3000;
    // Both count their own request and that of the other.
    for (const instance of [0, 1])
      assert.match((await fleet.denied(ask, instance)).message, /\$0\.4 reserved/);
    await first.end(1, 100_000_000_000n);
    await second.end(1, 700_000_000_000n);
    elapsed += 3000;
    for (const instance of [0, 1]) assert.equal((await fleet.denied(ask, instance)).retryAfterMs, 43_200_000);
  });
});

describe('limits after a restart', () => {
  test('a restart grants no second burst and no second budget', async () => {
    const clock = new Clock();
    const limits = { requestsPerMinute: 3, tokensPerMinute: 300, tokensPerDay: 1000 };
    const ask = demand(limits, { worstTokens: 100 });
    for (const tokens of [100, 100]) await (await clock.fleet.run(ask)).end(tokens);
    const again = new MemoryLimiter({
      history: clock.fleet.ledger,
      reservedShare: 1,
      clock: { now: () => clock.ms, elapsed: () => 0 },
    });
    const status = await again.status(ask);
    assert.deepEqual(
      status.map(({ limit, used }) => [limit, used]),
      [
        ['requestsPerMinute', 2],
        ['tokensPerMinute', 200],
        ['tokensPerDay', 200],
      ],
    );
  });

  test('accounts are removed from memory when their buckets are full and nothing runs', async () => {
    const clock = new Clock();
    const limits = { requestsPerMinute: 60, tokensPerDay: 10 };
    const busy = await clock.fleet.run(demand(limits, { accountId: 'busy' }));
    const first = demand(limits, { accountId: 'first' });
    await (await clock.fleet.run(first)).end(1);
    const readsOf = async (accountId: string) => {
      const before = clock.fleet.ledger.reads;
      await clock.fleet.instances[0]?.status(demand(limits, { accountId }));
      return clock.fleet.ledger.reads - before;
    };
    assert.equal(await readsOf('first'), 0);
    clock.ms += 60_000;
    for (let index = 0; index < 5000; index++) {
      await clock.fleet.instances[0]?.status(demand(limits, { accountId: `acct_${index}` }));
    }
    assert.equal(await readsOf('first'), 1);
    assert.equal(await readsOf('busy'), 0);
    await busy.end(1);
    await (await clock.fleet.run({ ...first, worstTokens: 9 })).end(9);
    await clock.fleet.denied(first);
  });

  test('resetting the counters keeps running requests and removes accounts without any', async () => {
    const ledger = new FakeLedger();
    const limits = new MemoryLimiter({ history: ledger, reservedShare: 1 });
    const fleet = new Fleet(ledger, [limits]);
    const ask = demand({ requestsInFlight: 1 });
    const running = await fleet.run(ask);
    await (await fleet.run({ ...ask, accountId: 'acct_2' })).end(1);
    limits.restart(1);
    assert.deepEqual(
      [...limits.activeReservations()].map(({ accountId }) => accountId),
      ['acct_1'],
    );
    await fleet.denied(ask);
    await running.end(1);
    await fleet.run(ask);
  });

  test('`resetsAt` of a bucket is the time on the wall clock at which it will be full', async () => {
    const clock = new Clock();
    const ask = demand({ requestsPerMinute: 60, tokensPerMinute: 60 }, { worstTokens: 2 });
    await (await clock.fleet.run(ask)).end(2);
    const status = await clock.fleet.instances[0]?.status(ask);
    assert.deepEqual(
      status?.map(({ limit, resetsAt }) => [limit, (resetsAt ?? NaN) - clock.ms]),
      [
        ['requestsPerMinute', 1000],
        ['tokensPerMinute', 2000],
      ],
    );
  });

  test('usage that is settled while the ledger is read is counted once', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.nat(30), { minLength: 1, maxLength: 6 }),
        async (scheduler, uses) => {
          const ledger = new FakeLedger();
          const history = {
            // Rows are read at one moment and returned at another.
            read: async (...query: Parameters<LimitHistory['read']>) => {
              await scheduler.schedule(Promise.resolve(), 'reads');
              const entries = await ledger.read(...query);
              await scheduler.schedule(Promise.resolve(), 'answers');
              return entries;
            },
          };
          const limits = new MemoryLimiter({ history, reservedShare: 1 });
          const fleet = new Fleet(ledger, [limits]);
          const ask = demand({ tokensPerDay: 1000 }, { worstTokens: 30 });
          const running = await scheduler.waitFor(Promise.all(uses.map(() => fleet.run(ask))));
          limits.invalidate();
          const status = limits.status(ask);
          const ends = uses.map(async (tokens, index) => {
            await scheduler.schedule(Promise.resolve(), 'ends in the ledger');
            running[index]?.endRow(tokens);
            await scheduler.schedule(Promise.resolve(), 'ends');
            void running[index]?.end(tokens);
          });
          await scheduler.waitFor(Promise.all([status, ...ends]));
          const total = uses.reduce((sum, tokens) => sum + tokens, 0);
          const [now] = await scheduler.waitFor(limits.status(ask));
          assert.equal(now?.used, total);
        },
      ),
      { numRuns: 200 },
    );
  });
});
