import assert from 'node:assert/strict';
import { randomUUIDv7 } from 'node:crypto';
import { getEventListeners } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { costOf } from '../../src/accounts/ledger/cost.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { ReplicaRefused, type ReplicaClient } from '../../src/replicas/replica.ts';
import { formatFrame, KEEP_ALIVE_FRAME } from '../../src/engine/engine-protocol.ts';
import type { Directive } from '../support/scripted-engine/directive.ts';
import { ServiceError } from '../../src/core/errors.ts';
import type { GenerationRequest, EngineEvent, GenerationEvent } from '../../src/core/generation.ts';
import { SILENT, type Log } from '../../src/support/log.ts';
import { complete, type Generation, ClientDisconnected } from '../../src/inference/complete.ts';
import { CrashSuspects } from '../../src/inference/crash-suspects.ts';
import { GenerationRecord } from '../../src/inference/record.ts';
import { SYSTEM_CLOCK } from '../../src/routing/breaker.ts';
import type { Router } from '../../src/routing/router.ts';
import { openScripted, HttpReplica, REPLICA, respondHello } from '../replicas/replicas.ts';
import { chat, collect, MODEL, textOf } from '../engine/requests.ts';
import { until } from '../harness.ts';
import { openAccounting, NO_RECOVERY, PRICE, routerTo } from './fixture.ts';

/** Longer than any test. */
const FOREVER = 1_000_000;

const client = await openScripted({ slots: 2 });
after(() => client[Symbol.asyncDispose]());

/** The real ledger on SQLite and limits in memory. */
const accounting = await openAccounting();
after(() => accounting[Symbol.asyncDispose]());

/** A replica without a server. */
const gone = new HttpReplicaClient({ ...REPLICA, name: 'gone', url: 'http://127.0.0.1:9' });
after(() => gone[Symbol.asyncDispose]());

interface Run {
  [Symbol.asyncIterator](): Generation;
  requestId: string;
  record: GenerationRecord;
  stop: AbortController;
}

function run(router: Router, request: GenerationRequest, accountId = accounting.caller.accountId): Run {
  const stop = new AbortController();
  const record = new GenerationRecord();
  const requestId = randomUUIDv7();
  const inference = {
    accounting: accounting,
    crashSuspects: new CrashSuspects(SILENT),
    checkpointTokens: 256,
    recovery: NO_RECOVERY,
  };
  const identity = {
    requestId,
    clientRequestId: null,
    protocol: 'chat',
    client: null,
    caller: { ...accounting.caller, accountId },
  };
  const events = complete(inference, router.model(MODEL), identity, request, stop, record);
  return { requestId, record, stop, [Symbol.asyncIterator]: () => events };
}

function assertReleased(router: Router): void {
  const [model] = router.overview();
  assert.equal(model?.waiting, 0);
  assert.ok(model.replicas.every(({ inFlight }) => inFlight === 0));
}

/** Occupies a slot of the engine, and returns a function that frees it. */
async function occupy(router: Router): Promise<() => Promise<void>> {
  const generation = run(router, chat({ tokens: 9, tokenMs: FOREVER }));
  const events = generation[Symbol.asyncIterator]();
  assert.equal((await events.next()).value?.type, 'started');
  return async () => {
    const next = events.next().then(() => events.next());
    generation.stop.abort(new Error('enough'));
    await assert.rejects(next, /enough/);
  };
}

/** Reads a generation, and disconnects at its first token. */
async function leaveAtFirstToken(generation: Run): Promise<void> {
  await assert.rejects(async () => {
    for await (const { type } of generation)
      if (type === 'token') generation.stop.abort(new ClientDisconnected());
  }, ClientDisconnected);
}

async function slotsAreFree(): Promise<void> {
  await until(async () => {
    const { slotsInUse, queued } = await client.health(AbortSignal.timeout(5000));
    return slotsInUse === 0 && queued === 0;
  });
}

async function failsWith(events: AsyncIterable<GenerationEvent>, code: string): Promise<ServiceError> {
  const error = await collect(events).then(
    () => null,
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ServiceError, String(error));
  assert.equal(error.code, code);
  return error;
}

test('a generation yields its events, and records its replica, times and usage', async () => {
  const router = routerTo([client]);
  const generation = run(router, chat({ text: 'one two three', cachedTokens: 4 }));
  const events = await collect(generation);
  assert.equal(textOf(events), 'one two three');
  const { record } = generation;
  assert.deepEqual(record.usage, {
    promptTokens: 13,
    completionTokens: 3,
    cachedTokens: 4,
    reasoningTokens: 0,
  });
  assert.deepEqual([record.replica, record.finishReason, record.usageSource], ['replica', 'stop', 'engine']);
  const times = [record.startedAtMs, record.slotAtMs, record.firstTokenAtMs, record.endedAtMs];
  assert.deepEqual(
    times,
    times.toSorted((a, b) => Number(a) - Number(b)),
  );
  assert.ok(times.every((time) => time !== null));
  assertReleased(router);
});

test('the progress of a long prompt is not part of the response, however long it is', async () => {
  const usage = { promptTokens: 2000, cachedTokens: 50, completionTokens: 1, reasoningTokens: 0 };
  const sent: EngineEvent[] = [
    { type: 'started', promptTokens: 2000, cachedTokens: 50 },
    ...Array.from({ length: 60 }, (_, index) => ({
      type: 'prefill' as const,
      promptTokens: 2000,
      doneTokens: 30 * (index + 1),
    })),
    { type: 'token', choice: 0, text: 'hi', completionTokens: 1, logprobs: null },
    { type: 'finish', choice: 0, reason: 'length', stopSequence: null },
    { type: 'end', usage, usageSource: 'engine' },
  ];
  const write = async (response: ServerResponse): Promise<void> => {
    for (const event of sent) await new Promise((done) => void response.write(formatFrame(event), done));
    response.end();
  };
  await using engine = await HttpReplica.listen((response) => void write(response), { dialect: 'sluice' });
  const events = run(routerTo([engine.client]), chat({}, { maxTokens: 1 }));
  const types = (await collect(events)).map(({ type }) => type);
  assert.deepEqual(types, ['started', 'token', 'finish', 'end']);
  assert.deepEqual(events.record.usage, usage);
});

