import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { scripted, type Directive } from '../../src/engine/scripted/options.ts';
import { chat, HeldClock, MODEL, scriptedYaml, startService, until, type TestService } from '../harness.ts';
import { Management } from '../management.ts';
import { valkeyUrl, withoutValkey } from '../servers.ts';
import { assertError, exchange, requestText, Wire, type WireAnswer } from './wire.ts';

/** What limits hold requests to, through the whole service; what each limit does by itself, `test/accounts/limits`. */
const PLANS = `plans:
  wide: {requestsPerMinute: 1000, tokensPerMinute: 100000}
  refilling: {requestsPerMinute: 120, burst: {requests: 1}}
  single: {requestsPerMinute: 1000, requestsInFlight: 1}
  narrow: {requestsPerMinute: 1, burst: {requests: 2}}
  budget: {usdPerMonth: '0.02'}
defaultPlan: wide
limits: {bodyBytes: 1024, bodyMs: 1000}
`;
const YAML = scriptedYaml({ contextTokens: 200, tokens: 8 }, PLANS).replace(
  '    engine:',
  "    pricing: {prompt: '10', completion: '10'}\n    engine:",
);
const CHAT = 'POST /v1/chat/completions';
const NAMES = ['requests', 'tokens'].flatMap((kind) =>
  ['limit', 'remaining', 'reset'].map((word) => `x-ratelimit-${word}-${kind}`),
);

const stores = [
  {
    name: 'in this process',
    skip: false as const,
    env: async () => ({}),
    wait: async (clock: HeldClock, ms: number) => clock.advance(ms),
  },
  {
    name: 'in Valkey',
    skip: withoutValkey,
    env: async () => ({ SLUICE_VALKEY_URL: await valkeyUrl() }),
    // Its clock is the server's.
    wait: async (_: HeldClock, ms: number) => {
      const since = performance.now();
      await until(() => performance.now() - since >= ms);
    },
  },
];

