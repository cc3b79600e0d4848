import assert from 'node:assert/strict';
import { randomUUIDv7 } from 'node:crypto';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { ledgerUnavailable, type Ledger } from '../../src/accounts/ledger/ledger.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import type { ReplicaClient } from '../../src/replicas/replica.ts';
import type { GenerationEvent } from '../../src/core/generation.ts';
import { complete } from '../../src/inference/complete.ts';
import { CrashSuspects } from '../../src/inference/crash-suspects.ts';
import { GenerationRecord } from '../../src/inference/record.ts';
import { PromptHistory } from '../../src/inference/prompt-history.ts';
import { SILENT } from '../../src/support/log.ts';
import type { Router } from '../../src/routing/router.ts';
import { openScripted, REPLICA } from '../replicas/replicas.ts';
import { chat, collect, MODEL, textOf } from '../engine/requests.ts';
import { until } from '../harness.ts';
import { openAccounting, NO_RECOVERY, routerTo } from './fixture.ts';

const client = await openScripted({ slots: 2 });
after(() => client[Symbol.asyncDispose]());

const accounting = await openAccounting();
after(() => accounting[Symbol.asyncDispose]());

/** A replica without a server. */
const gone = new HttpReplicaClient({ ...REPLICA, name: 'gone', url: 'http://127.0.0.1:9' });
after(() => gone[Symbol.asyncDispose]());

/** Longer than any test. */
const FOREVER = 1_000_000;

/** Runs a request with a ledger in which these methods are replaced. */
function run(replica: ReplicaClient, ledger: Partial<Ledger>, directive: object, stream: boolean) {
  const router = routerTo([replica], { maxRequests: 10, maxWaitMs: FOREVER });
  const { plans, limiter, ledger: real, caller } = accounting;
  const changed: Ledger = {
    open: (row, counts) => real.open(row, counts),
    checkpoint: (id) => real.checkpoint(id),
    settle: (id, settlement) => real.settle(id, settlement),
    undelivered: (id) => real.undelivered(id),
    health: { writable: true },
    writes: real.writes,
    async [Symbol.asyncDispose]() {},
    ...ledger,
  };
  const inference = {
    accounting: { plans, limiter, ledger: changed, prompts: new PromptHistory() },
    crashSuspects: new CrashSuspects(SILENT),
    checkpointTokens: 256,
    recovery: NO_RECOVERY,
  };
  const requestId = randomUUIDv7();
  const identity = { requestId, clientRequestId: null, protocol: 'chat', client: null, caller };
  const record = new GenerationRecord();
  const request = chat(directive, { stream });
  const events = complete(inference, router.model(MODEL), identity, request, new AbortController(), record);
  return { events, record, requestId, router };
}

async function assertReleased(router: Router): Promise<void> {
  const [model] = router.overview();
  assert.equal(model?.waiting, 0);
  assert.ok(model.replicas.every(({ inFlight }) => inFlight === 0));
  assert.equal(await accounting.inFlight(), 0);
  await until(async () => (await client.health(AbortSignal.timeout(5000))).slotsInUse === 0);
}

test('the first event of a stream is held back until its row is written', async () => {
  const written = Promise.withResolvers<void>();
  const open: Ledger['open'] = async (row, counts) => {
    await accounting.ledger.open(row, counts);
    await written.promise;
  };
  const { events, record, router } = run(client, { open }, { text: 'one two' }, true);
  const received: GenerationEvent[] = [];
  const all = (async () => {
    for await (const event of events) received.push(event);
  })();
  // The scripted engine has started, and its first event has arrived.
  await until(() => record.slotAtMs !== null);
  await turn();
  assert.deepEqual(received, []);
  assert.equal(record.isRowWritten, false);
  written.resolve();
  await all;
  assert.equal(textOf(received), 'one two');
  assert.equal(record.isRowWritten, true);
  await assertReleased(router);
});

for (const stream of [true, false]) {
  test(`a ${stream ? 'streamed' : 'non-streamed'} request is aborted if its row cannot be written`, async () => {
    const written = Promise.withResolvers<void>();
    const { events, requestId, router } = run(
      client,
      { open: () => written.promise },
      { text: 'one two', tokenMs: FOREVER },
      stream,
    );
    const all = collect(events);
    await until(async () => (await client.health(AbortSignal.timeout(5000))).slotsInUse === 1);
    written.reject(ledgerUnavailable());
    await assert.rejects(all, { code: 'storage_unavailable' });
    assert.equal(await accounting.row(requestId), undefined);
    await assertReleased(router);
  });
}

test('an error is reported only if the row is on disk; otherwise, the caller gets storage_unavailable', async () => {
  const settle = () => Promise.reject(ledgerUnavailable());
  const pending = run(gone, { open: () => new Promise(() => {}), settle }, {}, false);
  await assert.rejects(collect(pending.events), { code: 'storage_unavailable' });
  await assertReleased(pending.router);
  const written = run(gone, { open: () => Promise.resolve(), settle }, {}, false);
  await assert.rejects(collect(written.events), { code: 'engine_unavailable' });
  await assertReleased(written.router);
});

test('no request is sent to a replica while the ledger is not writable', async () => {
  const health = { writable: false, sinceMs: 1, waiting: 0, reason: 'a test' } as const;
  const { events, record, router } = run(client, { health }, {}, true);
  await assert.rejects(collect(events), { code: 'storage_unavailable' });
  assert.equal(record.attempts, 0);
  await assertReleased(router);
});