for (const [progress, directive, promptTokens] of [
  ['nothing', { cachedTokens: 0 }, 0],
  ['what was cached', { cachedTokens: 4 }, 4],
  ['what was cached and computed', { cachedTokens: 4, prefillTokens: 9 }, 9],
] as const) {
  for (const stream of [true, false]) {
    test(`a caller who disconnects during the prefill pays for ${progress}, stream ${stream}`, async () => {
      const router = routerTo([client]);
      const generation = run(router, chat({ ...directive, prefillMs: FOREVER }, { stream }));
      const rest = collect(generation);
      const { record, requestId, stop } = generation;
      await until(() => record.slotAtMs !== null && record.usage.promptTokens === promptTokens);
      stop.abort(new ClientDisconnected());
      await assert.rejects(rest, ClientDisconnected);
      const row = await accounting.row(requestId);
      const { cachedTokens } = directive;
      const cost = costOf({ promptTokens, cachedTokens, completionTokens: 0 }, PRICE);
      assert.deepEqual(
        [row?.state, row?.billed, row?.prompt_tokens, row?.cached_tokens, row?.usage_source, row?.cost],
        ['settled', 1, promptTokens, cachedTokens, 'engine', cost],
      );
      assert.equal(record.costPico, cost);
      assertReleased(router);
    });
  }
}

test('the replica has the progress of a prompt until the first token, or until its request ends', async () => {
  for (const directive of [{ tokenMs: FOREVER }, { prefillMs: FOREVER }]) {
    const router = routerTo([client]);
    const progress = { prefillTokens: 9, cachedTokens: 4 };
    const generation = run(router, chat({ ...progress, ...directive }));
    const replica = () => router.reports()[0];
    const seen: (number | undefined)[] = [];
    const { requestId, stop } = generation;
    const rest = assert.rejects(async () => {
      for await (const { type } of generation) {
        if (type !== 'token') continue;
        seen.push(replica()?.prefill?.doneTokens);
        stop.abort(new ClientDisconnected());
      }
    }, ClientDisconnected);
    if ('prefillMs' in directive) {
      await until(() => router.prefillOf(requestId) !== null);
      const { doneTokens, leftMs } = router.prefillOf(requestId) ?? {};
      assert.deepEqual([doneTokens, replica()?.prefill?.doneTokens], [9, 9]);
      assert(leftMs != null && leftMs >= 0);
      stop.abort(new ClientDisconnected());
    }
    await rest;
    assert.deepEqual(seen, 'prefillMs' in directive ? [] : [undefined]);
    assert.deepEqual([router.prefillOf(requestId), replica()?.prefill], [null, null]);
  }
});

test('a caller who disconnects after the first token pays for the whole prompt', async () => {
  const generation = run(routerTo([client]), chat({ prefillTokens: 9, cachedTokens: 4, tokenMs: FOREVER }));
  await leaveAtFirstToken(generation);
  const row = await accounting.row(generation.requestId);
  assert.deepEqual([row?.prompt_tokens, row?.completion_tokens], [16, 1]);
});

test('a refused connection moves the request to the next replica, invisibly to the caller', async () => {
  const router = routerTo([gone, client]);
  for (let turn = 0; turn < 3; turn++) {
    const generation = run(router, chat({ text: 'fine' }));
    assert.equal(textOf(await collect(generation)), 'fine');
    assert.equal(generation.record.replica, 'replica');
  }
  assertReleased(router);
});

test("a request tries each busy replica once, and returns the last one's retry-after", async () => {
  await using busy = await HttpReplica.listen((response) =>
    response.writeHead(503, { 'retry-after': '3' }).end(),
  );
  await using full = await HttpReplica.listen((response) =>
    response.writeHead(503, { 'retry-after': '7' }).end(),
  );
  const free = routerTo([busy.client, gone, full.client, client]);
  assert.equal(textOf(await collect(run(free, chat({ text: 'fine' })))), 'fine');
  assert.deepEqual([busy.bodies.length, full.bodies.length], [1, 1]);

  const none = routerTo([busy.client, gone, full.client]);
  const refused = await failsWith(run(none, chat()), 'engine_unavailable');
  assert.ok(refused instanceof ReplicaRefused);
  assert.equal(refused.retryAfterMs, 7000);
  assert.deepEqual([busy.bodies.length, full.bodies.length], [2, 2]);
  assertReleased(free);
  assertReleased(none);
});

test('a replica that responds with 429 gets one request until its retry-after has passed', async () => {
  await using limited = await HttpReplica.listen((response) =>
    response.writeHead(429, { 'retry-after': '30' }).end(),
  );
  const router = routerTo([limited.client, client]);
  for (let turn = 0; turn < 30; turn++) {
    assert.equal(textOf(await collect(run(router, chat({ text: 'fine' })))), 'fine');
  }
  assert.equal(limited.bodies.length, 1);
});

