import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { PlanLimits } from '../../../src/config/plan.ts';
import { demand, headersOf, KINDS, MEMORY, VALKEY, type Fleet, type Request } from './fleet.ts';

/** Concurrent requests: the instance, key and model of each, its maximum tokens, the percentage used, and how it ends. */
const step = fc.record({
  asks: fc.array(
    fc.record({
      instance: fc.nat(2),
      key: fc.nat(1),
      model: fc.nat(1),
      worst: fc.integer({ min: 1, max: 60 }),
      used: fc.nat(100),
      ends: fc.constantFrom('well', 'fault', 'later'),
    }),
    { maxLength: 12 },
  ),
  /** Whether an instance reads the ledger again at the same time. */
  invalidate: fc.boolean(),
});

type Ask =
  typeof step extends fc.Arbitrary<infer Step> ? (Step extends { asks: (infer One)[] } ? One : never) : never;

const quotas = fc.record({
  plan: fc.record(
    {
      tokensPerDay: fc.integer({ min: 20, max: 400 }),
      tokensPerMonth: fc.integer({ min: 20, max: 400 }),
      usdPerMonth: fc.integer({ min: 1, max: 300 }).map((micro) => `0.${String(micro).padStart(6, '0')}`),
      requestsInFlight: fc.integer({ min: 1, max: 6 }),
    },
    { requiredKeys: [] },
  ),
  key: fc.option(fc.record({ tokensPerDay: fc.integer({ min: 20, max: 200 }) })),
  large: fc.option(fc.record({ tokensPerDay: fc.integer({ min: 20, max: 200 }) })),
});

const MODELS = ['test/small', 'test/large'];
/** Pico-dollars per token: one micro-dollar. */
const PRICE = 1_000_000n;

let accounts = 0;

for (const kind of KINDS) {
  describe(`limits ${kind.name}`, { skip: kind.skip }, () => {
    test('concurrent requests never exceed the limits of day, month, money and requests in flight', async () => {
      await using fleet = await kind.open();
      await fc.assert(
        fc.asyncProperty(quotas, fc.array(step, { maxLength: 8 }), async ({ plan, key, large }, steps) => {
          const limits: PlanLimits = { ...plan, ...(large ? { models: { 'test/large': large } } : {}) };
          const tracker = new UsageTracker(fleet, limits, key);
          for (const { asks, invalidate } of steps) {
            const asking = asks.map((ask) => tracker.ask(ask));
            if (invalidate) fleet.instances[0]?.invalidate();
            await Promise.all(asking);
            tracker.check();
            await tracker.endSome();
            tracker.check();
          }
          await tracker.endAll();
        }),
        { numRuns: kind === MEMORY ? 200 : 60 },
      );
    });

    test("concurrent requests never take more than a bucket's capacity", async () => {
      await using fleet = await kind.open();
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 1, max: 30 }),
          fc.array(fc.nat(2), { maxLength: 60 }),
          async (burst, instances) => {
            // One per minute, so that almost nothing is refilled during the test.
            const limits = {
              requestsPerMinute: 1,
              tokensPerMinute: 1,
              burst: { requests: burst, tokens: 4 * burst },
            };
            const ask = demand(limits, { accountId: `acct_${accounts++}`, worstTokens: 1000 });
            const decisions = await Promise.all(instances.map((instance) => fleet.admit(ask, instance)));
            const admitted = decisions.filter((decision) => decision.admitted).length;
            assert.equal(admitted, Math.min(burst, 4, instances.length));
          },
        ),
        { numRuns: 40 },
      );
    });

    test('the tokens of a minute exceed its limit only by what running requests use beyond their reservations', async () => {
      await using fleet = await kind.open();
      await fc.assert(
        fc.asyncProperty(
          fc.integer({ min: 4, max: 400 }),
          fc.array(fc.tuple(fc.integer({ min: 1, max: 500 }), fc.nat(100)), { minLength: 1, maxLength: 20 }),
          async (burst, uses) => {
            const limits = { tokensPerMinute: 1, burst: { tokens: burst } };
            const accountId = `acct_${accounts++}`;
            const share = Math.max(1, Math.floor(burst / 4));
            let used = 0;
            let beyond = 0;
            const running: [Request, number][] = [];
            for (const [index, [worstTokens, percent]] of uses.entries()) {
              const { request } = await fleet.admit(demand(limits, { accountId, worstTokens }), index);
              const tokens = Math.floor((worstTokens * percent) / 100);
              if (request) running.push([request, tokens]);
              // Every other request continues to run.
              if (index % 2 === 0 || running.length === 0) continue;
              const [ended, spent] = running.shift() as [Request, number]; // The list is not empty.
              used += spent;
              beyond += Math.max(0, spent - Math.min(share, ended.reservation.tokens));
              await ended.end(spent);
            }
            assert.ok(used <= burst + beyond, `${used} of ${burst}, and ${beyond} beyond`);
          },
        ),
        { numRuns: 60 },
      );
    });
  });
}

