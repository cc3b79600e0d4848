import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { changeAccount } from '../../src/accounts/accounts.ts';
import { SERVICE } from '../../src/accounts/audit.ts';
import { revokeKey } from '../../src/accounts/key-table.ts';
import { openDatabase, type Database } from '../../src/database/database.ts';
import { scripted } from '../../src/engine/scripted/options.ts';
import {
  chat,
  ManualClock,
  scriptedYaml,
  spawnService,
  startService,
  until,
  type TestService,
} from '../harness.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller } from '../management.ts';
import { testDatabases, type TestDatabases } from '../servers.ts';

/** How often a copy of the service looks for changes, in milliseconds: a quarter of what is promised. */
const POLL_MS = 250;

/** Longer than any test. */
const FOREVER = 1_000_000;

const PLANS = scriptedYaml(
  {},
  'plans: {high: {requestsPerMinute: 1000}, low: {requestsPerMinute: 10}}\ndefaultPlan: high\n',
);

/** What another process may do to a key or its account, so that the key opens nothing any more. */
const CLOSINGS: Record<string, (database: Database, caller: Caller) => Promise<unknown>> = {
  'a revoked key': (database, { keyId }) => revokeKey(database, keyId),
  'a suspended account': (database, { accountId }) =>
    changeAccount(database, accountId, { status: 'suspended' }, SERVICE),
  'a closed account': (database, { accountId }) =>
    changeAccount(database, accountId, { status: 'closed' }, SERVICE),
};

for (const kind of testDatabases()) {
  describe(`who may do what, on ${kind.name}`, () => {
    for (const [name, close] of Object.entries(CLOSINGS)) {
      test(`${name} is refused from the next poll on, and what it runs is ended then`, async (t) => {
        await using it = await Watched.start(t, kind);
        const caller = await it.manager.caller();
        const other = await it.manager.caller();
        using stream = await it.begin(caller);
        using whole = await Wire.open(it.test.url);
        whole.send(endless(caller, false));
        using theirs = await it.begin(other);
        await close(it.elsewhere, caller);
        t.mock.timers.tick(POLL_MS - 1);
        assert.equal((await it.ask(caller)).status, 200, 'nobody has looked yet');
        t.mock.timers.tick(1);
        await until(async () => (await it.ask(caller)).status === 401);
        assertError(await it.ask(caller), 'invalid_api_key');
        assert.ok(assertEndsWith(await stream.restOfBody(), 'invalid_api_key') >= 1);
        assertError(await whole.response(), 'invalid_api_key');
        // Another account's goes on.
        assert.equal((await it.ask(other)).status, 200);
        assert.match((await theirs.chunk()) ?? '', /"delta":/);
      });
    }

    test('a key that expires is refused in that millisecond, and what it runs is ended at the next poll', async (t) => {
      await using it = await Watched.start(t, kind);
      const expires = new Date(it.clock.unix + 3_600_000);
      const caller = await it.manager.caller(null, { expires_at: expires.toISOString() });
      using stream = await it.begin(caller);
      it.clock.unix = expires.getTime() - 1;
      assert.equal((await it.ask(caller)).status, 200);
      it.clock.unix += 1;
      assertError(await it.ask(caller), 'invalid_api_key');
      t.mock.timers.tick(POLL_MS);
      assertEndsWith(await stream.restOfBody(), 'invalid_api_key');
    });

    test('what a key had generated when it was revoked is paid for', async (t) => {
      await using it = await Watched.start(t, kind);
      const caller = await it.manager.caller();
      using stream = await Wire.open(it.test.url);
      stream.send(endless(caller, true));
      const id = (await stream.head()).header('x-request-id') ?? '';
      await stream.chunk();
      await revokeKey(it.elsewhere, caller.keyId);
      t.mock.timers.tick(POLL_MS);
      assertEndsWith(await stream.restOfBody(), 'invalid_api_key');
      const { request } = (await it.manager.receipt(id)) ?? {};
      assert.deepEqual(
        [request?.state, request?.error_code, request?.http_status, request?.billed],
        ['settled', 'invalid_api_key', 401, true],
      );
      assert.ok(request && request.prompt_tokens > 0 && request.completion_tokens > 0);
    });

    test('a lower plan holds from the next poll on, and ends nothing that runs', async (t) => {
      await using it = await Watched.start(t, kind);
      const caller = await it.manager.caller();
      using stream = await it.begin(caller);
      const limit = async () => (await it.ask(caller)).header('x-ratelimit-limit-requests');
      await changeAccount(it.elsewhere, caller.accountId, { plan: { name: 'low', limits: {} } }, SERVICE);
      t.mock.timers.tick(POLL_MS - 1);
      assert.equal(await limit(), '1000');
      t.mock.timers.tick(1);
      await until(async () => (await limit()) === '10');
      assert.match((await stream.chunk()) ?? '', /"delta":/);
    });

    test('a copy that cannot learn of changes for longer than keys.maxStaleMs refuses until it can', async (t) => {
      await using it = await Watched.start(t, kind);
      const caller = await it.manager.caller();
      using stream = await it.begin(caller);
      const readyz = async (key?: string) =>
        await exchange(
          it.test.url,
          requestText('GET /readyz', key === undefined ? {} : { Authorization: `Bearer ${key}` }),
        );
      it.clock.up += 5000;
      assert.equal((await it.ask(caller)).status, 200);
      assert.equal((await readyz()).status, 200);
      it.clock.up += 1;
      const refused = await it.ask(caller);
      assertError(refused, 'storage_unavailable');
      assert.equal(refused.header('retry-after-ms'), '1000');
      // Nobody is known to be an admin now, and whoever asks is told no more than everybody.
      for (const key of [undefined, it.manager.admin]) {
        const { status, body } = await readyz(key);
        assert.deepEqual([status, body], [503, '{"status":"storage_unavailable","progress":[]}']);
      }
      assert.match((await stream.chunk()) ?? '', /"delta":/, 'what runs goes on');
      t.mock.timers.tick(POLL_MS);
      await until(async () => (await it.ask(caller)).status === 200);
      assert.equal((await readyz()).status, 200);
    });

    // One service runs on a SQLite database.
    if (kind.name === 'SQLite') return;
    test('with two instances, a key that one revokes opens nothing at the other', async (t) => {
      await using place = await kind.place();
      await using here = await spawnService(PLANS, place.env);
      await using there = await spawnService(PLANS, place.env);
      for (const instance of [here, there]) await until(() => instance.stdout().includes('Ready.'));
      const manager = await Management.ofProcess(here);
      const caller = await manager.caller();
      using stream = await begin(there.url, caller);
      assert.equal((await ask(there.url, caller)).status, 200);
      await manager.call('POST', `/api/keys/${caller.keyId}/revoke`);
      const since = performance.now();
      assertError(await ask(here.url, caller), 'invalid_api_key');
      const ended = stream.restOfBody().then((text) => ({ text, afterMs: performance.now() - since }));
      await until(async () => (await ask(there.url, caller)).status === 401);
      const refusedMs = Math.round(performance.now() - since);
      const { text, afterMs } = await ended;
      assertEndsWith(text, 'invalid_api_key');
      t.diagnostic(`refused after ${refusedMs} ms, its stream ended after ${Math.round(afterMs)} ms`);
    });
  });
}