test('requests that are refused when their only replica begins to limit the rate wait until it accepts them', async () => {
  const accepted: [ServerResponse, IncomingMessage, Record<string, unknown>][] = [];
  let refused = 0;
  await using limited = await HttpReplica.listen((...request) => {
    if (limited.bodies.length <= 4) return accepted.push(request);
    if (limited.bodies.length > 24) return respondHello(...request);
    refused++;
    return request[0].writeHead(429, { 'retry-after-ms': '20' }).end();
  });
  const router = routerTo([limited.client]);
  const ends = Promise.all(Array.from({ length: 24 }, () => collect(run(router, chat()))));
  await until(() => refused === 20);
  for (const request of accepted) respondHello(...request);
  for (const events of await ends) assert.equal(textOf(events), 'hé 東京');
  assert.equal(limited.bodies.length, 44);
  assertReleased(router);
});

test('a request that gets a 429 from a replica three times is not sent to it again', async () => {
  await using limited = await HttpReplica.listen((response) =>
    response.writeHead(429, { 'retry-after-ms': '1' }).end(),
  );
  const router = routerTo([limited.client]);
  assert.ok((await failsWith(run(router, chat()), 'engine_unavailable')) instanceof ReplicaRefused);
  assert.equal(limited.bodies.length, 3);
  assertReleased(router);
});

/** Ways in which a replica fails a request before its first event. */
const FAILURES: Readonly<Record<string, Parameters<typeof HttpReplica.listen>[0]>> = {
  'a lost connection': (response) => response.destroy(),
  'a 500': (response) => response.writeHead(500).end(),
  'a 502 of a proxy': (response) => response.writeHead(502).end('<html>'),
  'bytes that are no stream': (response) => response.end('<html>'),
};

for (const [name, fails] of Object.entries(FAILURES)) {
  test(`${name} before the first event moves the request to another replica`, async () => {
    await using broken = await HttpReplica.listen(fails, { name: 'broken' });
    await using healthy = await HttpReplica.listen(respondHello, { name: 'healthy' });
    for (const stream of [true, false]) {
      const router = routerTo([broken.client, healthy.client]);
      const generation = run(router, chat({}, { stream }));
      assert.equal(textOf(await collect(generation)), 'hé 東京');
      assert.deepEqual([generation.record.replica, generation.record.attempts], ['healthy', 2]);
      assertReleased(router);
    }
  });
}

test('a request that fails at three replicas is not sent to a fourth, and ends with the last error', async () => {
  const received: number[] = [];
  await using owned = new AsyncDisposableStack();
  const clients: ReplicaClient[] = [];
  for (let index = 0; index < 4; index++) {
    const replica = owned.use(
      await HttpReplica.listen((response) => {
        received.push(index);
        response.writeHead(index === 2 ? 500 : 504).end();
      }),
    );
    clients.push(replica.client);
  }
  const router = routerTo(clients);
  await failsWith(run(router, chat()), 'internal_error');
  assert.deepEqual(received, [0, 1, 2]);
  assertReleased(router);
});

test('a request whose caller has received events is not sent to another replica', async () => {
  await using second = await HttpReplica.listen(respondHello);
  const router = routerTo([client, second.client]);
  await failsWith(run(router, chat({ tokens: 4, cutAfter: 2 })), 'engine_unavailable');
  assert.equal(second.bodies.length, 0);
  assertReleased(router);
});

test('a slow non-streaming response is neither retried nor a failure of the replica', async () => {
  const requests: (() => void)[] = [];
  await using owned = new AsyncDisposableStack();
  const replicas = await Promise.all(
    [0, 1].map(async () =>
      owned.use(
        await HttpReplica.listen((...exchange) => requests.push(() => respondHello(...exchange)), {
          dialect: 'vllm',
          firstByteMs: 20,
          responseMs: 1000,
        }),
      ),
    ),
  );
  const router = routerTo(replicas.map(({ client }) => client));
  const slow = run(router, chat({}, { stream: false }));
  const collected = collect(slow);
  await until(() => requests.length === 1);
  // These streams fail because of `firstByteMs`, so the response is slower than that.
  await failsWith(run(router, chat()), 'engine_unavailable');
  requests[0]?.();
  assert.equal(textOf(await collected), 'hé 東京');
  assert.equal(slow.record.attempts, 1);

  const before = requests.length;
  const endless = run(router, chat({}, { stream: false }));
  const timeout = await failsWith(endless, 'response_timeout');
  assert.match(timeout.message, /not complete after 1 s/);
  assert.equal(requests.length - before, 1);
  assert.equal((await accounting.row(endless.requestId))?.billed, 0);
  assertReleased(router);
});

test('a non-streaming response that is too long because of log probabilities is neither retried nor a failure of the replica', async () => {
  const mebibyte = ' '.repeat(1_048_576);
  let sent = 0;
  const fill: Parameters<typeof HttpReplica.listen>[0] = (response) => {
    sent++;
    for (let part = 0; part <= 64; part++) response.write(mebibyte);
  };
  await using first = await HttpReplica.listen(fill, { dialect: 'vllm' });
  await using second = await HttpReplica.listen(fill, { dialect: 'vllm' });
  const router = routerTo([first.client, second.client]);
  const tooLarge = await failsWith(
    run(router, chat({}, { stream: false, logprobs: 20 })),
    'response_too_large',
  );
  assert.match(tooLarge.message, /more than 64 MiB\. Set `stream` to true/);
  assert.equal(sent, 1);
  await failsWith(run(router, chat({}, { stream: false })), 'engine_unavailable');
  assert.equal(sent, 3);
  assertReleased(router);
});

