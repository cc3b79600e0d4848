import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';
import { RedisClient } from '@redis/client';
import { ValkeyClaims } from '../../src/http/idempotency/valkey-claims.ts';
import { SILENT } from '../../src/support/log.ts';
import { Secret } from '../../src/support/secret.ts';
import { until } from '../harness.ts';
import { startValkey, type TestServer } from '../support/server-process.ts';
import { withoutValkey } from '../support/servers.ts';

const TIMING = { heartbeatMs: 20, responseMs: 2000, leaseMs: 10_000, retryMs: 20 };
const KEEP_MS = 100_000;

/** Returns a request with a key. */
function claimant(id: string, fingerprint = 'chat:hash') {
  return { id, fingerprint, requestId: `request-${id}` };
}

describe('claims in Valkey', { skip: withoutValkey }, () => {
  let server: TestServer;
  before(async () => (server = await startValkey()));
  after(() => server[Symbol.asyncDispose]());

  let instances = 0;
  const open = (options: object = {}) =>
    ValkeyClaims.open({
      url: new Secret(server.url),
      log: SILENT,
      instanceId: `instance-${++instances}`,
      timing: TIMING,
      ...options,
    });

  beforeEach(() => withClient((client) => client.flushAll()));

  /** Returns the milliseconds until the only claim expires; -2: there is none. */
  function expiry(): Promise<number> {
    return withClient(async (client) => {
      const [key = ''] = await client.keys('sluice:idempotency:*');
      return await client.pTTL(key);
    });
  }

  const newClient = () => RedisClient.factory()({ url: server.url });

  async function withClient<T>(use: (client: ReturnType<typeof newClient>) => Promise<T>): Promise<T> {
    const client = newClient();
    await client.connect();
    try {
      return await use(client);
    } finally {
      client.destroy();
    }
  }

  test('a key has one claim among all instances, which the others see as running and then as kept', async () => {
    await using one = await open();
    await using two = await open();
    const a = claimant('a');
    assert.equal(await one.claim(a), null);
    assert.deepEqual(await two.claim(a), { fingerprint: 'chat:hash', running: true });
    assert.equal(await two.claim(claimant('b')), null);
    one.keep(a, KEEP_MS);
    assert.deepEqual(await one.claim(claimant('c')), null);
    assert.deepEqual(await two.claim(a), { fingerprint: 'chat:hash', running: false });
    one.release(a);
    assert.equal(await one.claim(claimant('d')), null);
    assert.equal(await two.claim(a), null);
  });

  test('only the instance with the claim can release it', async () => {
    await using one = await open();
    await using two = await open();
    const a = claimant('a');
    await one.claim(a);
    two.release({ ...a, requestId: 'other' });
    assert.deepEqual(await two.claim(a), { fingerprint: 'chat:hash', running: true });
  });

  test('the claims of an instance that has stopped or crashed are void', async () => {
    await using two = await open();
    const a = claimant('a');
    {
      await using one = await open();
      await one.claim(a);
      assert.notEqual(await two.claim(a), null);
    }
    assert.equal(await two.claim(a), null);
  });

  test('a heartbeat while an instance stops does not restore its claims', async () => {
    await using two = await open();
    for (let i = 0; i < 100; i++) {
      const a = claimant(`a${i}`);
      {
        await using one = await open({ timing: { ...TIMING, heartbeatMs: 1 } });
        await one.claim(a);
      }
      assert.equal(await two.claim(a), null);
    }
  });

  test('an instance that could not release its claim of a key can claim the key again', async () => {
    await using one = await open();
    await one.claim(claimant('a'));
    assert.equal(await one.claim({ ...claimant('a'), requestId: 'other' }), null);
  });

  test('the claim of a running generation is renewed, and restored if the store has lost it', async () => {
    await using other = await open();
    await using one = await open({ runningMs: 2000 });
    const a = claimant('a');
    await one.claim(a);
    let before = await expiry();
    await until(async () => {
      const now = await expiry();
      const isRenewed = now > before;
      before = now;
      return isRenewed;
    });
    process.kill(server.pid, 'SIGKILL');
    await server.start();
    await until(async () => (await expiry()) > 0);
    // `other` may not have reconnected yet.
    await until(async () => (await other.claim(a)) !== null);
  });

  test('every key counts as free while the store is unavailable', async () => {
    await using one = await open();
    await using two = await open();
    await one.claim(claimant('a'));
    process.kill(server.pid, 'SIGKILL');
    assert.equal(await two.claim(claimant('a')), null);
    await server.start();
  });
});