/** One token comes at once, the next ones slowly and for ever. */
function endless({ key }: Caller, stream: boolean): string {
  const body = chat(scripted({ tokens: FOREVER, tokenMs: 50 }), { stream, max_tokens: 4000 });
  return requestText('POST /v1/chat/completions', { Authorization: `Bearer ${key}` }, body);
}

/** A stream of which the first frame has come. */
async function begin(url: string, caller: Caller): Promise<Wire> {
  const wire = await Wire.open(url);
  await wire.send(endless(caller, true)).head();
  await wire.chunk();
  return wire;
}

async function ask(url: string, { key }: Caller): Promise<WireResponse> {
  const headers = { Authorization: `Bearer ${key}` };
  return await exchange(
    url,
    requestText('POST /v1/chat/completions', headers, chat(scripted({ tokens: 1 }))),
  );
}

/** A service whose polls and clocks stand still until the test moves them, and another process's way to its database. */
class Watched implements AsyncDisposable {
  readonly test: TestService;
  readonly clock: ManualClock;
  readonly manager: Management;
  readonly elsewhere: Database;
  readonly #owned: AsyncDisposable;

  private constructor(
    parts: Pick<Watched, 'test' | 'clock' | 'manager' | 'elsewhere'>,
    owned: AsyncDisposable,
  ) {
    this.test = parts.test;
    this.clock = parts.clock;
    this.manager = parts.manager;
    this.elsewhere = parts.elsewhere;
    this.#owned = owned;
  }

  static async start(t: TestContext, kind: TestDatabases): Promise<Watched> {
    await using owned = new AsyncDisposableStack();
    const place = owned.use(await kind.place());
    t.mock.timers.enable({ apis: ['setInterval'] });
    owned.defer(() => t.mock.timers.reset());
    const clock = new ManualClock();
    const service = owned.use(await startService(PLANS, place.env, clock));
    const manager = await Management.of(service);
    const elsewhere = owned.use(await openDatabase(place));
    return new Watched({ test: service, clock, manager, elsewhere }, owned.move());
  }

  begin(caller: Caller): Promise<Wire> {
    return begin(this.test.url, caller);
  }

  ask(caller: Caller): Promise<WireResponse> {
    return ask(this.test.url, caller);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}
