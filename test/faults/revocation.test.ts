import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import { sql } from 'kysely';
import { changeAccount } from '../../src/accounts/accounts.ts';
import { SERVICE } from '../../src/accounts/audit.ts';
import { createKeyText, hashKey } from '../../src/accounts/key-format.ts';
import { changeKey, revokeKey } from '../../src/accounts/key-table.ts';
import { openDatabase, type Database } from '../../src/database/database.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import {
  chat,
  ManualClock,
  MODEL,
  scriptedYaml,
  spawnService,
  startService,
  until,
  type TestService,
} from '../harness.ts';
import { assertEndsWith, assertError, exchange, requestText, Wire, type WireResponse } from '../http/wire.ts';
import { Management, type Caller } from '../management.ts';
import { testDatabases, type TestDatabases } from '../support/servers.ts';

/** Interval at which an instance polls for changes, in milliseconds. Changes must apply within a second. */
const POLL_MS = 250;

/** Longer than any test. */
const FOREVER = 1_000_000;

const PLANS = scriptedYaml(
  {},
  'plans: {high: {requestsPerMinute: 1000}, low: {requestsPerMinute: 10}}\ndefaultPlan: high\n',
);

/** Changes by another process that invalidate a key. */
const INVALIDATIONS: Record<string, (database: Database, caller: Caller) => Promise<unknown>> = {
  'a revoked key': (database, { keyId }) => revokeKey(database, keyId),
  'a suspended account': (database, { accountId }) =>
    changeAccount(database, accountId, { status: 'suspended' }, SERVICE),
  'a closed account': (database, { accountId }) =>
    changeAccount(database, accountId, { status: 'closed' }, SERVICE),
};