for (const { name, skip, env, wait } of stores) {
  describe(`limits ${name}`, { skip }, () => {
    test('every answer to a caller who is known says what is left, and no other does', async () => {
      await using it = await Metered.start(await env());
      const { key } = await it.manager.caller();
      const { key: elsewhere } = await it.manager.caller(null, { allowed_models: ['test/other'] });
      const half = { Authorization: `Bearer ${key}`, 'Content-Length': '10' };
      const cases: [status: number, answer: WireAnswer][] = [
        [200, await it.ask(key, {})],
        [200, await it.ask(key, {}, { stream: true })],
        [400, await it.ask(key, {}, { temperature: 3 })],
        [400, await it.ask(key, {}, { messages: [{ role: 'user', content: 'x'.repeat(900) }] })],
        [404, await it.ask(key, {}, { model: 'test/nothing' })],
        [403, await it.ask(elsewhere, {})],
        [408, await exchange(it.test.url, requestText(CHAT, half))],
        [413, await it.ask(key, {}, { user: 'x'.repeat(1024) })],
        [500, await it.ask(key, { error: 'internal_error' })],
        [503, await it.ask(key, { error: 'engine_unavailable' })],
      ];
      for (const [status, answer] of cases) {
        assert.equal(answer.status, status, answer.body);
        for (const header of NAMES) assert.match(answer.header(header) ?? '', /^\d/, `${status} ${header}`);
      }
      const unknown = await it.ask(`${key}x`, {});
      assert.equal(unknown.status, 401);
      const models = await exchange(it.test.url, requestText('GET /v1/models', bearer(key)));
      assert.equal(models.status, 200);
      for (const answer of [unknown, models]) {
        for (const header of NAMES) assert.equal(answer.header(header), null);
      }
    });

    test('a request that is refused, or that our fault ends, takes nothing of the limits', async () => {
      await using it = await Metered.start(await env());
      const { key } = await it.manager.caller('narrow');
      assertError(await it.ask(key, {}, { temperature: 3 }), 'invalid_value', 'temperature');
      assertError(await it.ask(key, { error: 'internal_error' }), 'internal_error');
      assertError(await it.ask(key, { error: 'engine_unavailable' }), 'engine_unavailable');
      for (const left of ['1', '0']) {
        const answer = await it.ask(key, {});
        assert.deepEqual(
          [answer.status, answer.header('x-ratelimit-remaining-requests')],
          [200, left],
          answer.body,
        );
      }
      const refused = await it.ask(key, {});
      assertError(refused, 'requests_per_minute');
      // Nor has one that the limits refused a row in the ledger.
      assert.equal(await it.manager.receipt(refused.header('x-request-id') ?? ''), null);
    });

    test('a caller who waits for as long as a 429 says is admitted', async () => {
      await using it = await Metered.start(await env());
      const { key } = await it.manager.caller('refilling');
      let refusals = 0;
      for (let round = 0; refusals < 3; round += 1) {
        assert.ok(round < 1000, 'the burst is never used up');
        const answer = await it.ask(key, {});
        if (answer.status === 200) continue;
        refusals += 1;
        assertError(answer, 'requests_per_minute');
        const waitMs = Number(answer.header('retry-after-ms'));
        assert.ok(waitMs >= 1 && waitMs <= 500, String(waitMs));
        assert.equal(answer.header('retry-after'), '1');
        await wait(it.clock, waitMs);
        const next = await it.ask(key, {});
        assert.equal(next.status, 200, next.body);
      }
    });

    test('a place in flight is free when its answer has ended, was left, or failed', async () => {
      await using it = await Metered.start(await env());
      const { key } = await it.manager.caller('single');
      const endings: ((wire: Wire) => Promise<unknown>)[] = [
        async (wire) => wire.socket.resetAndDestroy(),
        (wire) => wire.rest(),
      ];
      for (const [index, end] of endings.entries()) {
        using wire = await Wire.open(it.test.url);
        const slow = index === 0 ? { tokenMs: 1_000_000 } : { tokens: 3, tokenMs: 1, errorAfter: 2 };
        wire.send(it.text(key, slow, { stream: true }, { Connection: 'close' }));
        await wire.head();
        if (index === 0) assertError(await it.ask(key, {}), 'concurrent_requests');
        await end(wire);
        await until(async () => (await it.ask(key, {})).status === 200);
      }
    });

    test('all keys of an account share its plan, and the limits of a key are for that key alone', async () => {
      await using it = await Metered.start(await env());
      const first = await it.manager.caller('narrow', { limits: { requests_per_minute: 1 } });
      const second = await it.manager.key(first.accountId);
      assert.equal((await it.ask(first.key, {})).status, 200);
      const ofKey = await it.ask(first.key, {});
      assertError(ofKey, 'requests_per_minute');
      assert.match(ofKey.body, /This key allows 1 request per minute/);
      assert.equal((await it.ask(second.key, {})).status, 200);
      const ofPlan = await it.ask(second.key, {});
      assertError(ofPlan, 'requests_per_minute');
      assert.match(ofPlan.body, /The plan \\"narrow\\" allows 1 request per minute/);
      const stranger = await it.manager.caller('narrow');
      assert.equal((await it.ask(stranger.key, {})).status, 200);
    });

    test('many requests at once do not overrun a budget', async () => {
      await using it = await Metered.start(await env());
      const { key, accountId } = await it.manager.caller('budget');
      const answers = await Promise.all(Array.from({ length: 20 }, () => it.ask(key, {}, { max_tokens: 8 })));
      const refused = answers.filter(({ status }) => status === 429);
      assert.ok(refused.length > 0 && refused.length < 20, String(refused.length));
      for (const answer of refused) assertError(answer, 'insufficient_quota');
      const usage = await it.manager.call('GET', `/api/usage?account_id=${accountId}`);
      const spent = (usage.data as { cost_usd: string }[]).reduce(
        (sum, row) => sum + Number(row.cost_usd),
        0,
      );
      assert.ok(spent > 0 && spent <= 0.02, String(spent));
    });

    test('a key that may use some models sees and uses those alone', async () => {
      await using it = await Metered.start(await env());
      const { key } = await it.manager.caller(null, { allowed_models: [MODEL] });
      const { key: none } = await it.manager.caller(null, { allowed_models: ['test/other'] });
      assert.equal((await it.ask(key, {})).status, 200);
      assert.deepEqual([await it.models(key), await it.models(none)], [[MODEL], []]);
      assertError(await it.ask(none, {}), 'model_not_allowed', 'model');
      assertError(await it.ask(none, {}, { stream: true }), 'model_not_allowed', 'model');
      const one = await exchange(it.test.url, requestText(`GET /v1/models/${MODEL}`, bearer(none)));
      assertError(one, 'model_not_allowed', 'model');
    });
  });
}

/** A service with those plans. */
class Metered implements AsyncDisposable {
  readonly test: TestService;
  readonly manager: Management;
  readonly clock: HeldClock;

  private constructor(test: TestService, manager: Management, clock: HeldClock) {
    this.test = test;
    this.manager = manager;
    this.clock = clock;
  }

  static async start(env: NodeJS.ProcessEnv): Promise<Metered> {
    const clock = new HeldClock();
    const service = await startService(YAML, env, clock);
    return new Metered(service, await Management.of(service), clock);
  }

  text(key: string, directive: Directive, fields: object = {}, headers: Record<string, string> = {}): string {
    return requestText(CHAT, { ...bearer(key), ...headers }, chat(scripted(directive), fields));
  }

  ask(key: string, directive: Directive, fields: object = {}): Promise<WireAnswer> {
    return exchange(this.test.url, this.text(key, directive, fields));
  }

  /** Ids of the models that a key sees. */
  async models(key: string): Promise<string[]> {
    const { body } = await exchange(this.test.url, requestText('GET /v1/models', bearer(key)));
    const { data } = JSON.parse(body) as { data: { id: string }[] };
    return data.map(({ id }) => id);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.test[Symbol.asyncDispose]();
  }
}

function bearer(key: string): Record<string, string> {
  return { Authorization: `Bearer ${key}` };
}
