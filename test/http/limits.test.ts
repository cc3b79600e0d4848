import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { chat, ManualClock, MODEL, scriptedYaml, startService, until, type TestService } from '../harness.ts';
import { Management } from '../management.ts';
import { valkeyUrl, withoutValkey } from '../support/servers.ts';
import { assertError, exchange, requestText, Wire, type WireResponse } from './wire.ts';

/** Limits through the whole service. `test/accounts/limits` tests each limit. */
const PLANS = `plans:
  wide: {requestsPerMinute: 1000, tokensPerMinute: 100000}
  refilling: {requestsPerMinute: 120, burst: {requests: 1}}
  single: {requestsPerMinute: 1000, requestsInFlight: 1}
  narrow: {requestsPerMinute: 1, burst: {requests: 2}}
  budget: {usdPerMonth: '0.02'}
  few-tokens: {tokensPerDay: 100}
  few-cents: {usdPerMonth: '0.001'}
  some-tokens: {tokensPerDay: 250}
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
    wait: async (clock: ManualClock, ms: number) => clock.advance(ms),
  },
  {
    name: 'in Valkey',
    skip: withoutValkey,
    env: async () => ({ SLUICE_VALKEY_URL: await valkeyUrl() }),
    // Valkey uses its own clock.
    wait: async (_: ManualClock, ms: number) => {
      const since = performance.now();
      await until(() => performance.now() - since >= ms);
    },
  },
];

for (const { name, skip, env, wait } of stores) {
  describe(`limits ${name}`, { skip }, () => {
    let it: LimitedService;

    // One service for all tests, which use accounts of their own.
    before(async () => {
      it = await LimitedService.start(await env());
    });

    after(() => it[Symbol.asyncDispose]());

    test('every response to a completion request with a valid key has limit headers, and no other response does', async () => {
      const { key } = await it.manager.caller();
      const { key: elsewhere } = await it.manager.caller(null, { allowed_models: ['test/other'] });
      const half = { Authorization: `Bearer ${key}`, 'Content-Length': '10' };
      const cases: [status: number, response: WireResponse][] = [
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
      for (const [status, response] of cases) {
        assert.equal(response.status, status, response.body);
        for (const header of NAMES) assert.match(response.header(header) ?? '', /^\d/, `${status} ${header}`);
      }
      const unknown = await it.ask(`${key}x`, {});
      assert.equal(unknown.status, 401);
      const models = await exchange(it.test.url, requestText('GET /v1/models', bearer(key)));
      assert.equal(models.status, 200);
      for (const response of [unknown, models]) {
        for (const header of NAMES) assert.equal(response.header(header), null);
      }
    });

    test('a request that is refused, or fails because of the service, does not count against limits', async () => {
      const { key } = await it.manager.caller('narrow');
      assertError(await it.ask(key, {}, { temperature: 3 }), 'invalid_value', 'temperature');
      assertError(await it.ask(key, { error: 'internal_error' }), 'internal_error');
      assertError(await it.ask(key, { error: 'engine_unavailable' }), 'engine_unavailable');
      for (const left of ['1', '0']) {
        const response = await it.ask(key, {});
        assert.deepEqual(
          [response.status, response.header('x-ratelimit-remaining-requests')],
          [200, left],
          response.body,
        );
      }
      const refused = await it.ask(key, {});
      assertError(refused, 'requests_per_minute');
      // A request that is refused by a limit has no row in the ledger.
      assert.equal(await it.manager.receipt(refused.header('x-request-id') ?? ''), null);
    });

    test('requests that an engine refuses count toward the requests per minute, and those that it fails do not', async () => {
      const { key } = await it.manager.caller('narrow');
      const codes = ['engine_unavailable', 'context_length_exceeded', 'invalid_value'] as const;
      for (const error of codes) assertError(await it.ask(key, { error }), error);
      assertError(await it.ask(key, {}), 'requests_per_minute');
    });

    test('a caller that waits for the time in a 429 is admitted', async () => {
      const { key } = await it.manager.caller('refilling');
      let refusals = 0;
      for (let round = 0; refusals < 3; round += 1) {
        assert.ok(round < 1000, 'the burst is never used up');
        const response = await it.ask(key, {});
        if (response.status === 200) continue;
        refusals += 1;
        assertError(response, 'requests_per_minute');
        const waitMs = Number(response.header('retry-after-ms'));
        assert.ok(waitMs >= 1 && waitMs <= 500, String(waitMs));
        assert.equal(response.header('retry-after'), '1');
        await wait(it.clock, waitMs);
        const next = await it.ask(key, {});
        assert.equal(next.status, 200, next.body);
      }
    });

    test('a concurrent request no longer counts once it fails or its client disconnects', async () => {
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

    test('all keys of an account share its plan, and the limits of a key apply only to that key', async () => {
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

    test('concurrent requests do not exceed a budget', async () => {
      const { key, accountId } = await it.manager.caller('budget');
      // The budget is enough for 12 of them.
      const asked = Array.from({ length: 20 }, () =>
        it.ask(key, { tokens: 150, tokenMs: 1 }, { max_tokens: 150 }),
      );
      const responses = await Promise.all(asked);
      const refused = responses.filter(({ status }) => status === 429);
      assert.ok(refused.length > 0 && refused.length < 20, String(refused.length));
      for (const response of refused) assertError(response, 'insufficient_quota');
      const usage = await it.manager.call('GET', `/api/usage?account_id=${accountId}`);
      const spent = (usage.data as { cost_usd: string }[]).reduce(
        (sum, row) => sum + Number(row.cost_usd),
        0,
      );
      assert.ok(spent > 0 && spent <= 0.02, String(spent));
    });

    test('near the end of a calendar limit, the prompt is counted instead of its bytes', async () => {
      for (const plan of ['few-tokens', 'few-cents']) {
        const { key } = await it.manager.caller(plan);
        const refused = await it.ask(key, {}, { max_tokens: 150 });
        assertError(refused, 'insufficient_quota');
        assert.match(refused.body, /Lower `max_tokens`/);
        const response = await it.ask(key, {}, { max_tokens: 50 });
        assert.deepEqual([response.status, response.header('x-sluice-notes')], [200, null], response.body);
      }
    });

    test('the prompts of concurrent requests are counted, also beside one that reserves most of the limit', async () => {
      const { key: few } = await it.manager.caller('few-tokens');
      const responses = Array.from({ length: 4 }, () => it.ask(few, {}, { max_tokens: 5 }));
      for (const { status, body } of await Promise.all(responses)) assert.equal(status, 200, body);

      const { key } = await it.manager.caller('some-tokens');
      using wire = await Wire.open(it.test.url);
      wire.send(it.text(key, { tokenMs: 1_000_000 }, { stream: true, max_tokens: 150 }));
      await wire.head();
      const beside = await it.ask(key, {}, { max_tokens: 5 });
      assert.equal(beside.status, 200, beside.body);
      assert.match((await it.ask(key, {}, { max_tokens: 90 })).body, /Lower `max_tokens`, or try again when/);
    });

    test('a request without max_tokens gets the tokens that a calendar limit has left', async () => {
      for (const [plan, limit] of Object.entries({
        'few-tokens': 'tokensPerDay',
        'few-cents': 'usdPerMonth',
      })) {
        const { key } = await it.manager.caller(plan);
        const response = await it.ask(key, { tokens: 150 });
        assert.equal(response.status, 200, response.body);
        const { choices, usage } = JSON.parse(response.body) as {
          choices: { finish_reason: string }[];
          usage: { total_tokens: number };
        };
        assert.deepEqual([choices[0]?.finish_reason, usage.total_tokens], ['length', 100]);
        const notes = response.header('x-sluice-notes');
        assert.equal(notes, `max_tokens limited to what is left of \`${limit}\``);
        assertError(await it.ask(key, {}), 'insufficient_quota');
      }
    });

    test('the max_tokens of a strict request is not changed for a limit', async () => {
      const { key } = await it.manager.caller('few-tokens');
      const text = it.text(key, {}, {}, { 'X-Sluice-Strict': 'true' });
      assertError(await exchange(it.test.url, text), 'insufficient_quota');
    });

    test('a key with allowed models sees and uses only those', async () => {
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

/** A service with these plans. */
class LimitedService implements AsyncDisposable {
  readonly test: TestService;
  readonly manager: Management;
  readonly clock: ManualClock;

  private constructor(test: TestService, manager: Management, clock: ManualClock) {
    this.test = test;
    this.manager = manager;
    this.clock = clock;
  }

  static async start(env: NodeJS.ProcessEnv): Promise<LimitedService> {
    const clock = new ManualClock();
    const service = await startService(YAML, env, { clock });
    return new LimitedService(service, await Management.of(service), clock);
  }

  text(key: string, directive: Directive, fields: object = {}, headers: Record<string, string> = {}): string {
    return requestText(CHAT, { ...bearer(key), ...headers }, chat(scripted(directive), fields));
  }

  ask(key: string, directive: Directive, fields: object = {}): Promise<WireResponse> {
    return exchange(this.test.url, this.text(key, directive, fields));
  }

  /** Returns the IDs of the models that a key sees. */
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