test('an event that is too long because of log probabilities is not a failure of the replica', async () => {
  const top_logprobs = Array.from({ length: 20 }, () => ({ token: 'a', logprob: -1, bytes: [97] }));
  const content = Array.from({ length: 2000 }, () => ({ ...top_logprobs[0], top_logprobs }));
  const choices = [{ index: 0, delta: { content: 'a'.repeat(2000) }, logprobs: { content } }];
  const frame = `data: ${JSON.stringify({ choices })}\n\n`;
  await using joining = await HttpReplica.listen((response) => response.end(frame), { dialect: 'vllm' });
  const router = routerTo([joining.client]);
  for (let turn = 0; turn < 5; turn++) {
    await failsWith(run(router, chat({}, { logprobs: 20 })), 'response_too_large');
  }
  assert.equal(router.overview()[0]?.replicas[0]?.pauses, 0);
  await failsWith(run(router, chat()), 'engine_unavailable');
});

test('an error of the request itself is returned at once, and is not a failure of the replica', async () => {
  await using strict = await HttpReplica.listen((response) =>
    response.writeHead(400).end('{"message":"no"}'),
  );
  await using second = await HttpReplica.listen(respondHello);
  const router = routerTo([strict.client, second.client], {}, { policy: 'round-robin' });
  for (let turn = 0; turn < 12; turn++) {
    const events = collect(run(router, chat()));
    if (turn % 2 === 0) await assert.rejects(events, { code: 'invalid_value' });
    else await events;
  }
  assert.deepEqual([strict.bodies.length, second.bodies.length], [6, 6]);
});

test('a replica that fails fast is paused, and no caller notices', async () => {
  await using broken = await HttpReplica.listen((response) => response.writeHead(500).end());
  const router = routerTo([broken.client, client]);
  for (let batch = 0; batch < 20; batch++) {
    const events = Array.from({ length: 10 }, () => collect(run(router, chat({ text: 'fine' }))));
    for (const each of await Promise.all(events)) assert.equal(textOf(each), 'fine');
  }
  // The requests before the 5th failure, and a few trials.
  assert.ok(broken.bodies.length < 20, `${broken.bodies.length} requests went to it`);
  assertReleased(router);
});

test('a request whose client disconnects before a replica responds is not sent to another', async () => {
  const received = Promise.withResolvers<void>();
  await using slow = await HttpReplica.listen(() => received.resolve());
  await using second = await HttpReplica.listen(respondHello);
  const router = routerTo([slow.client, second.client]);
  const generation = run(router, chat());
  const collected = collect(generation);
  await received.promise;
  const reason = new ClientDisconnected();
  generation.stop.abort(reason);
  await assert.rejects(collected, reason);
  assert.equal(second.bodies.length, 0);
  assertReleased(router);
});

test('a request waits in the queue until the replica has room', async () => {
  const router = routerTo([client], {}, { maxInFlight: 2 });
  const waiting = () => router.overview()[0]?.waiting;
  const running = [await occupy(router), await occupy(router)];
  assert.equal(waiting(), 0);
  const third = run(router, chat({ text: 'late' }));
  const collected = collect(third);
  await until(() => waiting() === 1);
  assert.equal((await client.health(AbortSignal.timeout(5000))).queued, 0);
  for (const free of running) await free();
  assert.equal(textOf(await collected), 'late');
  assertReleased(router);
  await slotsAreFree();
});

test('requests that wait again after their replica has failed do not exceed the queue', async () => {
  const broken: ServerResponse[] = [];
  const busy: [ServerResponse, IncomingMessage, Record<string, unknown>][] = [];
  await using first = await HttpReplica.listen((response) => broken.push(response));
  await using second = await HttpReplica.listen((...request) => busy.push(request));
  const router = routerTo([first.client, second.client], { maxRequests: 2 }, { maxInFlight: 5 });
  const codes: string[] = [];
  const ends = Array.from({ length: 10 }, async () => {
    await collect(run(router, chat())).catch((error: ServiceError) => codes.push(error.code));
  });
  await until(() => broken.length === 5 && busy.length === 5);
  for (const response of broken) response.destroy();
  await until(() => codes.length + (router.overview()[0]?.waiting ?? 0) === 5);
  assert.deepEqual(codes, ['queue_full', 'queue_full', 'queue_full']);
  for (const request of busy.splice(0)) respondHello(...request);
  await until(() => busy.length === 2);
  for (const request of busy) respondHello(...request);
  await Promise.all(ends);
  assert.equal(codes.length, 3);
  assertReleased(router);
});

test('a request that waits longer than maxWaitMs is queue_full with a retry-after', async () => {
  const router = routerTo([client], { maxWaitMs: 100 }, { maxInFlight: 1 });
  const free = await occupy(router);
  const generation = run(router, chat());
  const refused = await failsWith(generation, 'queue_full');
  assert.equal(refused.message, 'The request waited 1 s for a free slot of this model. Try again later.');
  assert.equal(refused.retryAfterMs, 1000);
  assert.deepEqual([generation.record.slotAtMs, generation.record.attempts], [null, 0]);
  await free();
  assertReleased(router);
  await slotsAreFree();
});

test(
  'the waits of a request for several replicas are together at most maxWaitMs',
  { timeout: 30_000 },
  async () => {
    const open: ServerResponse[] = [];
    const hold = (response: ServerResponse) => open.push(response);
    await using first = await HttpReplica.listen(hold);
    await using second = await HttpReplica.listen(hold);
    let nowMs = 0;
    const clock = { ...SYSTEM_CLOCK, now: () => nowMs };
    const router = routerTo([first.client, second.client], { maxWaitMs: 600_000 }, { maxInFlight: 1, clock });
    const running = [run(router, chat()), run(router, chat())];
    const ended = Promise.allSettled(running.map(collect));
    await until(() => open.length === 2);
    const waiting = run(router, chat());
    const refused = failsWith(waiting, 'queue_full');
    await until(() => router.overview()[0]?.waiting === 1);
    nowMs += 599_900;
    running[0]?.stop.abort(new Error('enough'));
    await until(() => open.length === 3);
    open[2]?.destroy();
    await refused;
    assert.equal(waiting.record.attempts, 1);
    running[1]?.stop.abort(new Error('enough'));
    await ended;
    assertReleased(router);
  },
);