for (const kind of testDatabases()) {
  describe(`revocation, on ${kind.name}`, () => {
    for (const [name, invalidate] of Object.entries(INVALIDATIONS)) {
      test(`${name} is refused after the next poll, which also ends running requests`, async (t) => {
        await using it = await PolledService.start(t, kind);
        const caller = await it.manager.caller();
        const other = await it.manager.caller();
        using stream = await it.stream(caller);
        using whole = await Wire.open(it.test.url);
        whole.send(endless(caller, false));
        using otherStream = await it.stream(other);
        await invalidate(it.otherProcess, caller);
        t.mock.timers.tick(POLL_MS - 1);
        assert.equal((await it.complete(caller)).status, 200, 'before the poll');
        t.mock.timers.tick(1);
        await until(async () => (await it.complete(caller)).status === 401);
        assertError(await it.complete(caller), 'invalid_api_key');
        assert.ok(assertEndsWith(await stream.restOfBody(), 'invalid_api_key') >= 1);
        assertError(await whole.response(), 'invalid_api_key');
        // Another account is not affected.
        assert.equal((await it.complete(other)).status, 200);
        assert.match((await otherStream.chunk()) ?? '', /"delta":/);
      });
    }

    test('requests for a model that is removed from their key end, and those for its other models continue', async (t) => {
      await using it = await PolledService.start(t, kind);
      const caller = await it.manager.caller(null, { allowed_models: [MODEL, 'test/other'] });
      using stream = await it.stream(caller);
      const change = (...allowedModels: string[]) =>
        changeKey(it.otherProcess, caller.keyId, () => ({ allowedModels }), SERVICE);
      await change(MODEL);
      await it.test.service.keys.refresh();
      assert.match((await stream.chunk()) ?? '', /"delta":/);
      await change('test/other');
      await it.test.service.keys.refresh();
      assert.ok(assertEndsWith(await stream.restOfBody(), 'model_not_allowed') >= 1);
      assert.equal((await it.complete(caller)).status, 403);
    });

    test('a key is refused once it has expired, and the next poll ends its running requests', async (t) => {
      await using it = await PolledService.start(t, kind);
      const expires = new Date(it.clock.unix + 3_600_000);
      const caller = await it.manager.caller(null, { expires_at: expires.toISOString() });
      using stream = await it.stream(caller);
      it.clock.unix = expires.getTime() - 1;
      assert.equal((await it.complete(caller)).status, 200);
      it.clock.unix += 1;
      assertError(await it.complete(caller), 'invalid_api_key');
      t.mock.timers.tick(POLL_MS);
      assertEndsWith(await stream.restOfBody(), 'invalid_api_key');
    });

    test('tokens that were generated before a key was revoked or lost the model are billed', async (t) => {
      await using it = await PolledService.start(t, kind);
      const caller = await it.manager.caller();
      const endedBy = async (end: () => Promise<unknown>, code: 'invalid_api_key' | 'model_not_allowed') => {
        using stream = await Wire.open(it.test.url);
        stream.send(endless(caller, true));
        const id = (await stream.head()).header('x-request-id') ?? '';
        await stream.chunk();
        await end();
        await it.test.service.keys.refresh();
        assertEndsWith(await stream.restOfBody(), code);
        const { request } = (await it.manager.receipt(id)) ?? {};
        assert.ok(request && request.prompt_tokens > 0 && request.completion_tokens > 0);
        return [request.state, request.error_code, request.http_status, request.billed];
      };
      const allow = (allowedModels: string[] | null) =>
        changeKey(it.otherProcess, caller.keyId, () => ({ allowedModels }), SERVICE);
      assert.deepEqual(await endedBy(() => allow(['test/other']), 'model_not_allowed'), [
        'settled',
        'model_not_allowed',
        403,
        true,
      ]);
      await allow(null);
      await it.test.service.keys.refresh();
      assert.deepEqual(await endedBy(() => revokeKey(it.otherProcess, caller.keyId), 'invalid_api_key'), [
        'settled',
        'invalid_api_key',
        401,
        true,
      ]);
    });

    test('a key whose hash was replaced in the database works only with the new text, until it is revoked', async (t) => {
      await using it = await PolledService.start(t, kind);
      const caller = await it.manager.caller();
      const replaced = { ...caller, key: createKeyText().reveal() };
      assert.equal((await it.complete(caller)).status, 200);
      await setHash(it.otherProcess, caller.keyId, hashKey(replaced.key));
      t.mock.timers.tick(POLL_MS);
      await until(async () => (await it.complete(replaced)).status === 200);
      assertError(await it.complete(caller), 'invalid_api_key');
      await it.manager.call('POST', `/api/keys/${caller.keyId}/revoke`);
      for (const refused of [caller, replaced]) assertError(await it.complete(refused), 'invalid_api_key');
    });

    test('two keys whose hashes were exchanged in the database both work', async (t) => {
      await using it = await PolledService.start(t, kind);
      const [first, second] = [await it.manager.caller(), await it.manager.caller()];
      await setHash(it.otherProcess, first.keyId, '0'.repeat(64));
      await setHash(it.otherProcess, second.keyId, hashKey(first.key));
      await setHash(it.otherProcess, first.keyId, hashKey(second.key));
      const { keys } = it.test.service;
      await keys.refresh();
      assert.equal((await keys.authenticate(`Bearer ${first.key}`))?.id, second.keyId);
      assert.equal((await keys.authenticate(`Bearer ${second.key}`))?.id, first.keyId);
    });

    test('a lower plan applies after the next poll and does not end running requests', async (t) => {
      await using it = await PolledService.start(t, kind);
      const caller = await it.manager.caller();
      using stream = await it.stream(caller);
      const limit = async () => (await it.complete(caller)).header('x-ratelimit-limit-requests');
      await changeAccount(
        it.otherProcess,
        caller.accountId,
        { plan: { name: 'low', limits: {}, weight: 1 } },
        SERVICE,
      );
      t.mock.timers.tick(POLL_MS - 1);
      assert.equal(await limit(), '1000');
      t.mock.timers.tick(1);
      await until(async () => (await limit()) === '10');
      assert.match((await stream.chunk()) ?? '', /"delta":/);
    });

    test('an instance whose polls have failed for keys.maxStaleMs refuses requests until a poll succeeds', async (t) => {
      await using it = await PolledService.start(t, kind);
      const caller = await it.manager.caller();
      using stream = await it.stream(caller);
      const readyz = async (key?: string) =>
        await exchange(
          it.test.url,
          requestText('GET /readyz', key === undefined ? {} : { Authorization: `Bearer ${key}` }),
        );
      it.clock.up += 5000;
      assert.equal((await it.complete(caller)).status, 200);
      assert.equal((await readyz()).status, 200);
      it.clock.up += 1;
      const refused = await it.complete(caller);
      assertError(refused, 'storage_unavailable');
      assert.equal(refused.header('retry-after-ms'), '1000');
      // No key is known to be an admin key now, so every caller gets the public response.
      for (const key of [undefined, it.manager.admin]) {
        const { status, body } = await readyz(key);
        assert.deepEqual([status, body], [503, '{"status":"storage_unavailable","progress":[]}']);
      }
      assert.match((await stream.chunk()) ?? '', /"delta":/, 'a running stream continues');
      t.mock.timers.tick(POLL_MS);
      await until(async () => (await it.complete(caller)).status === 200);
      assert.equal((await readyz()).status, 200);
    });

    // SQLite supports only one instance.
    if (kind.name === 'SQLite') return;
    test('with two instances, a key that one revokes is refused by the other', async (t) => {
      await using location = await kind.location();
      await using first = await spawnService(PLANS, location.env);
      await using second = await spawnService(PLANS, location.env);
      for (const instance of [first, second]) await until(() => instance.stdout().includes('Ready.'));
      const manager = await Management.ofProcess(first);
      const caller = await manager.caller();
      using stream = await openStream(second.url, caller);
      assert.equal((await complete(second.url, caller)).status, 200);
      await manager.call('POST', `/api/keys/${caller.keyId}/revoke`);
      const since = performance.now();
      assertError(await complete(first.url, caller), 'invalid_api_key');
      const ended = stream.restOfBody().then((text) => ({ text, afterMs: performance.now() - since }));
      await until(async () => (await complete(second.url, caller)).status === 401);
      const refusedMs = Math.round(performance.now() - since);
      const { text, afterMs } = await ended;
      assertEndsWith(text, 'invalid_api_key');
      t.diagnostic(`refused after ${refusedMs} ms, its stream ended after ${Math.round(afterMs)} ms`);
    });
  });
}