test('memory and Valkey make the same decisions', { skip: VALKEY.skip }, async () => {
  await using memory = await MEMORY.open();
  await using valkey = await VALKEY.open();
  const bounds = fc.record(
    {
      requestsPerMinute: fc.constant(1),
      tokensPerMinute: fc.constant(1),
      requestsInFlight: fc.integer({ min: 1, max: 5 }),
      tokensPerDay: fc.integer({ min: 1, max: 300 }),
      tokensPerMonth: fc.integer({ min: 1, max: 300 }),
      usdPerMonth: fc.constantFrom('0.000100', '0.0002', '1'),
      burst: fc.record({
        requests: fc.integer({ min: 1, max: 20 }),
        tokens: fc.integer({ min: 1, max: 300 }),
      }),
    },
    { requiredKeys: ['burst'] },
  );
  const limits = fc.record({ plan: bounds, large: fc.option(bounds), key: fc.option(bounds) });
  await fc.assert(
    fc.asyncProperty(limits, fc.array(step, { maxLength: 6 }), async ({ plan, large, key }, steps) => {
      const planLimits: PlanLimits = { ...plan, ...(large ? { models: { 'test/large': large } } : {}) };
      const trackers = [memory, valkey].map((fleet) => new UsageTracker(fleet, planLimits, key));
      for (const { asks } of steps) {
        for (const ask of asks) {
          const [here, there] = await Promise.all(trackers.map((one) => one.ask(ask)));
          assert.deepEqual(here, there);
        }
        await Promise.all(trackers.map((one) => one.endSome()));
      }
      await Promise.all(trackers.map((one) => one.endAll()));
    }),
    { numRuns: 100 },
  );
});

/** Counts what the callers of one account did. */
class UsageTracker {
  readonly #fleet: Fleet;
  readonly #limits: PlanLimits;
  readonly #keyLimits: PlanLimits | null;
  readonly #accountId = `acct_${accounts++}`;
  readonly #entries: Entry[] = [];

  constructor(fleet: Fleet, limits: PlanLimits, keyLimits: PlanLimits | null) {
    this.#fleet = fleet;
    this.#limits = limits;
    this.#keyLimits = keyLimits;
  }

  /** The decision without values that depend on the clock. */
  async ask(ask: Ask): Promise<unknown> {
    const model = MODELS[ask.model] ?? '';
    const keyId = `key_${ask.key}`;
    const decision = await this.#fleet.admit(
      demand(this.#limits, {
        accountId: this.#accountId,
        keyId,
        model,
        keyLimits: ask.key === 0 ? this.#keyLimits : null,
        worstTokens: ask.worst,
        worstPico: BigInt(ask.worst) * PRICE,
      }),
      ask.instance,
    );
    if (decision.request) {
      this.#entries.push({
        ...ask,
        request: decision.request,
        keyId,
        model,
        tokens: ask.worst,
        running: true,
      });
    }
    const {
      'x-ratelimit-reset-requests': _,
      'x-ratelimit-reset-tokens': __,
      ...headers
    } = headersOf(decision.headers);
    if (decision.admitted) return { headers, against: decision.reservation.appliedLimits };
    const { code, message } = decision.denial;
    // Which of two buckets is full first depends on the millisecond.
    if (code.endsWith('_minute')) return { headers, code: 'a minute' };
    return { headers, code, message: message.replace(/at \d{4}.*/, '') };
  }

  /** Ends the requests that end on their own, in the order of admission. */
  async endSome(): Promise<void> {
    for (const entry of this.#entries) if (entry.running && entry.ends !== 'later') await this.#end(entry);
  }

  async endAll(): Promise<void> {
    for (const entry of this.#entries) if (entry.running) await this.#end(entry);
  }

  /** Checks that no limit is exceeded, even if every running request uses its maximum. */
  check(): void {
    const { tokensPerDay, tokensPerMonth, usdPerMonth, requestsInFlight, models } = this.#limits;
    const sum = (which: (entry: Entry) => boolean = () => true) =>
      this.#entries.filter(which).reduce((total, { tokens }) => total + tokens, 0);
    const all = sum();
    assert.ok(all <= (tokensPerDay ?? Infinity), `${all} tokens of the day`);
    assert.ok(all <= (tokensPerMonth ?? Infinity), `${all} tokens of the month`);
    assert.ok(all <= Math.round(Number(usdPerMonth ?? Infinity) * 1e6), `${all} micro-dollars`);
    assert.ok(this.#entries.filter(({ running }) => running).length <= (requestsInFlight ?? Infinity));
    const large = sum(({ model }) => model === 'test/large');
    assert.ok(
      large <= (models?.['test/large']?.tokensPerDay ?? Infinity),
      `${large} tokens of the large model`,
    );
    const own = sum(({ keyId }) => keyId === 'key_0');
    assert.ok(own <= (this.#keyLimits?.tokensPerDay ?? Infinity), `${own} tokens of the key`);
  }

  async #end(entry: Entry): Promise<void> {
    entry.running = false;
    if (entry.ends === 'fault') {
      entry.tokens = 0;
      await entry.request.fail();
      return;
    }
    entry.tokens = Math.floor((entry.worst * entry.used) / 100);
    await entry.request.end(entry.tokens, BigInt(entry.tokens) * PRICE);
  }
}

interface Entry extends Omit<Ask, 'model'> {
  request: Request;
  keyId: string;
  model: string;
  /** The used tokens; the maximum while the request runs. */
  tokens: number;
  running: boolean;
}