for (const moment of ['waits', 'is admitted']) {
  test(`a request that ${moment} and loses its place in the queue to another account costs nothing`, async () => {
    const router = routerTo([client], { maxRequests: 2 }, { maxInFlight: 1 });
    const waiting = () => router.overview()[0]?.waiting;
    const free = await occupy(router);
    const first = collect(run(router, chat({ text: 'first' })));
    await until(() => waiting() === 1);
    const second = run(router, chat({ text: 'second' }));
    const refused = failsWith(second, 'queue_full');
    if (moment === 'waits') await until(() => waiting() === 2);
    const other = collect(run(router, chat({ text: 'other' }), 'other'));

    const { status, message, retryAfterMs } = await refused;
    assert.deepEqual([status, retryAfterMs], [503, 1000]);
    assert.match(message, /This account had the most, so its latest request was removed/);
    const row = await accounting.row(second.requestId);
    assert.deepEqual(
      [row?.state, row?.error_code, row?.billed, row?.cost, row?.attempts],
      ['settled', 'queue_full', 0, 0n, 0],
    );
    assert.equal(await accounting.inFlight(), 2, 'the limits still count it');
    assert.equal(getEventListeners(second.stop.signal, 'abort').length, 0);
    await until(() => waiting() === 2);

    await free();
    assert.deepEqual([textOf(await first), textOf(await other)], ['first', 'other']);
    assertReleased(router);
    assert.equal(await accounting.inFlight(), 0);
    await slotsAreFree();
  });
}

test('a request whose client disconnects while it waits leaves the queue', async () => {
  const router = routerTo([client], {}, { maxInFlight: 1 });
  const free = await occupy(router);
  const generation = run(router, chat());
  const collected = collect(generation);
  await until(() => router.overview()[0]?.waiting === 1);
  const reason = new ClientDisconnected();
  generation.stop.abort(reason);
  await assert.rejects(collected, reason);
  assert.equal(router.overview()[0]?.waiting, 0);
  await free();
  assertReleased(router);
  await slotsAreFree();
});

test('a request leaves the queue when it is sent to a server that does not report slots', async () => {
  for (const stream of [true, false]) {
    const waiting: (() => void)[] = [];
    await using slow = await HttpReplica.listen(
      (...exchange) => waiting.push(() => respondHello(...exchange)),
      {
        dialect: 'vllm',
      },
    );
    const router = routerTo([slow.client], { maxRequests: 2 });
    const running: Promise<GenerationEvent[]>[] = [];
    for (let request = 1; request <= 6; request++) {
      running.push(collect(run(router, chat({}, { stream }))));
      await until(() => waiting.length === request && router.overview()[0]?.waiting === 0);
    }
    for (const respond of waiting) respond();
    for (const events of await Promise.all(running)) assert.equal(events.at(-1)?.type, 'end');
    assertReleased(router);
  }
});

test('maxWaitMs includes the wait for a slot in an engine, which is not a failure of the replica', async () => {
  await using replica = await HttpReplica.listen(
    (response) => {
      const frames = setInterval(() => response.write(KEEP_ALIVE_FRAME), 10);
      response.on('close', () => clearInterval(frames));
    },
    { dialect: 'sluice', firstByteMs: 100, silenceMs: 100, responseMs: 100 },
  );
  const router = routerTo([replica.client], { maxWaitMs: 300 });
  // As many failures would pause the replica.
  const waiting = Array.from({ length: 5 }, () => run(router, chat()));
  const errors = await Promise.all(waiting.map((events) => failsWith(events, 'queue_full')));
  assert.match(errors[0]?.message ?? '', /waited 1 s for a free slot/);
  for (const { requestId, record } of waiting) {
    assert.equal((await accounting.row(requestId))?.billed, 0);
    assert.equal(record.slotAtMs, null);
  }
  assert.equal(router.overview()[0]?.replicas[0]?.failing, false);
  assertReleased(router);
});

test('maxWaitMs does not limit the generation itself', async (context) => {
  context.mock.timers.enable({ apis: ['setTimeout'] });
  const router = routerTo([client], { maxWaitMs: 100 });
  const events = run(router, chat({ tokens: 5, prefillMs: 1000 }))[Symbol.asyncIterator]();
  assert.equal((await events.next()).value?.type, 'started');
  const clock = setInterval(() => context.mock.timers.tick(100), 1);
  const rest = await collect({ [Symbol.asyncIterator]: () => events }).finally(() => clearInterval(clock));
  assert.equal(rest.at(-1)?.type, 'end');
});

/** Ways in which the engine may end a request. */
const endings: Directive[] = [
  { tokens: 4 },
  { tokens: 4, errorAfter: 2 },
  { error: 'queue_full' },
  { error: 'context_length_exceeded' },
  { status: 500, body: 'no JSON' },
  { cutAfter: 3 },
  { endAfter: 2 },
  { garbageAfter: 2 },
  { startMs: FOREVER },
  { tokens: 4, tokenMs: FOREVER },
];

/** The error of a consumer that cannot use an event. */
const UNUSABLE = new RangeError('Invalid string length');

