import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, connect as connectTo, type Socket } from 'node:net';
import { join } from 'node:path';
import { beforeEach, describe, test } from 'node:test';
import { RedisClient } from '@redis/client';
import * as fc from '../../support/fast-check.ts';
import { utcMonth } from '../../../src/accounts/limits/calendar.ts';
import type { Limiter } from '../../../src/accounts/limits/limiter.ts';
import { limitScripts } from '../../../src/accounts/limits/valkey-scripts.ts';
import { SILENT } from '../../../src/support/log.ts';
import { awayFromMidnight, run, until } from '../../harness.ts';
import { startValkey } from '../../support/server-process.ts';
import { valkeyUrl, withoutValkey } from '../../support/servers.ts';
import { demand, FakeLedger, Fleet, instancesSeen, openInstance, TIMING, type Request } from './fleet.ts';

/** Several instances on one Valkey, and a separate connection. */
async function open(instances: number, whenStoreUnavailable: 'local' | 'refuse' = 'local', url?: string) {
  const address = url ?? (await valkeyUrl());
  const ledger = new FakeLedger();
  const opening = Array.from({ length: instances }, () =>
    openInstance(address, ledger, { whenStoreUnavailable }),
  );
  const fleet = new Fleet(ledger, await Promise.all(opening));
  const client = RedisClient.factory()({ url: address });
  client.on('error', () => {});
  await client.connect();
  return {
    fleet,
    ledger,
    client,
    url: address,
    async [Symbol.asyncDispose]() {
      await fleet[Symbol.asyncDispose]();
      if (client.isOpen) client.destroy();
    },
  };
}

/** Whether an instance uses the store: its requests are stored there. */
async function usesStore(fleet: Fleet, instance: number): Promise<boolean> {
  const { request } = await fleet.admit(
    demand({ requestsInFlight: 1_000_000 }, { accountId: `probe_${instance}` }),
    instance,
  );
  const reservation = request?.reservation as { stored?: object | null } | undefined;
  await request?.fail();
  return reservation?.stored != null;
}

async function used(
  limits: Limiter | undefined,
  ask: Parameters<Limiter['status']>[0],
): Promise<number | undefined> {
  return (await limits?.status(ask))?.[0]?.used;
}