/** Changes the hash of a key as an operator with access to the database would. */
async function setHash({ kysely }: Database, id: string, hash: string): Promise<void> {
  await sql`update keys set hash = ${hash} where id = ${id}`.execute(kysely);
}

/** Returns a request with one immediate token and endless slow ones. */
function endless({ key }: Caller, stream: boolean): string {
  const body = chat(scripted({ tokens: FOREVER, tokenMs: 50 }), { stream, max_tokens: 4000 });
  return requestText('POST /v1/chat/completions', { Authorization: `Bearer ${key}` }, body);
}

/** Opens an endless stream and waits for its first frame. */
async function openStream(url: string, caller: Caller): Promise<Wire> {
  const wire = await Wire.open(url);
  await wire.send(endless(caller, true)).head();
  await wire.chunk();
  return wire;
}

async function complete(url: string, { key }: Caller): Promise<WireResponse> {
  const headers = { Authorization: `Bearer ${key}` };
  return await exchange(
    url,
    requestText('POST /v1/chat/completions', headers, chat(scripted({ tokens: 1 }))),
  );
}

/** A service whose polls and clock are advanced by the test, with a second connection to its database. */
class PolledService implements AsyncDisposable {
  readonly test: TestService;
  readonly clock: ManualClock;
  readonly manager: Management;
  /** The database as opened by another process. */
  readonly otherProcess: Database;
  readonly #owned: AsyncDisposable;

  private constructor(
    parts: Pick<PolledService, 'test' | 'clock' | 'manager' | 'otherProcess'>,
    owned: AsyncDisposable,
  ) {
    this.test = parts.test;
    this.clock = parts.clock;
    this.manager = parts.manager;
    this.otherProcess = parts.otherProcess;
    this.#owned = owned;
  }

  static async start(t: TestContext, kind: TestDatabases): Promise<PolledService> {
    await using owned = new AsyncDisposableStack();
    const location = owned.use(await kind.location());
    t.mock.timers.enable({ apis: ['setInterval'] });
    owned.defer(() => t.mock.timers.reset());
    const clock = new ManualClock();
    const service = owned.use(await startService(PLANS, location.env, { clock }));
    const manager = await Management.of(service);
    const otherProcess = owned.use(await openDatabase(location));
    return new PolledService({ test: service, clock, manager, otherProcess }, owned.move());
  }

  stream(caller: Caller): Promise<Wire> {
    return openStream(this.test.url, caller);
  }

  complete(caller: Caller): Promise<WireResponse> {
    return complete(this.test.url, caller);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#owned[Symbol.asyncDispose]();
  }
}