/** The consumer's action after this many events: continue, fail, or abort. */
const consumers = fc.record({
  after: fc.nat(8),
  does: fc.constantFrom('reads on', 'fails', 'disconnects'),
  stream: fc.boolean(),
  ending: fc.constantFrom(...endings),
});

test('the queue entry, the permit and the slot are released however a request ends, and only what was read is billed', async () => {
  await fc.assert(
    fc.asyncProperty(consumers, async ({ after: count, does, stream, ending }) => {
      const endless = 'startMs' in ending || 'tokenMs' in ending;
      const router = routerTo([gone, client], { maxWaitMs: 'startMs' in ending ? 20 : 600_000 });
      const generation = run(router, chat(ending, { stream }));
      const { stop, record } = generation;
      let seenAll = false;
      let failed = false;
      const timeout = endless ? setTimeout(() => stop.abort(new ClientDisconnected()), 100) : undefined;
      try {
        let seen = 0;
        if (does === 'disconnects' && count === 0) stop.abort(new ClientDisconnected());
        for await (const _ of generation) {
          seen++;
          if (seen < count || does === 'reads on') continue;
          if (does === 'fails') await generation[Symbol.asyncIterator]().throw(UNUSABLE);
          stop.abort(new ClientDisconnected());
        }
        seenAll = does === 'reads on';
      } catch (error) {
        failed = error === UNUSABLE;
        assert.ok(failed || error instanceof ServiceError || error === stop.signal.reason, String(error));
      } finally {
        clearTimeout(timeout);
      }
      assertReleased(router);
      assert.equal(await accounting.inFlight(), 0);
      const row = await accounting.row(generation.requestId);
      // A request that ended before admission has no row.
      if (row) assert.equal(row.state, 'settled');
      if (failed) assert.deepEqual([row?.billed, row?.cost, row?.error_code], [0, 0n, 'internal_error']);
      if (seenAll) assert.deepEqual([row?.billed, row?.cost], [1, costOf(record.usage, PRICE)]);
      assert.notEqual(record.endedAtMs, null);
      assert.equal(getEventListeners(stop.signal, 'abort').length, 0);
      await slotsAreFree();
    }),
    { numRuns: 60 },
  );
});

test('a complete response is in the ledger, with its cost, before its last event', async () => {
  const generation = run(routerTo([gone, client]), chat({ text: 'one two three' }));
  await collect(generation);
  const row = await accounting.row(generation.requestId);
  assert.deepEqual(
    [row?.state, row?.billed, row?.completion_tokens, row?.finish_reason, row?.attempts, row?.delivered],
    ['settled', 1, 3, 'stop', 2, 1],
  );
  assert.equal(row?.cost, costOf(generation.record.usage, PRICE));
});

test('cached prompt tokens are charged at their own price', async () => {
  const generation = run(routerTo([client]), chat({ text: 'one two three', cachedTokens: 4 }));
  await collect(generation);
  const row = await accounting.row(generation.requestId);
  assert.deepEqual([row?.prompt_tokens, row?.cached_tokens, row?.completion_tokens], [13, 4, 3]);
  const cost = 9n * 3n + 4n * 1n + 3n * 2n;
  assert.deepEqual([row?.cost, generation.record.costPico], [cost, cost]);
});

test('a request keeps the price at which it was admitted', async () => {
  const router = routerTo([client]);
  const generation = run(router, chat({ text: 'one two three' }, { maxTokens: 3 }));
  for await (const event of generation) {
    if (event.type !== 'started') continue;
    const price = { prompt: 3000, completion: 200_000, inputCacheRead: null };
    router.model(MODEL).update({ price, card: () => null });
  }
  const row = await accounting.row(generation.requestId);
  assert.deepEqual([row?.usage_source, row?.completion_tokens], ['engine', 3]);
  assert.equal(row?.cost, costOf(generation.record.usage, PRICE));
  assert.equal(generation.record.costPico, row?.cost);
});

test('a client that disconnects pays for what was generated, and a fault of the service costs nothing', async () => {
  const left = run(routerTo([client]), chat({ tokens: 1000, tokenMs: 1 }));
  await leaveAtFirstToken(left);
  const paid = await accounting.row(left.requestId);
  assert.deepEqual([paid?.error_code, paid?.billed, paid?.delivered], ['client_disconnected', 1, 0]);
  assert.ok((paid?.completion_tokens ?? 0) >= 1);
  assert.equal(paid?.cost, costOf(left.record.usage, PRICE));

  const broken = run(routerTo([client]), chat({ tokens: 4, errorAfter: 2 }));
  await assert.rejects(collect(broken), ServiceError);
  const free = await accounting.row(broken.requestId);
  assert.deepEqual([free?.state, free?.billed, free?.cost], ['settled', 0, 0n]);
  assert.ok((free?.completion_tokens ?? 0) >= 1);
  assert.ok(free?.error_code);
});

/** Starts a generation on a replica that sends only `frames`. Returns its row after the client has disconnected. */
async function disconnected(
  frames: readonly object[],
  request: GenerationRequest,
  tokens: number = frames.length,
) {
  const sent = Promise.withResolvers<void>();
  await using replica = await HttpReplica.listen(
    (response) => {
      if (frames.length > 0) response.writeHead(200);
      for (const frame of frames) response.write(`data: ${JSON.stringify(frame)}\n\n`);
      sent.resolve();
    },
    { dialect: 'vllm' },
  );
  const router = routerTo([replica.client]);
  const generation = run(router, request);
  const collected = collect(generation);
  await sent.promise;
  await until(() => generation.record.usage.completionTokens === tokens);
  generation.stop.abort(new ClientDisconnected());
  await assert.rejects(collected, ClientDisconnected);
  const row = await accounting.row(generation.requestId);
  assert.deepEqual([row?.error_code, row?.billed], ['client_disconnected', 1]);
  return [row?.prompt_tokens, row?.completion_tokens, row?.usage_source];
}