describe('limits in Valkey', { skip: withoutValkey }, () => {
  beforeEach(awayFromMidnight);

  test('instances share one plan', async () => {
    await using store = await open(3);
    const limits = { requestsPerMinute: 10, tokensPerDay: 1000, requestsInFlight: 8 };
    const asks = Array.from({ length: 60 }, (_, index) =>
      store.fleet.admit(demand(limits, { worstTokens: 10 }), index),
    );
    const decisions = await Promise.all(asks);
    assert.equal(decisions.filter(({ admitted }) => admitted).length, 8);
  });

  test("an instance with an old generation does not undo another instance's read of the ledger", async () => {
    const url = await valkeyUrl();
    const ledger = new FakeLedger();
    const timing = { ...TIMING, heartbeatMs: 60_000 };
    // Each instance raises the generation when it starts. The others see it with their next heartbeat.
    const instances = [
      await openInstance(url, ledger, { timing }),
      await openInstance(url, ledger, { timing }),
    ];
    await using fleet = new Fleet(ledger, instances);
    for (let account = 0; account < 100; account++) {
      const ask = demand({ tokensPerDay: 1000 }, { accountId: `acct_${account}` });
      await Promise.all([1, 0, 0, 1, 0].map((instance) => fleet.run(ask, instance)));
    }
    assert.ok(ledger.reads <= 400, `${ledger.reads} readings of 100 accounts`);
  });

  test('a caller is admitted after the stated wait, on the clock of the store', async () => {
    await using store = await open(2);
    const ask = demand({ requestsPerMinute: 240, burst: { requests: 1 } });
    const now = async () => {
      const [seconds = '0', microseconds = '0'] = (await store.client.sendCommand([
        'TIME',
      ])) as unknown as string[];
      return Number(seconds) * 1000 + Number(microseconds) / 1000;
    };
    /** The last request was admitted at this time or later. */
    let admittedFrom = await now();
    await store.fleet.run(ask);
    for (let index = 0; index < 8; index++) {
      const before = await now();
      const decision = await store.fleet.admit(ask, index);
      const after = await now();
      if (decision.admitted) {
        // This process was paused for the whole wait.
        assert.ok(after - admittedFrom >= 249, `admitted after ${after - admittedFrom} ms`);
        admittedFrom = before;
        continue;
      }
      const { retryAfterMs } = decision.denial;
      assert.ok(retryAfterMs !== null && retryAfterMs <= 250 && retryAfterMs > 0);
      assert.ok(retryAfterMs >= 250 - (after - admittedFrom) - 1, `${retryAfterMs}, ${after - admittedFrom}`);
      await until(async () => (await now()) >= after + retryAfterMs);
      admittedFrom = await now();
      await store.fleet.run(ask, index + 1);
    }
  });

  test('months are calendar months', async () => {
    await using store = await open(0);
    const { admit } = limitScripts();
    const text = `${admit.text.slice(0, admit.text.indexOf('local current'))} return month_of(tonumber(ARGV[1]))`;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 100_000 }), async (day) => {
        const month = await store.client.sendCommand(['EVAL', text, '0', String(day)]);
        assert.equal(month, utcMonth(day * 86_400_000));
      }),
      { numRuns: 500 },
    );
  });

  test('requests that are still running do not count in a new day or month', async () => {
    await using store = await open(2);
    const ask = demand({ tokensPerDay: 100, tokensPerMonth: 100 }, { worstTokens: 60 });
    await (await store.fleet.run(ask)).end(60);
    const running = await store.fleet.run({ ...ask, worstTokens: 40 });
    await store.fleet.denied(ask);
    const key = 'sluice:{acct_1}:a';
    const [day, month] = await store.client.hmGet(key, ['d', 'm']);
    // As if everything had happened on a day of the previous month.
    for (const row of store.ledger.rows) row.startedAt -= 31 * 86_400_000;
    await store.client.hSet(key, { d: Number(day) - 31, m: Number(month) - 1 });
    await store.fleet.run(ask, 1);
    assert.equal(await used(store.fleet.instances[0], ask), 60);
    // By its own record the request started today, but it must not count today.
    await running.end(40);
    assert.ok(((await used(store.fleet.instances[0], ask)) ?? 0) <= 100);
  });

  test('every key expires, and all keys of an account share its hash tag', async () => {
    await using store = await open(1);
    const plan = { requestsPerMinute: 9, models: { 'test/model': { requestsInFlight: 1 } } };
    await store.fleet.run(demand(plan, { keyLimits: plan }));
    const keys = (await store.client.keys('*')).sort();
    assert.deepEqual(keys, [
      'sluice:{acct_1}:a',
      'sluice:{acct_1}:a:test/model',
      'sluice:{acct_1}:k:key_1',
      'sluice:{acct_1}:k:key_1:test/model',
      '{sluice}:copies',
      '{sluice}:generation',
    ]);
    for (const key of keys) assert.ok((await store.client.pTTL(key)) > 0, key);
  });

  test('instances of other versions find the counters in the fields that they know', async () => {
    await using store = await open(1);
    const limits = {
      requestsPerMinute: 1,
      tokensPerMinute: 1,
      burst: { requests: 9, tokens: 400 },
      requestsInFlight: 9,
      tokensPerDay: 100,
      tokensPerMonth: 200,
      usdPerMonth: '1',
    };
    const ask = demand(limits, { worstTokens: 40, worstPico: 7000n });
    await (await store.fleet.run(ask)).end(30, 5000n);
    const running = await store.fleet.run(ask);
    const {
      at,
      g,
      cs = '',
      d,
      m,
      rs = '',
      ts = '',
      ...counters
    } = await store.client.hGetAll('sluice:{acct_1}:a');
    assert.equal(Number(m), utcMonth(Number(d) * 86_400_000));
    assert.ok(Number(at) > 0 && Number(g) > 0 && /^\S+ \d+$/.test(cs));
    // Two requests, and 30 and 40 tokens, less what was refilled since.
    assert.ok(Number(rs) > 1 * 60_000 && Number(rs) <= 2 * 60_000, rs);
    assert.ok(Number(ts) > 69 * 60_000 && Number(ts) <= 70 * 60_000, ts);
    const { ou, ...fields } = counters;
    const [reservation = ''] = Object.keys(fields).filter((field) => field.startsWith('l'));
    assert.ok(Number(ou) > 0 && reservation.endsWith(`/${running.id}`), reservation);
    const known = {
      f: '1',
      ds: '30',
      ms: '30',
      ns: '5',
      dh: '40',
      mh: '40',
      nh: '7',
      od: '0',
      om: '0',
      on: '0',
    };
    assert.deepEqual(
      { ...fields },
      // The fields of later kinds may follow.
      { ...fields, ...known, [reservation]: `40 7 ${d} ${m}` },
    );
  });

  test('a kind of limit that another version did not count is read from the ledger', async () => {
    await using store = await open(1);
    const ask = demand({ tokensPerMonth: 100, requestsInFlight: 9 }, { worstTokens: 40 });
    await (await store.fleet.run(ask)).end(40);
    const running = await store.fleet.run({ ...ask, worstTokens: 1 });
    const forget = () => store.client.hDel('sluice:{acct_1}:a', ['ms', 'mh']);
    await forget();
    await store.fleet.denied({ ...ask, worstTokens: 61 });
    // A request that ends is stored, but what ended before it is still unknown.
    await forget();
    await running.end(1);
    await store.fleet.denied({ ...ask, worstTokens: 60 });
    await store.fleet.run({ ...ask, worstTokens: 59 });
  });

  test('no two counters have the same field', () => {
    const [, list = ''] = /'HMGET', key, (.*)\)/.exec(limitScripts().admit.text) ?? [];
    const fields = list.split(', ').map((field) => field.replaceAll("'", ''));
    assert.ok(fields.length > 9);
    assert.equal(new Set(fields).size, fields.length);
    // Reservations and ended requests begin with these letters.
    assert.deepEqual(
      fields.filter((field) => /^[lx]/.test(field)),
      [],
    );
  });

  // On its own server, because flushing affects all databases of a server.
  describe('flushed scripts', () => {
    test('are sent again', async () => {
      await using server = await startValkey();
      await using store = await open(1, 'local', server.url);
      const ask = demand({ requestsInFlight: 1 });
      await store.client.sendCommand(['SCRIPT', 'FLUSH']);
      await (await store.fleet.run(ask)).end(1);
      await store.client.sendCommand(['SCRIPT', 'FLUSH']);
      await store.fleet.run(ask);
    });

    test('do not restore the reservation of a request that was settled in the meantime', async () => {
      const { release, heartbeat, restoreReservations } = limitScripts();
      let ended: Promise<void> | undefined;
      let request: Request | undefined;
      await using server = await startValkey();
      await using proxy = await openProxy(server.url, (bytes) => {
        if (request !== undefined && bytes.includes(restoreReservations.sha)) ended ??= request.end(1);
      });
      await using store = await open(1, 'local', proxy.url);
      const ask = demand({ requestsInFlight: 1 });
      request = await store.fleet.run(ask);
      await store.client.sendCommand(['SCRIPT', 'FLUSH']);
      for (const { text } of [heartbeat, release]) await store.client.sendCommand(['SCRIPT', 'LOAD', text]);
      await until(() => ended !== undefined);
      await ended;
      await store.fleet.run(ask);
    });
  });

  test('a store that lost its data grants no second budget', async () => {
    await using store = await open(3);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2), { minLength: 6, maxLength: 30 }),
        fc.nat(5),
        async (instances, flushAt) => {
          const accountId = `acct_${Math.random()}`;
          const limits = { requestsPerMinute: 8, tokensPerDay: 130, usdPerMonth: '0.000130' };
          const ask = demand(limits, { accountId, worstTokens: 30, worstPico: 30_000_000n });
          const running: Request[] = [];
          let tokens = 0;
          let admitted = 0;
          for (const [index, instance] of instances.entries()) {
            if (index === flushAt) await store.client.flushDb();
            const decision = await store.fleet.admit(ask, instance);
            if (decision.request) {
              admitted++;
              tokens += 30;
              running.push(decision.request);
            }
            if (index % 3 === 2) {
              const ended = running.shift();
              if (ended) tokens -= 10;
              await ended?.end(20, 20_000_000n);
            }
            assert.ok(tokens <= 130, `${tokens} tokens`);
            assert.ok(admitted <= 8, `${admitted} requests`);
          }
          for (const request of running) await request.end(0);
        },
      ),
      { numRuns: 40 },
    );
  });

  test('after the store lost its data, the reservations of running requests are restored', async () => {
    await using store = await open(0);
    // Long before the lease must be renewed.
    const timing = { ...TIMING, leaseMs: 600_000 };
    const instances = await Promise.all([1, 2].map(() => openInstance(store.url, store.ledger, { timing })));
    await using fleet = new Fleet(store.ledger, instances);
    const ask = demand({ requestsInFlight: 2 });
    const requests = [await fleet.run(ask, 0), await fleet.run(ask, 1)];
    await store.client.flushDb();
    await until(async () => (await used(instances[0], ask)) === 2);
    await fleet.denied(ask);
    for (const request of requests) await request.end(1);
    assert.equal(await used(instances[0], ask), 0);
  });

  test('the reservations of a dead instance are released when its lease expires', async () => {
    await using proxy = await openProxy(await valkeyUrl());
    await using store = await open(1, 'local', proxy.target);
    const dead = new Fleet(store.ledger, [await openInstance(proxy.url, store.ledger)]);
    const ask = demand({ requestsInFlight: 1, tokensPerDay: 100 }, { worstTokens: 100 });
    const reservation = await dead.run(ask);
    await store.fleet.denied(ask);
    proxy.cut();
    await until(async () => (await store.fleet.admit(ask)).admitted);
    // It was not dead: its usage counts when it reconnects.
    await reservation.end(100);
    proxy.mend();
    await until(
      async () =>
        (await used(store.fleet.instances[0], { ...ask, planLimits: { tokensPerDay: 1000 } })) === 200,
    );
    await dead[Symbol.asyncDispose]();
  });

  test('two processes share one plan', async () => {
    await using store = await open(0);
    const child = join(import.meta.dirname, 'instance-child.ts');
    const ended = await Promise.all([1, 2].map(() => run(process.execPath, [child, store.url], process.env)));
    const admitted = ended.map(({ stdout, stderr }) => {
      assert.match(stdout, /^\d+$/, stderr);
      return Number(stdout);
    });
    assert.equal(
      admitted.reduce((sum, count) => sum + count),
      100,
      String(admitted),
    );
  });

  test('a lease is renewed for as long as a request runs', async () => {
    await using store = await open(2);
    const ask = demand({ requestsInFlight: 1 });
    await store.fleet.run(ask);
    const key = 'sluice:{acct_1}:a';
    const lease = async () => (await store.client.hGet(key, 'cs'))?.split(' ')[1];
    const first = await lease();
    await until(async () => (await lease()) !== first);
    const second = await lease();
    await until(async () => (await lease()) !== second);
    await store.fleet.denied(ask, 1);
  });

  test('while the store is unreachable, each instance admits its share, which still counts afterwards', async () => {
    await using server = await startValkey();
    await using store = await open(2, 'local', server.url);
    const limits = { requestsPerMinute: 12, tokensPerDay: 1000, requestsInFlight: 6 };
    const ask = demand(limits, { worstTokens: 100 });
    const before = await store.fleet.run(ask, 0);
    await before.end(100);
    await until(() => instancesSeen(store.fleet) === 2);
    process.kill(server.pid, 'SIGKILL');
    const running: Request[] = [];
    for (let index = 0; index < 40; index++) {
      const { request } = await store.fleet.admit(ask, index);
      if (request) running.push(request);
    }
    // Eleven requests, 900 tokens and six places in flight are left for two instances.
    assert.ok(running.length >= 2 && running.length <= 6, `${running.length} in flight`);
    await server.start();
    await until(async () => (await usesStore(store.fleet, 0)) && (await usesStore(store.fleet, 1)));
    assert.equal(
      (await store.fleet.instances[0]?.status(ask))?.find(({ limit }) => limit === 'requestsInFlight')?.used,
      running.length,
    );
    for (const request of running) await request.end(100);
    const day = { ...ask, planLimits: { tokensPerDay: 1000 } };
    await until(async () => (await used(store.fleet.instances[0], day)) === 100 + 100 * running.length);
    assert.equal(await used(store.fleet.instances[1], day), 100 + 100 * running.length);
  });

  test('the shares of the instances never add up to more than what was left', async () => {
    await using server = await startValkey();
    await using store = await open(3, 'local', server.url);
    await until(() => instancesSeen(store.fleet) === 3);
    await store.client.sendCommand(['PING']);
    process.kill(server.pid, 'SIGKILL');
    await until(
      async () =>
        !(await Promise.all([0, 1, 2].map((instance) => usesStore(store.fleet, instance)))).includes(true),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({ instance: fc.nat(2), worst: fc.integer({ min: 1, max: 60 }), ends: fc.boolean() }),
          {
            maxLength: 40,
          },
        ),
        async (asks) => {
          const accountId = `acct_${Math.random()}`;
          const limits = { tokensPerDay: 600, requestsPerMinute: 10, burst: { requests: 10 } };
          let tokens = 0;
          let admitted = 0;
          for (const { instance, worst, ends } of asks) {
            const { request } = await store.fleet.admit(
              demand(limits, { accountId, worstTokens: worst }),
              instance,
            );
            if (!request) continue;
            tokens += worst;
            admitted++;
            if (ends) await request.end(worst);
          }
          assert.ok(tokens <= 600, `${tokens} tokens`);
          assert.ok(admitted <= 3 * Math.ceil(10 / 3), `${admitted} requests`);
        },
      ),
      { numRuns: 60 },
    );
  });

  test('requests get storage_unavailable while the store is unreachable, if so configured', async () => {
    await using server = await startValkey();
    await using store = await open(1, 'refuse', server.url);
    const ask = demand({ requestsInFlight: 2, tokensPerDay: 100 }, { worstTokens: 40 });
    const running = await store.fleet.run(ask);
    process.kill(server.pid, 'SIGKILL');
    await assert.rejects(async () => store.fleet.admit(ask), { code: 'storage_unavailable' });
    await store.fleet.run(demand({}, { accountId: 'acct_unlimited' }));
    await running.end(40);
    await server.start();
    await until(() => usesStore(store.fleet, 0).catch(() => false));
    assert.equal(
      (await store.fleet.instances[0]?.status(ask))?.find(({ limit }) => limit === 'tokensPerDay')?.used,
      40,
    );
    assert.equal(
      (await store.fleet.instances[0]?.status(ask))?.find(({ limit }) => limit === 'requestsInFlight')?.used,
      0,
    );
  });

  test('a store that does not respond counts as unreachable, and nothing waits forever', async () => {
    await using server = await startValkey();
    const ledger = new FakeLedger();
    const timing = { ...TIMING, heartbeatMs: 20, responseMs: 500, retryMs: 20 };
    await using fleet = new Fleet(ledger, [await openInstance(server.url, ledger, { timing })]);
    const ask = demand({ requestsInFlight: 2 });
    await until(() => usesStore(fleet, 0));
    process.kill(server.pid, 'SIGSTOP');
    await fleet.run(ask);
    await until(async () => !(await usesStore(fleet, 0)));
    process.kill(server.pid, 'SIGCONT');
    await until(() => usesStore(fleet, 0));
    await until(async () => (await used(fleet.instances[0], ask)) === 1);
    await fleet.run(ask);
    await fleet.denied(ask);
  });

  test('the log reports once that the store is unreachable, and once that it is reachable again', async () => {
    await using server = await startValkey();
    const ledger = new FakeLedger();
    const lines: string[] = [];
    const log = {
      ...SILENT,
      warn: (line: string) => lines.push(line),
      info: (line: string) => lines.push(line),
    };
    await using fleet = new Fleet(ledger, [await openInstance(server.url, ledger, { log })]);
    await until(() => usesStore(fleet, 0));
    process.kill(server.pid, 'SIGKILL');
    await until(async () => !(await usesStore(fleet, 0)));
    await server.start();
    await until(() => lines.includes('the limit store responds again'));
    assert.deepEqual(lines, ['the limit store does not respond', 'the limit store responds again']);
  });

  test('a request gets storage_unavailable when the store undoes nine reads of the ledger', async () => {
    await using store = await open(1);
    const forgetful = {
      reads: 0,
      read: async () => {
        forgetful.reads++;
        await store.client.sendCommand(['FLUSHDB']);
        return [];
      },
    };
    await using fleet = new Fleet(store.ledger, [await openInstance(store.url, forgetful)]);
    await assert.rejects(fleet.admit(demand({ tokensPerDay: 100 })), { code: 'storage_unavailable' });
    assert.equal(forgetful.reads, 9);
  });

  test('an instance starts while the store is unreachable, and connects later', async () => {
    await using server = await startValkey();
    process.kill(server.pid, 'SIGKILL');
    const ledger = new FakeLedger();
    await using fleet = new Fleet(ledger, [await openInstance(server.url, ledger)]);
    const ask = demand({ tokensPerDay: 100 }, { worstTokens: 60 });
    const request = await fleet.run(ask);
    await server.start();
    await until(() => usesStore(fleet, 0));
    await fleet.denied(ask);
    await request.end(10);
    // For some seconds, the open row still counts, because the store does not know the request.
    await until(async () => (await fleet.admit(ask)).admitted);
  });

  test('a new limit counts running requests, even after their open rows no longer count', async () => {
    await using store = await open(1);
    const ask = demand({ requestsPerMinute: 100 }, { worstTokens: 60 });
    const running = await store.fleet.run(ask);
    const models = { 'test/model': { tokensPerDay: 100, requestsInFlight: 1 } };
    const stricter = { ...ask, planLimits: { requestsPerMinute: 100, models } };
    const inFlight = async () => {
      const status = await store.fleet.instances[0]?.status(stricter);
      return status?.find(({ limit }) => limit === 'requestsInFlight')?.used;
    };
    await until(async () => (await inFlight()) === 1);
    await store.fleet.denied(stricter);
    await running.end(50);
    assert.equal(await inFlight(), 0);
  });

  test('usage settled during two reads at the same time counts once', async () => {
    await using store = await open(2);
    const { ledger } = store;
    const ask = demand({ tokensPerDay: 100 }, { worstTokens: 40 });
    const request = await store.fleet.run(ask);
    const [first, second] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const slow = Promise.withResolvers<void>();
    let reads = 0;
    ledger.beforeSnapshot = () => {
      reads++;
      if (reads === 1) {
        first.resolve();
        return slow.promise;
      }
      return second.resolve();
    };
    // As if the usage had never been read.
    await store.client.hDel('sluice:{acct_1}:a', 'g');
    const statuses = [used(store.fleet.instances[0], ask)];
    await first.promise;
    void request.end(25);
    statuses.push(used(store.fleet.instances[1], ask));
    await second.promise;
    assert.equal(await statuses[1], 25);
    slow.resolve();
    assert.equal(await statuses[0], 25);
  });

  test('usage of a running request that a new limit counted twice is corrected', async () => {
    await using store = await open(0);
    // The reservation of the running request is not restored before the request ends.
    const timing = { ...TIMING, leaseMs: 600_000 };
    await using fleet = new Fleet(store.ledger, [await openInstance(store.url, store.ledger, { timing })]);
    const ask = demand({ requestsPerMinute: 100 }, { worstTokens: 40 });
    const running = await fleet.run(ask);
    const models = { 'test/model': { tokensPerDay: 100 } };
    const limited = { ...ask, planLimits: { models } };
    store.ledger.beforeSnapshot = () => running.endRow(25);
    assert.equal(await used(fleet.instances[0], limited), 25);
    await running.end(25);
    assert.equal(await used(fleet.instances[0], limited), 50);
    await until(async () => (await used(fleet.instances[0], limited)) === 25);
  });

  test('usage settled just before an instance ends is kept, and the instance is no longer counted', async () => {
    await using store = await open(1);
    const ask = demand({ tokensPerDay: 1000 }, { worstTokens: 10 });
    await store.fleet.run(ask);
    const ending = new Fleet(store.ledger, [await openInstance(store.url, store.ledger)]);
    await until(() => instancesSeen(store.fleet) === 2);
    const requests = await Promise.all(Array.from({ length: 20 }, () => ending.run(ask)));
    for (const request of requests) void request.end(3);
    await ending[Symbol.asyncDispose]();
    assert.equal(await used(store.fleet.instances[0], ask), 70);
    await until(() => instancesSeen(store.fleet) === 1);
  });

  test('an invalid URL is refused without showing it', async () => {
    const opening = openInstance('http://:hush@127.0.0.1', new FakeLedger());
    await assert.rejects(opening, (error) => error instanceof TypeError && !error.message.includes('hush'));
  });

  test('locally admitted requests are never lost, however often the store is unreachable', async () => {
    await using proxy = await openProxy(await valkeyUrl());
    await using store = await open(1, 'local', proxy.target);
    const ledger = store.ledger;
    await using cut = new Fleet(ledger, [await openInstance(proxy.url, ledger)]);
    const ask = demand({ tokensPerDay: 1_000_000 }, { worstTokens: 10 });
    let total = 0;
    for (let round = 0; round < 6; round++) {
      const running = [await cut.run(ask), await cut.run(ask)];
      if (round % 2 === 0) proxy.cut();
      else proxy.mend();
      running.push(await cut.run(ask));
      for (const request of running) await request.end(7);
      total += 7 * running.length;
    }
    proxy.mend();
    await until(() => usesStore(cut, 0));
    await until(async () => (await used(store.fleet.instances[0], ask)) === total);
  });
});

/**
 * Opens a proxy that forwards bytes to a store until `cut` is called. `onSent` receives the bytes before they are
 * forwarded.
 */
async function openProxy(target: string, onSent: (bytes: Buffer) => void = () => {}) {
  const { port, pathname } = new URL(target);
  let open = true;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    if (!open) {
      socket.destroy();
      return;
    }
    const upstream = connectTo(Number(port), '127.0.0.1');
    socket.on('data', onSent);
    for (const [from, to] of [
      [socket, upstream],
      [upstream, socket],
    ] as const) {
      sockets.add(from);
      from.on('error', () => {}).once('close', () => (sockets.delete(from), to.destroy()));
      from.pipe(to);
    }
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  assert.ok(address !== null && typeof address === 'object');
  return {
    url: `redis://127.0.0.1:${address.port}${pathname}`,
    target,
    cut() {
      open = false;
      for (const socket of sockets) socket.destroy();
    },
    mend() {
      open = true;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
