import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { readAppliedLimits } from '../../../src/accounts/limits/limit-status.ts';
import { until } from '../../harness.ts';
import { demand, headersOf, KINDS, type FakeLedger, type Request } from './fleet.ts';

const USD = 1_000_000_000_000n;

for (const kind of KINDS) {
  describe(`limits ${kind.name}`, { skip: kind.skip }, () => {
    test('a plan without limits admits everything and sends no headers', async () => {
      await using fleet = await kind.open();
      const ask = demand({}, { worstTokens: 1_000_000, worstPico: 5n * USD });
      const decision = await fleet.admit(ask);
      assert.ok(decision.admitted);
      assert.deepEqual(decision.headers, []);
      assert.equal(decision.reservation.appliedLimits, '[]');
      assert.equal(decision.reservation.tokens, 1_000_000);
      assert.equal(decision.reservation.pico, 5n * USD);
      await decision.request?.end(10);
      assert.equal(fleet.ledger.reads, 0);
    });

    test('a request is refused with requests_per_minute when none is left', async () => {
      await using fleet = await kind.open();
      const ask = demand({ requestsPerMinute: 2 });
      await fleet.run(ask, 0);
      await fleet.run(ask, 1);
      const denial = await fleet.denied(ask, 2);
      assert.equal(denial.code, 'requests_per_minute');
      assert.equal(denial.limit, 'requestsPerMinute');
      assert.match(
        denial.message,
        /^The plan "standard" allows 2 requests per minute, and all are used\. Try again in /,
      );
      assert.ok(denial.retryAfterMs !== null && denial.retryAfterMs > 0 && denial.retryAfterMs <= 30_000);
      assert.equal(headersOf(denial.headers)['x-ratelimit-limit-requests'], '2');
      assert.equal(headersOf(denial.headers)['x-ratelimit-remaining-requests'], '0');
    });

    test('a request is refused with tokens_per_minute when it reserves more tokens than are left', async () => {
      await using fleet = await kind.open(0.5);
      const ask = demand({ tokensPerMinute: 100 }, { worstTokens: 1000 });
      await fleet.run(ask, 0);
      await fleet.run(ask, 1);
      const denial = await fleet.denied(ask, 2);
      assert.equal(denial.code, 'tokens_per_minute');
      assert.equal(denial.limit, 'tokensPerMinute');
      assert.match(denial.message, /allows 100 tokens per minute\. 0 are left, and this request reserves 50/);
      assert.ok(
        denial.retryAfterMs !== null && denial.retryAfterMs > 20_000 && denial.retryAfterMs <= 30_000,
      );
    });

    test('usage beyond the reservation is a debt that later requests wait for', async () => {
      await using fleet = await kind.open(0.5);
      const ask = demand({ tokensPerMinute: 100 }, { worstTokens: 1000 });
      await (await fleet.run(ask)).end(350);
      const { retryAfterMs } = await fleet.denied(ask);
      // A debt of 250 and a reservation of 50: 300 tokens at 100 per minute.
      assert.ok(
        retryAfterMs !== null && retryAfterMs > 170_000 && retryAfterMs <= 180_000,
        String(retryAfterMs),
      );
    });

    test('a request that uses no tokens is admitted in spite of used tokens and debts, and pays none', async () => {
      await using fleet = await kind.open(0.5);
      const plan = { tokensPerMinute: 100, tokensPerDay: 350 };
      await (await fleet.run(demand(plan, { worstTokens: 350 }))).end(350);
      await fleet.denied(demand(plan, { worstTokens: 1 }));
      const request = await fleet.run(demand(plan, { worstTokens: 0 }));
      await request.end(0);
      assert.equal((await fleet.denied(demand(plan, { worstTokens: 1 }))).code, 'insufficient_quota');
    });

    test('a request is refused with concurrent_requests while the maximum number is running', async () => {
      await using fleet = await kind.open();
      const ask = demand({ requestsInFlight: 2 });
      const first = await fleet.run(ask, 0);
      await fleet.run(ask, 1);
      const denial = await fleet.denied(ask, 2);
      assert.equal(denial.code, 'concurrent_requests');
      assert.equal(denial.limit, 'requestsInFlight');
      assert.equal(
        denial.message,
        'The plan "standard" allows 2 concurrent requests, and 2 are running. Try again when one has ended.',
      );
      assert.equal(denial.retryAfterMs, 1000);
      await first.end(1);
      await fleet.run(ask, 2);
    });

    test('requests are refused with insufficient_quota until the day ends', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100 }, { worstTokens: 60 });
      await (await fleet.run(ask, 0)).end(50);
      const denial = await fleet.denied(ask, 0);
      assert.equal(denial.code, 'insufficient_quota');
      assert.equal(denial.limit, 'tokensPerDay');
      assert.equal(denial.retryAfterMs, 86_400_000 - (fleet.ledger.now() % 86_400_000));
      assert.match(
        denial.message,
        /^The plan "standard" allows 100 tokens per UTC day: 50 tokens used, 0 tokens reserved for running requests, and this request may use up to 60 tokens\. The limit resets at \d{4}-\d\d-\d\dT00:00:00\.000Z\.$/,
      );
      await fleet.run({ ...ask, worstTokens: 50 }, 1);
    });

    test('requests are refused with insufficient_quota until the month ends, for tokens and for money', async () => {
      await using fleet = await kind.open();
      const now = fleet.ledger.now();
      const date = new Date(now);
      const untilMonthEnds = Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) - now;
      const tokens = demand({ tokensPerMonth: 100 }, { worstTokens: 60, accountId: 'acct_tokens' });
      await (await fleet.run(tokens)).end(60);
      const ofTokens = await fleet.denied(tokens);
      assert.equal(ofTokens.retryAfterMs, untilMonthEnds);
      const money = demand({ usdPerMonth: '0.000003' }, { worstPico: 2_000_000n, accountId: 'acct_money' });
      await (await fleet.run(money)).end(1, 1_500_001n);
      const ofMoney = await fleet.denied(money);
      assert.equal(ofMoney.retryAfterMs, untilMonthEnds);
      assert.equal(ofMoney.code, 'insufficient_quota');
      assert.deepEqual([ofTokens.limit, ofMoney.limit], ['tokensPerMonth', 'usdPerMonth']);
      assert.match(ofMoney.message, /allows \$0\.000003 per UTC month: \$0\.000001501 used, \$0 reserved/);
      await fleet.run({ ...money, worstPico: 1_499_000n });
    });

    test('a denial states whether the request would fit without the running requests', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100 }, { worstTokens: 60 });
      const running = await fleet.run(ask);
      const denial = await fleet.denied(ask);
      assert.equal(denial.code, 'insufficient_quota');
      assert.equal(denial.retryAfterMs, 1000);
      assert.match(
        denial.message,
        /60 tokens reserved for running requests.*Lower `max_tokens`, or try again when/,
      );
      // A `max_tokens` of 1 would just fit beside the running request, and then no longer.
      const beside = async (tokens: number) =>
        (await fleet.denied({ ...ask, shortest: () => ({ tokens, pico: 0n }) })).message.includes(
          '`max_tokens`',
        );
      assert.deepEqual([await beside(40), await beside(41)], [true, false]);
      await running.end(1);
      await fleet.run(ask);
    });

    test('a denial states that a request can never be admitted, and how to fix it', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100, requestsPerMinute: 1 }, { worstTokens: 101 });
      const denial = await fleet.denied(ask);
      assert.equal(denial.retryAfterMs, null);
      assert.equal(
        denial.message,
        'The plan "standard" allows 100 tokens per UTC day, and this request may use up to 101 tokens. Lower `max_tokens`.',
      );
    });

    test('a denial does not suggest a lower max_tokens if that would not help', async () => {
      await using fleet = await kind.open();
      const long = { worstTokens: 150, shortest: () => ({ tokens: 120, pico: 0n }) };
      assert.equal(
        (await fleet.denied(demand({ tokensPerDay: 100 }, long))).message,
        'The plan "standard" allows 100 tokens per UTC day, and this request may use up to 150 tokens. Even with a `max_tokens` of 1, it may use up to 120 tokens. Shorten the prompt, or ask for a higher limit.',
      );
      const costly = { worstPico: USD, shortest: () => ({ tokens: 1, pico: USD / 2n }) };
      assert.match(
        (await fleet.denied(demand({ usdPerMonth: '0.25' }, costly))).message,
        /up to \$1\. Even with a `max_tokens` of 1, it may use up to \$0\.5\. Shorten the prompt, or ask for a higher limit\.$/,
      );
      const fixed = { worstTokens: 150, shortest: () => ({ tokens: 150, pico: 0n }) };
      assert.match(
        (await fleet.denied(demand({ tokensPerDay: 100 }, fixed))).message,
        /may use up to 150 tokens\. Shorten the prompt, or ask for a higher limit\.$/,
      );
      const ask = demand(
        { tokensPerDay: 100 },
        { worstTokens: 60, shortest: () => ({ tokens: 50, pico: 0n }) },
      );
      await fleet.run(ask);
      assert.match(
        (await fleet.denied(ask)).message,
        /may use up to 60 tokens\. Try again when a running request has ended\.$/,
      );
    });

    test('a denial by several limits names the one with the longest wait', async () => {
      await using fleet = await kind.open();
      const ask = demand({ requestsPerMinute: 1, tokensPerDay: 100 }, { worstTokens: 60 });
      await (await fleet.run(ask)).end(60);
      assert.equal((await fleet.denied(ask)).code, 'insufficient_quota');
      assert.equal((await fleet.denied({ ...ask, worstTokens: 40 })).code, 'requests_per_minute');
    });

    test('a key can have lower limits than its plan', async () => {
      await using fleet = await kind.open();
      const plan = { requestsInFlight: 3 };
      const limited = demand(plan, { keyLimits: { requestsInFlight: 1 } });
      const other = demand(plan, { keyId: 'key_2' });
      await fleet.run(limited);
      const own = await fleet.denied(limited);
      assert.match(own.message, /^This key allows 1 concurrent request,/);
      await fleet.run(other);
      await fleet.run(other);
      assert.match((await fleet.denied(other)).message, /^The plan "standard" allows 3 concurrent requests,/);
      assert.match((await fleet.denied(limited)).message, /concurrent request/);
    });

    test('limits of a model apply in addition to the limits across all models', async () => {
      await using fleet = await kind.open();
      const plan = { requestsInFlight: 3, models: { 'test/large': { requestsInFlight: 1 } } };
      await fleet.run(demand(plan, { model: 'test/large' }));
      const denial = await fleet.denied(demand(plan, { model: 'test/large' }));
      assert.match(denial.message, /allows 1 concurrent request for test\/large, and 1 is running/);
      await fleet.run(demand(plan));
      await fleet.run(demand(plan));
      await fleet.denied(demand(plan));
    });

    test('a denied request changes nothing', async () => {
      await using fleet = await kind.open();
      const limits = { requestsPerMinute: 5, tokensPerMinute: 1000, tokensPerDay: 100, requestsInFlight: 9 };
      const ask = demand(limits, { worstTokens: 60 });
      await fleet.run(ask);
      const instance = fleet.instances[0];
      const before = await instance?.status(ask);
      for (let index = 0; index < 20; index++) await fleet.denied(ask, index);
      const after = await instance?.status(ask);
      assert.deepEqual(withoutTimes(after), withoutTimes(before));
    });

    test('settling releases what was not used, and everything if the service failed', async () => {
      await using fleet = await kind.open(1);
      const limits = {
        requestsPerMinute: 2,
        tokensPerMinute: 100,
        requestsInFlight: 1,
        tokensPerDay: 100,
        tokensPerMonth: 100,
        usdPerMonth: '1',
      };
      const ask = demand(limits, { worstTokens: 100, worstPico: USD });
      await (await fleet.run(ask)).fail();
      await (await fleet.run(ask, 1)).fail();
      await (await fleet.run(ask, 2)).fail();
      await (await fleet.run(ask)).end(40, USD / 2n);
      const status = await fleet.instances[0]?.status(ask);
      assert.deepEqual(
        status?.map(({ limit, bound, used }) => [limit, bound, used]),
        [
          ['requestsPerMinute', 2, 1],
          ['tokensPerMinute', 100, 40],
          ['requestsInFlight', 1, 0],
          ['tokensPerDay', 100, 40],
          ['tokensPerMonth', 100, 40],
          ['usdPerMonth', 1_000_000, 500_000],
        ],
      );
      await fleet.run({ ...ask, worstTokens: 60, worstPico: USD / 2n });
    });

    test('settling twice counts once', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100, requestsInFlight: 2 }, { worstTokens: 30 });
      const request = await fleet.run(ask);
      await request.end(30);
      await request.end(30);
      const status = await fleet.instances[0]?.status(ask);
      assert.deepEqual(
        status?.map(({ used }) => used),
        [0, 30],
      );
    });

    test('the usage of an account is read from the ledger first', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100, requestsPerMinute: 3 }, { worstTokens: 30 });
      for (const tokens of [30, 30]) {
        Object.assign(fleet.ledger.open(ask), { open: false, tokens });
      }
      await (await fleet.run(ask)).end(30);
      const denial = await fleet.denied(ask);
      assert.equal(denial.code, 'insufficient_quota');
      assert.equal((await fleet.denied({ ...ask, worstTokens: 1 })).code, 'requests_per_minute');
    });

    test('requests for the same account share one read of the ledger', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100 }, { worstTokens: 10 });
      const decisions = await Promise.all(Array.from({ length: 20 }, () => fleet.admit(ask)));
      assert.equal(decisions.filter(({ admitted }) => admitted).length, 10);
      assert.equal(fleet.ledger.reads, 1);
    });

    test('requests get storage_unavailable only while the account cannot be read', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100 });
      fleet.ledger.fault = new Error('the database is away');
      await assert.rejects(async () => fleet.admit(ask), { code: 'storage_unavailable', status: 503 });
      fleet.ledger.fault = null;
      await fleet.run(ask);
    });

    test('the headers show the tightest limits, and the receipt has all limits', async () => {
      await using fleet = await kind.open();
      const plan = { requestsPerMinute: 600, tokensPerMinute: 10_000, usdPerMonth: '25' };
      const keyLimits = { requestsPerMinute: 10, burst: { requests: 5 } };
      const ask = demand(plan, { keyLimits, worstTokens: 100, worstPico: USD / 4n });
      const { request, ...decision } = await fleet.admit(ask);
      assert.ok(request);
      const headers = headersOf(decision.headers);
      assert.equal(headers['x-ratelimit-limit-requests'], '5');
      assert.equal(headers['x-ratelimit-remaining-requests'], '4');
      assert.equal(headers['x-ratelimit-reset-requests'], '6s');
      assert.equal(headers['x-ratelimit-limit-tokens'], '10000');
      assert.equal(headers['x-ratelimit-remaining-tokens'], '9900');
      assert.equal(headers['x-ratelimit-reset-tokens'], '600ms');
      assert.deepEqual(readAppliedLimits(request.reservation.appliedLimits), [
        { scope: 'account', model: null, limit: 'requestsPerMinute', bound: 600, left: 599 },
        { scope: 'account', model: null, limit: 'tokensPerMinute', bound: 10_000, left: 9900 },
        { scope: 'account', model: null, limit: 'usdPerMonth', bound: '25', left: '24.75' },
        { scope: 'key', model: null, limit: 'requestsPerMinute', bound: 10, left: 4 },
      ]);
    });

    test('`currentHeaders` returns the headers and uses up nothing', async () => {
      await using fleet = await kind.open();
      const ask = demand({ requestsPerMinute: 5 });
      const instance = fleet.instances[0];
      for (let index = 0; index < 10; index++) {
        const headers = headersOf((await instance?.currentHeaders(ask)) ?? []);
        assert.equal(headers['x-ratelimit-remaining-requests'], '5');
      }
      assert.deepEqual(await instance?.currentHeaders(demand({})), []);
      const models = { 'test/model': { requestsPerMinute: 1 } };
      const unnamed = demand({ requestsPerMinute: 5, models }, { model: '' });
      assert.equal(
        headersOf((await instance?.currentHeaders(unnamed)) ?? [])['x-ratelimit-remaining-requests'],
        '5',
      );
    });

    test('a status without a model includes the limits of all models', async () => {
      await using fleet = await kind.open();
      const plan = {
        requestsInFlight: 3,
        models: { 'test/a': { requestsInFlight: 2 }, 'test/b': { tokensPerDay: 5 } },
      };
      await fleet.run(demand(plan, { model: 'test/a' }));
      const status = await fleet.instances[0]?.status(demand(plan, { model: '' }));
      assert.deepEqual(
        status?.map(({ model, limit, bound, used }) => [model, limit, bound, used]),
        [
          [null, 'requestsInFlight', 3, 1],
          ['test/a', 'requestsInFlight', 2, 1],
          ['test/b', 'tokensPerDay', 5, 0],
        ],
      );
    });

    test('a changed plan applies to the next request, and earlier usage counts', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 1000 }, { worstTokens: 60 });
      const running = await fleet.run(ask);
      const lowered = { ...ask, planLimits: { tokensPerDay: 100 } };
      await fleet.denied(lowered);
      await running.end(10);
      await fleet.run(lowered);
    });

    test('a new limit counts usage from the ledger and running requests', async () => {
      await using fleet = await kind.open();
      const ask = demand({ requestsPerMinute: 100 }, { worstTokens: 60 });
      await (await fleet.run(ask)).end(30);
      const running = await fleet.run(ask);
      const stricter = {
        ...ask,
        planLimits: { requestsPerMinute: 100, models: { 'test/model': { tokensPerDay: 100 } } },
      };
      const denial = await fleet.denied(stricter);
      assert.equal(denial.code, 'insufficient_quota');
      await running.end(5);
      assert.equal(
        (await fleet.instances[0]?.status(stricter))?.find(({ limit }) => limit === 'tokensPerDay')?.bound,
        100,
      );
    });

    test('a new limit per minute counts the last minute, also beside a limit that the account had before', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 1000 }, { worstTokens: 60 });
      for (const instance of [0, 1]) await (await fleet.run(ask, instance)).end(10);
      const limits = { tokensPerDay: 1000, requestsPerMinute: 2 };
      const denial = await fleet.denied({ ...ask, planLimits: limits }, 2);
      assert.equal(denial.code, 'requests_per_minute');
      // A request whose limits are those of before does not clear the new one.
      const earlier = await fleet.run(ask, 1);
      await earlier.end(10);
      assert.equal((await fleet.denied({ ...ask, planLimits: limits })).code, 'requests_per_minute');
      const [status] = await fleet.instances[0]!.status({ ...ask, planLimits: limits });
      assert.deepEqual([status?.limit, status?.used], ['requestsPerMinute', 2]);
    });

    test('`invalidate` reads the ledger again and keeps running requests', async () => {
      await using fleet = await kind.open();
      const ask = demand({ tokensPerDay: 100 }, { worstTokens: 40 });
      await fleet.run(ask);
      await (await fleet.run(ask)).end(40);
      for (const instance of fleet.instances) instance.invalidate();
      const used = async () => (await fleet.instances[0]?.status(ask))?.[0]?.used;
      assert.equal(await used(), 80);
      await fleet.denied(ask);
    });

    const moments: Record<string, (ledger: FakeLedger, request: Request, invalidate: () => void) => void> = {
      'settled in the ledger before the snapshot of a read, and in the limits after the read': (
        ledger,
        request,
      ) => {
        ledger.beforeSnapshot = () => request.endRow(25, 5n);
      },
      'settled between the start of a read and its snapshot': (ledger, request) => {
        ledger.beforeSnapshot = () => void request.end(25, 5n);
      },
      'settled in the ledger before the snapshot of a read, and in the limits during the read': (
        ledger,
        request,
      ) => {
        ledger.beforeSnapshot = () => request.endRow(25, 5n);
        ledger.afterSnapshot = () => void request.end(25, 5n);
      },
      'settled after the snapshot of a read': (ledger, request) => {
        ledger.afterSnapshot = () => void request.end(25, 5n);
      },
      'settled during a read, and the counters are invalidated before the read ends': (
        ledger,
        request,
        invalidate,
      ) => {
        ledger.afterSnapshot = () => {
          ledger.afterSnapshot = () => {};
          void request.end(25, 5n);
          invalidate();
        };
      },
    };
    for (const [when, settles] of Object.entries(moments)) {
      test(`usage is counted once if it is ${when}`, async () => {
        await using fleet = await kind.open();
        const { ledger } = fleet;
        const ask = demand({ tokensPerDay: 100, tokensPerMonth: 100 }, { worstTokens: 40 });
        await (await fleet.run(ask)).end(10);
        const request = await fleet.run(ask);
        const reads = ledger.reads;
        const invalidate = () => fleet.instances[0]?.invalidate();
        settles(ledger, request, invalidate);
        invalidate();
        const used = async () => (await fleet.instances[0]?.status(ask))?.map((limit) => limit.used);
        await until(async () => {
          await used();
          return ledger.reads > reads;
        });
        await request.end(25, 5n);
        assert.deepEqual(await used(), [35, 35]);
      });
    }
  });
}

function withoutTimes(status: readonly object[] | undefined): object[] | undefined {
  return status?.map((one) => ({ ...one, resetsAt: null }));
}