const LONG = { messages: [{ role: 'user', content: 'x'.repeat(400) }] } as const;

test('a client that disconnects before the first chunk pays for the prompt', async () => {
  for (const stream of [true, false]) {
    assert.deepEqual(await disconnected([], chat({}, { ...LONG, stream })), [100, 0, 'estimated']);
  }
});

test('a client that disconnects pays what the replica counted for each of several choices', async () => {
  const frame = (index: number, completion_tokens: number) => ({
    choices: [{ index, delta: { content: 'a' } }],
    usage: { prompt_tokens: 250, completion_tokens },
  });
  const frames = [frame(0, 1), frame(1, 1), frame(1, 2), frame(0, 2), frame(1, 3)];
  assert.deepEqual(await disconnected(frames, chat({}, { ...LONG, choices: 2 })), [250, 5, 'engine']);
});

test('a client that disconnects from a reasoning model pays for the reasoning', async () => {
  const frames = [1, 2, 3].map(() => ({ choices: [{ index: 0, delta: { reasoning: 'Hm' } }] }));
  assert.deepEqual(await disconnected(frames, chat({}, LONG)), [100, 3, 'estimated']);
});

test('a client that disconnects in the middle of a tool call pays for the part that was generated', async () => {
  const call = { index: 0, id: 'call_1', type: 'function', function: { name: 'f', arguments: '' } };
  const more = { index: 0, function: { arguments: '{"a":' } };
  const frames = [call, more, more].map((part) => ({
    choices: [{ index: 0, delta: { tool_calls: [part] } }],
  }));
  assert.deepEqual(await disconnected(frames, chat({}, LONG)), [100, 3, 'estimated']);
});

test('the row of a request has its reasoning tokens, even if the client disconnects', async () => {
  const finished = run(routerTo([client]), chat({ reasoning: 'Let me see', text: 'Yes' }));
  await collect(finished);
  const left = run(routerTo([client]), chat({ reasoning: 'Let me see', tokens: 1000, tokenMs: 1 }));
  await leaveAtFirstToken(left);
  for (const { requestId } of [finished, left])
    assert.equal((await accounting.row(requestId))?.reasoning_tokens, 3);
});

test('the tokens of reasoning so far are recorded, and never more than the completion', () => {
  const record = new GenerationRecord();
  const seen: [number, number][] = [];
  for (const [type, completionTokens] of [
    ['reasoning', 2],
    ['token', 3],
    ['reasoning', 5],
    ['token', 1],
    ['reasoning', 2],
  ] as const) {
    record.update({ type, choice: 0, text: 'a', completionTokens, logprobs: null }, () => 0);
    seen.push([record.usage.completionTokens, record.usage.reasoningTokens]);
  }
  assert.deepEqual(seen, [
    [2, 2],
    [3, 2],
    [5, 4],
    [1, 1],
    [2, 2],
  ]);
});

/** Responds to any request with this usage. */
const reporting =
  (usage: object | undefined, text = 'fine'): Parameters<typeof HttpReplica.listen>[0] =>
  (response, _request, body) => {
    const choice = (key: string) => ({ index: 0, [key]: { content: text }, finish_reason: 'stop' });
    if (!body['stream']) return response.end(JSON.stringify({ choices: [choice('message')], usage }));
    return response.end(`data: ${JSON.stringify({ choices: [choice('delta')], usage })}\n\ndata: [DONE]\n\n`);
  };

test('a replica that reports impossible usage charges no more than was reserved, and is logged', async () => {
  const messages = [{ role: 'user', content: 'x' }] as const;
  for (const [usage, expected] of [
    [{ prompt_tokens: 9, completion_tokens: 10 ** 12 }, [9, 5]],
    [{ prompt_tokens: 10 ** 15, completion_tokens: 1 }, [2073, 1]],
  ] as const) {
    await using liar = await HttpReplica.listen(reporting(usage), { name: 'liar', dialect: 'vllm' });
    const warnings: unknown[] = [];
    const log: Log = {
      ...SILENT,
      with: () => log,
      warn: (message, fields) => warnings.push([message, fields]),
    };
    const router = routerTo([liar.client], {}, { log });
    for (const stream of [true, false]) {
      const generation = run(router, chat({}, { messages, stream, maxTokens: 5 }));
      const end = (await collect(generation)).at(-1);
      assert.ok(end?.type === 'end');
      const row = await accounting.row(generation.requestId);
      assert.deepEqual([end.usage.promptTokens, end.usage.completionTokens], expected);
      assert.deepEqual([row?.prompt_tokens, row?.completion_tokens], expected);
      assert.deepEqual([end.usageSource, row?.usage_source], ['clamped', 'clamped']);
      assert.equal(row?.cost, costOf(end.usage, PRICE));
    }
    assert.deepEqual(
      warnings.map((each) => (each as string[])[0]),
      ['replica reported impossible token counts'],
      'once a minute',
    );
  }
});

test('a client that disconnects from a stream with impossible counts pays at most what was reserved', async () => {
  const frames = [
    {
      choices: [{ index: 0, delta: { content: 'a' } }],
      usage: { prompt_tokens: 9, completion_tokens: 10 ** 12 },
    },
  ];
  const paid = await disconnected(frames, chat({}, { ...LONG, maxTokens: 5 }), 5);
  assert.deepEqual(paid, [9, 5, 'clamped']);
});

