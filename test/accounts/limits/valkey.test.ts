import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, connect as connectTo, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { createClient } from '@redis/client';
import * as fc from 'fast-check';
import { utcMonth } from '../../../src/accounts/limits/calendar.ts';
import type { Limits } from '../../../src/accounts/limits/limits.ts';
import { ADMIT } from '../../../src/accounts/limits/valkey-scripts.ts';
import { SILENT } from '../../../src/log.ts';
import { run, until } from '../../harness.ts';
import { startValkey } from '../../server-process.ts';
import { valkeyUrl, withoutValkey } from '../../servers.ts';
import { demand, FakeLedger, Fleet, openCopy, TIMING, type Request } from './fleet.ts';

/** Several copies on one Valkey, and a connection beside them. */
async function open(copies: number, whenStoreIsAway: 'local' | 'refuse' = 'local', url?: string) {
  const address = url ?? (await valkeyUrl());
  const ledger = new FakeLedger();
  const opening = Array.from({ length: copies }, () => openCopy(address, ledger, { whenStoreIsAway }));
  const fleet = new Fleet(ledger, await Promise.all(opening));
  const client = createClient({ url: address });
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

/** Whether a copy asks the store: what it admits is held there. */
async function asksStore(fleet: Fleet, copy: number): Promise<boolean> {
  const { request } = await fleet.admit(
    demand({ requestsInFlight: 1_000_000 }, { accountId: `probe_${copy}` }),
    copy,
  );
  const held = request?.reservation as { stored?: object | null } | undefined;
  await request?.fail();
  return held?.stored != null;
}

async function used(
  limits: Limits | undefined,
  ask: Parameters<Limits['standing']>[0],
): Promise<number | undefined> {
  return (await limits?.standing(ask))?.[0]?.used;
}

describe('limits in Valkey', { skip: withoutValkey }, () => {
  test('copies give away one plan between them', async () => {
    await using store = await open(3);
    const limits = { requestsPerMinute: 10, tokensPerDay: 1000, requestsInFlight: 8 };
    const asks = Array.from({ length: 60 }, (_, index) =>
      store.fleet.admit(demand(limits, { worstTokens: 10 }), index),
    );
    const decisions = await Promise.all(asks);
    assert.equal(decisions.filter(({ admitted }) => admitted).length, 8);
  });

  test('a copy that has not heard of the newest generation undoes nobody’s reading of the ledger', async () => {
    const url = await valkeyUrl();
    const ledger = new FakeLedger();
    const timing = { ...TIMING, beatMs: 60_000 };
    // Each raises the generation as it comes, and hears of another's with its next beat only.
    const copies = [await openCopy(url, ledger, { timing }), await openCopy(url, ledger, { timing })];
    await using fleet = new Fleet(ledger, copies);
    for (let account = 0; account < 100; account++) {
      const ask = demand({ tokensPerDay: 1000 }, { accountId: `acct_${account}` });
      await Promise.all([1, 0, 0, 1, 0].map((copy) => fleet.run(ask, copy)));
    }
    assert.ok(ledger.reads <= 400, `${ledger.reads} readings of 100 accounts`);
  });

  test('who waits as long as told is admitted, on the clock of the store', async () => {
    await using store = await open(2);
    const ask = demand({ requestsPerMinute: 240, burst: { requests: 1 } });
    const now = async () => {
      const [seconds = '0', microseconds = '0'] = (await store.client.sendCommand([
        'TIME',
      ])) as unknown as string[];
      return Number(seconds) * 1000 + Number(microseconds) / 1000;
    };
    await store.fleet.run(ask);
    for (let index = 0; index < 8; index++) {
      const before = await now();
      const { retryAfterMs } = await store.fleet.refused(ask, index);
      const after = await now();
      assert.ok(retryAfterMs !== null && retryAfterMs <= 250 && retryAfterMs > 0);
      await until(async () => (await now()) >= after + retryAfterMs);
      const admittedFrom = await now();
      await store.fleet.run(ask, index + 1);
      // Right after, the whole wait is ahead: it is not told longer than it is.
      const next = await store.fleet.refused(ask, index);
      const passed = (await now()) - admittedFrom;
      assert.ok(
        next.retryAfterMs !== null && next.retryAfterMs >= 250 - passed - 1,
        `${next.retryAfterMs}, ${passed}`,
      );
      assert.ok(before <= after);
    }
  });

  test('months are told as the calendar has them', async () => {
    await using store = await open(0);
    const text = `${ADMIT.text.slice(0, ADMIT.text.indexOf('local this_month'))} return month_of(tonumber(ARGV[1]))`;
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 0, max: 100_000 }), async (day) => {
        const month = await store.client.sendCommand(['EVAL', text, '0', String(day)]);
        assert.equal(month, utcMonth(day * 86_400_000));
      }),
      { numRuns: 500 },
    );
  });

  test('a new day and a new month begin with what still runs left out', async () => {
    await using store = await open(2);
    const ask = demand({ tokensPerDay: 100, tokensPerMonth: 100 }, { worstTokens: 60 });
    await (await store.fleet.run(ask)).end(60);
    const running = await store.fleet.run({ ...ask, worstTokens: 40 });
    await store.fleet.refused(ask);
    const key = 'sluice:{acct_1}:a';
    const [day, month] = await store.client.hmGet(key, ['d', 'm']);
    // As if all of it had happened in a day of the month before.
    for (const row of store.ledger.rows) row.startedAt -= 31 * 86_400_000;
    await store.client.hSet(key, { d: Number(day) - 31, m: Number(month) - 1 });
    await store.fleet.run(ask, 1);
    assert.equal(await used(store.fleet.copies[0], ask), 60);
    // It started today, as far as it knows, and holds nothing today any more.
    await running.end(40);
    assert.ok(((await used(store.fleet.copies[0], ask)) ?? 0) <= 100);
  });

  test('every key expires, and those of an account share its hash tag', async () => {
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

  test('scripts that were flushed are sent again', async () => {
    await using store = await open(1);
    const ask = demand({ requestsInFlight: 1 });
    await store.client.sendCommand(['SCRIPT', 'FLUSH']);
    await (await store.fleet.run(ask)).end(1);
    await store.client.sendCommand(['SCRIPT', 'FLUSH']);
    await store.fleet.run(ask);
  });

  test('a store that forgot everything gives nobody a second budget', async () => {
    await using store = await open(3);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(2), { minLength: 6, maxLength: 30 }),
        fc.nat(5),
        async (copies, flushAt) => {
          const accountId = `acct_${Math.random()}`;
          const limits = { requestsPerMinute: 8, tokensPerDay: 130, usdPerMonth: '0.000130' };
          const ask = demand(limits, { accountId, worstTokens: 30, worstPico: 30_000_000n });
          const running: Request[] = [];
          let tokens = 0;
          let admitted = 0;
          for (const [index, copy] of copies.entries()) {
            if (index === flushAt) await store.client.flushDb();
            const decision = await store.fleet.admit(ask, copy);
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

  test('after the store forgot, places in flight are claimed anew', async () => {
    await using store = await open(0);
    // Long before the lease has to be renewed.
    const timing = { ...TIMING, leaseMs: 600_000 };
    const copies = await Promise.all([1, 2].map(() => openCopy(store.url, store.ledger, { timing })));
    await using fleet = new Fleet(store.ledger, copies);
    const ask = demand({ requestsInFlight: 2 });
    const requests = [await fleet.run(ask, 0), await fleet.run(ask, 1)];
    await store.client.flushDb();
    await until(async () => (await used(copies[0], ask)) === 2);
    await fleet.refused(ask);
    for (const request of requests) await request.end(1);
    assert.equal(await used(copies[0], ask), 0);
  });

  test('what a dead copy holds is given back when nothing was heard of it for its lease', async () => {
    await using proxy = await openProxy(await valkeyUrl());
    await using store = await open(1, 'local', proxy.target);
    const dead = new Fleet(store.ledger, [await openCopy(proxy.url, store.ledger)]);
    const ask = demand({ requestsInFlight: 1, tokensPerDay: 100 }, { worstTokens: 100 });
    const held = await dead.run(ask);
    await store.fleet.refused(ask);
    proxy.cut();
    await until(async () => (await store.fleet.admit(ask)).admitted);
    // It was not dead after all: what it used counts when it is back.
    await held.end(100);
    proxy.mend();
    await until(
      async () => (await used(store.fleet.copies[0], { ...ask, planLimits: { tokensPerDay: 1000 } })) === 200,
    );
    await dead[Symbol.asyncDispose]();
  });

  test('two processes give away one plan between them', async () => {
    await using store = await open(0);
    const child = join(import.meta.dirname, 'copy-child.ts');
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
    await store.fleet.refused(ask, 1);
  });

  test('while the store is away each copy gives away its share, and what it gave counts afterwards', async () => {
    await using server = await startValkey();
    await using store = await open(2, 'local', server.url);
    const limits = { requestsPerMinute: 12, tokensPerDay: 1000, requestsInFlight: 6 };
    const ask = demand(limits, { worstTokens: 100 });
    const before = await store.fleet.run(ask, 0);
    await before.end(100);
    await until(() => copiesSeen(store.fleet) === 2);
    process.kill(server.pid, 'SIGKILL');
    const running: Request[] = [];
    for (let index = 0; index < 40; index++) {
      const { request } = await store.fleet.admit(ask, index);
      if (request) running.push(request);
    }
    // Eleven requests, nine hundred tokens and six places are left, for two copies.
    assert.ok(running.length >= 2 && running.length <= 6, `${running.length} in flight`);
    await server.start();
    await until(async () => (await asksStore(store.fleet, 0)) && (await asksStore(store.fleet, 1)));
    assert.equal(
      (await store.fleet.copies[0]?.standing(ask))?.find(({ limit }) => limit === 'requestsInFlight')?.used,
      running.length,
    );
    for (const request of running) await request.end(100);
    const day = { ...ask, planLimits: { tokensPerDay: 1000 } };
    await until(async () => (await used(store.fleet.copies[0], day)) === 100 + 100 * running.length);
    assert.equal(await used(store.fleet.copies[1], day), 100 + 100 * running.length);
  });

  test('the shares of the copies never sum up to more than what was left', async () => {
    await using server = await startValkey();
    await using store = await open(3, 'local', server.url);
    await until(() => copiesSeen(store.fleet) === 3);
    await store.client.sendCommand(['PING']);
    process.kill(server.pid, 'SIGKILL');
    await until(
      async () => !(await Promise.all([0, 1, 2].map((copy) => asksStore(store.fleet, copy)))).includes(true),
    );
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.record({ copy: fc.nat(2), worst: fc.integer({ min: 1, max: 60 }), ends: fc.boolean() }), {
          maxLength: 40,
        }),
        async (asks) => {
          const accountId = `acct_${Math.random()}`;
          const limits = { tokensPerDay: 600, requestsPerMinute: 10, burst: { requests: 10 } };
          let tokens = 0;
          let admitted = 0;
          for (const { copy, worst, ends } of asks) {
            const { request } = await store.fleet.admit(
              demand(limits, { accountId, worstTokens: worst }),
              copy,
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

  test('503 storage_unavailable while the store is away, where the operator wants that', async () => {
    await using server = await startValkey();
    await using store = await open(1, 'refuse', server.url);
    const ask = demand({ requestsInFlight: 2, tokensPerDay: 100 }, { worstTokens: 40 });
    const running = await store.fleet.run(ask);
    process.kill(server.pid, 'SIGKILL');
    await assert.rejects(async () => store.fleet.admit(ask), { code: 'storage_unavailable' });
    await store.fleet.run(demand({}, { accountId: 'acct_unlimited' }));
    await running.end(40);
    await server.start();
    await until(() => asksStore(store.fleet, 0).catch(() => false));
    assert.equal(
      (await store.fleet.copies[0]?.standing(ask))?.find(({ limit }) => limit === 'tokensPerDay')?.used,
      40,
    );
    assert.equal(
      (await store.fleet.copies[0]?.standing(ask))?.find(({ limit }) => limit === 'requestsInFlight')?.used,
      0,
    );
  });

  test('a store that does not answer is away after a while, and nothing waits for ever', async () => {
    await using server = await startValkey();
    const ledger = new FakeLedger();
    const timing = { beatMs: 20, answerMs: 500, leaseMs: 1000, retryMs: 20 };
    await using fleet = new Fleet(ledger, [await openCopy(server.url, ledger, { timing })]);
    const ask = demand({ requestsInFlight: 2 });
    await until(() => asksStore(fleet, 0));
    process.kill(server.pid, 'SIGSTOP');
    await fleet.run(ask);
    await until(async () => !(await asksStore(fleet, 0)));
    process.kill(server.pid, 'SIGCONT');
    await until(() => asksStore(fleet, 0));
    await until(async () => (await used(fleet.copies[0], ask)) === 1);
    await fleet.run(ask);
    await fleet.refused(ask);
  });

  test('the log reports once that the store is away, and once that it is back', async () => {
    await using server = await startValkey();
    const ledger = new FakeLedger();
    const lines: string[] = [];
    const log = {
      ...SILENT,
      warn: (line: string) => lines.push(line),
      info: (line: string) => lines.push(line),
    };
    await using fleet = new Fleet(ledger, [await openCopy(server.url, ledger, { log })]);
    await until(() => asksStore(fleet, 0));
    process.kill(server.pid, 'SIGKILL');
    await until(async () => !(await asksStore(fleet, 0)));
    await server.start();
    await until(() => lines.includes('the store of limits answers again'));
    assert.deepEqual(lines, ['the store of limits does not answer', 'the store of limits answers again']);
  });

  test('503 storage_unavailable when nine readings of the ledger are each undone by the store', async () => {
    await using store = await open(1);
    const forgetful = {
      reads: 0,
      usedBy: async () => {
        forgetful.reads++;
        await store.client.sendCommand(['FLUSHDB']);
        return [];
      },
    };
    await using fleet = new Fleet(store.ledger, [await openCopy(store.url, forgetful)]);
    await assert.rejects(fleet.admit(demand({ tokensPerDay: 100 })), { code: 'storage_unavailable' });
    assert.equal(forgetful.reads, 9);
  });

  test('a copy starts while the store is away, and finds it later', async () => {
    await using server = await startValkey();
    process.kill(server.pid, 'SIGKILL');
    const ledger = new FakeLedger();
    await using fleet = new Fleet(ledger, [await openCopy(server.url, ledger)]);
    const ask = demand({ tokensPerDay: 100 }, { worstTokens: 60 });
    const request = await fleet.run(ask);
    await server.start();
    await until(() => asksStore(fleet, 0));
    await fleet.refused(ask);
    await request.end(10);
    // Its row stood in for it while the store did not know it, and does so for some seconds.
    await until(async () => (await fleet.admit(ask)).admitted);
  });

  test('a limit that is new counts what runs, also when its rows no longer stand in for it', async () => {
    await using store = await open(1);
    const ask = demand({ requestsPerMinute: 100 }, { worstTokens: 60 });
    const running = await store.fleet.run(ask);
    const models = { 'test/model': { tokensPerDay: 100, requestsInFlight: 1 } };
    const stricter = { ...ask, planLimits: { requestsPerMinute: 100, models } };
    const inFlight = async () => {
      const standing = await store.fleet.copies[0]?.standing(stricter);
      return standing?.find(({ limit }) => limit === 'requestsInFlight')?.used;
    };
    await until(async () => (await inFlight()) === 1);
    await store.fleet.refused(stricter);
    await running.end(50);
    assert.equal(await inFlight(), 0);
  });

  test('what is settled just before a copy ends is not lost, and the copy is not counted any more', async () => {
    await using store = await open(1);
    const ask = demand({ tokensPerDay: 1000 }, { worstTokens: 10 });
    await store.fleet.run(ask);
    const ending = new Fleet(store.ledger, [await openCopy(store.url, store.ledger)]);
    await until(() => copiesSeen(store.fleet) === 2);
    const requests = await Promise.all(Array.from({ length: 20 }, () => ending.run(ask)));
    for (const request of requests) void request.end(3);
    await ending[Symbol.asyncDispose]();
    assert.equal(await used(store.fleet.copies[0], ask), 70);
    await until(() => copiesSeen(store.fleet) === 1);
  });

  test('an address that is none is refused without showing it', async () => {
    const opening = openCopy('http://:hush@127.0.0.1', new FakeLedger());
    await assert.rejects(opening, (error) => error instanceof TypeError && !error.message.includes('hush'));
  });

  test('what was admitted alone is never lost, however often the store goes away', async () => {
    await using proxy = await openProxy(await valkeyUrl());
    await using store = await open(1, 'local', proxy.target);
    const ledger = store.ledger;
    await using cut = new Fleet(ledger, [await openCopy(proxy.url, ledger)]);
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
    await until(() => asksStore(cut, 0));
    await until(async () => (await used(store.fleet.copies[0], ask)) === total);
  });
});

function copiesSeen(fleet: Fleet): number {
  return Math.min(...fleet.copies.map((copy) => (copy as unknown as { copies: number }).copies));
}

/** Passes bytes on to a store, until it is cut: then it is unreachable. */
async function openProxy(target: string) {
  const { port, pathname } = new URL(target);
  let open = true;
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    if (!open) {
      socket.destroy();
      return;
    }
    const upstream = connectTo(Number(port), '127.0.0.1');
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