/**
 * Disconnects from the second request to a replica that completes only the first. Returns the billed completion tokens
 * and the replica.
 */
async function leaveSecond(maxTokens: number | null, exactCounts: boolean) {
  const usage = { prompt_tokens: 100, completion_tokens: 100_000 };
  let received = 0;
  const second = Promise.withResolvers<void>();
  await using replica = await HttpReplica.listen(
    (...exchange) => (received++ === 0 ? reporting(usage)(...exchange) : second.resolve()),
    { dialect: 'vllm', exactCounts },
  );
  const router = routerTo([replica.client]);
  const request = chat({}, { ...LONG, stream: false, maxTokens });
  await collect(run(router, { ...request, maxTokens: null }));
  const left = run(router, request);
  const collected = collect(left);
  await second.promise;
  await until(() => left.record.usage.promptTokens === 100);
  left.stop.abort(new ClientDisconnected());
  await assert.rejects(collected, ClientDisconnected);
  const { startedAtMs, slotAtMs, endedAtMs } = left.record;
  assert.ok(slotAtMs !== null && endedAtMs !== null && slotAtMs >= startedAtMs);
  const row = await accounting.row(left.requestId);
  assert.deepEqual([row?.prompt_tokens, row?.usage_source, row?.billed], [100, 'estimated', 1]);
  return { completionTokens: row?.completion_tokens ?? 0, replica };
}

test('a client that disconnects from a non-streaming response pays part of the estimate, at most max_tokens', async () => {
  // The first request generated 100,000 tokens, so the estimate exceeds 5 tokens after any time.
  assert.equal((await leaveSecond(5, false)).completionTokens, 5);
  const { completionTokens } = await leaveSecond(null, false);
  assert.ok(completionTokens > 5 && completionTokens <= 131_072, String(completionTokens));
});

test('a client that disconnects after a replica has refused its request, while it waits for another, pays nothing', async () => {
  let refuses = false;
  await using refusing = await HttpReplica.listen(
    (...exchange) => (refuses ? exchange[0].writeHead(503).end() : respondHello(...exchange)),
    { dialect: 'vllm' },
  );
  await using busy = await HttpReplica.listen(() => {}, { dialect: 'vllm' });
  const router = routerTo([refusing.client, busy.client], {}, { maxInFlight: 1, policy: 'least-requests' });
  // Measures the speed of the first replica, and occupies the second one.
  await collect(run(router, chat({}, { stream: false })));
  const occupying = run(router, chat());
  const occupied = collect(occupying);
  await until(() => busy.bodies.length === 1);
  refuses = true;
  for (const stream of [false, true]) {
    const left = run(router, chat({}, { ...LONG, stream }));
    const collected = collect(left);
    await until(() => left.record.attempts === 1 && router.overview()[0]?.waiting === 1);
    left.stop.abort(new ClientDisconnected());
    await assert.rejects(collected, ClientDisconnected);
    const row = await accounting.row(left.requestId);
    assert.deepEqual([row?.prompt_tokens, row?.completion_tokens, row?.cost], [0, 0, 0n]);
  }
  occupying.stop.abort(new ClientDisconnected());
  await assert.rejects(occupied, ClientDisconnected);
});

test('with exactCounts, a non-streaming response is requested as a stream, and a client that disconnects pays what arrived', async () => {
  const { completionTokens, replica } = await leaveSecond(null, true);
  assert.equal(completionTokens, 0);
  assert.deepEqual(
    replica.bodies.map(({ stream }) => stream),
    [true, true],
  );
});

test('usage that a replica omits, or reports as zeros, is estimated for prompt and completion', async () => {
  for (const usage of [undefined, { prompt_tokens: 0, completion_tokens: 0 }]) {
    await using replica = await HttpReplica.listen(reporting(usage, 'eight of'), { dialect: 'vllm' });
    for (const [stream, completionTokens] of [
      [true, 1],
      [false, 2],
    ] as const) {
      const generation = run(routerTo([replica.client]), chat({}, { ...LONG, stream }));
      const events = await collect(generation);
      const expected = { promptTokens: 100, completionTokens, cachedTokens: 0, reasoningTokens: 0 };
      assert.deepEqual(events.at(-1), { type: 'end', usage: expected, usageSource: 'estimated' });
      const row = await accounting.row(generation.requestId);
      assert.deepEqual(
        [row?.prompt_tokens, row?.completion_tokens, row?.usage_source],
        [100, completionTokens, 'estimated'],
      );
    }
  }
});

test('a request denied by limits has no row, no slot and no queue entry', async () => {
  const router = routerTo([client]);
  await using poor = await openAccounting({ requestsPerMinute: 1 });
  const record = new GenerationRecord();
  const ask = async (requestId: string) => {
    const crashSuspects = new CrashSuspects(SILENT);
    const inference = { accounting: poor, crashSuspects, checkpointTokens: 256, recovery: NO_RECOVERY };
    const identity = {
      requestId,
      clientRequestId: null,
      protocol: 'chat',
      client: null,
      caller: poor.caller,
    };
    const request = chat({ text: 'a' });
    const stop = new AbortController();
    return await collect(complete(inference, router.model(MODEL), identity, request, stop, record));
  };
  await ask(randomUUIDv7());
  const requestId = randomUUIDv7();
  await assert.rejects(ask(requestId), (error: unknown) => {
    assert.ok(error instanceof ServiceError);
    assert.equal(error.code, 'requests_per_minute');
    assert.equal(error.retryAfterMs, 60_000);
    return true;
  });
  assert.equal(await poor.row(requestId), undefined);
  assert.ok(record.limitHeaders.includes('x-ratelimit-limit-requests'));
  assertReleased(router);
});
