import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ReplicaConfig } from '../../src/config/model.ts';
import { createRemoteReplica } from '../../src/replicas/remote-replica.ts';
import type { Log } from '../../src/support/log.ts';
import { SILENT } from '../../src/support/log.ts';
import { until } from '../harness.ts';
import { HttpReplica } from './replicas.ts';

const timeouts = { firstByteMs: 10_000, responseMs: 10_000, silenceMs: 10_000 };

interface Fake {
  dialect: ReplicaConfig['dialect'];
  /** Responses by path; a missing path is 404. */
  bodies: Record<string, string | undefined>;
  /** The status of each path; default: 200 if it has a body. */
  statuses?: Record<string, number>;
  /** Default: 4096. */
  contextTokens?: number | undefined;
}

/** Starts a server with these responses, and a replica for it. */
async function start(fake: Fake) {
  const { dialect, bodies } = fake;
  const { contextTokens } = { contextTokens: 4096, ...fake };
  await using owned = new AsyncDisposableStack();
  const requests: string[] = [];
  const server = owned.use(
    await HttpReplica.listen((response, { url = '' }) => {
      requests.push(url);
      const body = bodies[url];
      response.writeHead(fake.statuses?.[url] ?? (body === undefined ? 404 : 200)).end(body ?? '{}');
    }),
  );
  const messages: string[] = [];
  const log: Log = { ...SILENT, with: () => log, info: (message) => messages.push(message) };
  const replica = owned.use(
    createRemoteReplica(
      { id: 'acme/large', contextTokens } as Parameters<typeof createRemoteReplica>[0],
      { name: 'acme/large#0', url: server.url, dialect, sharedPrefixCache: false, exactCounts: false },
      { secrets: new Map(), timeouts: timeouts as never, env: {}, log },
    ),
  );
  await replica.start();
  const moved = owned.move();
  return { replica, requests, messages, [Symbol.asyncDispose]: () => moved.disposeAsync() };
}

const metrics = (running: number, waiting: number) =>
  `vllm:num_requests_running{engine="0"} ${running}\nvllm:num_requests_waiting{engine="0"} ${waiting}\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n`;

test('the load of a vLLM server is read periodically', async () => {
  const bodies = { '/health': '', '/v1/models': '{"data":[]}', '/metrics': metrics(3, 1) };
  await using bed = await start({ dialect: 'vllm', bodies });
  const { replica } = bed;
  await until(() => replica.capacity()?.queued === 1);
  const first = replica.capacity();
  assert.deepEqual(first, { slots: null, slotsInUse: 3, queued: 1 });
  const { health } = replica.report();
  assert.deepEqual([health?.slotsInUse, health?.queued, health?.cacheUsage], [3, 1, 0.5]);
  bodies['/metrics'] = metrics(8, 5);
  await until(() => replica.capacity()?.queued === 5);
  assert.notEqual(replica.capacity(), first);
});

test('the load of a server is known as soon as it is ready, so that it does not get all waiting requests at once', async () => {
  const bodies = { '/health': '', '/v1/models': '{"data":[]}', '/metrics': metrics(3, 1) };
  await using bed = await start({ dialect: 'vllm', bodies });
  const { replica } = bed;
  assert.equal(replica.state().state, 'ready');
  assert.equal(replica.capacity()?.queued, 1);
});

test('llama-server reports its slots in its properties', async () => {
  const bodies = {
    '/health': '{"status":"ok"}',
    '/props': '{"default_generation_settings":{"n_ctx":2048},"total_slots":6}',
    '/metrics': 'llamacpp:requests_processing 2\nllamacpp:requests_deferred 4\n',
  };
  await using bed = await start({ dialect: 'llama-server', bodies });
  await until(() => bed.replica.capacity()?.queued === 4);
  assert.deepEqual(bed.replica.capacity(), { slots: 6, slotsInUse: 2, queued: 4 });
});

test('the load of a server without metrics is unknown, which is logged', async () => {
  const bodies = { '/health': '', '/v1/models': '{"data":[]}' };
  await using bed = await start({ dialect: 'vllm', bodies });
  await until(() => bed.messages.includes('replica does not report its load'));
  assert.deepEqual(bed.replica.capacity(), { slots: null, slotsInUse: null, queued: null });
  assert.equal(bed.replica.state().state, 'ready');
});

test('no metrics are requested from servers that have none', async () => {
  const bodies = { '/health': '', '/info': '{"max_total_tokens":4096}' };
  await using bed = await start({ dialect: 'tgi', bodies });
  assert.equal(bed.replica.state().state, 'ready');
  assert.ok(!bed.requests.includes('/metrics'));
});

test('a server that limits the rate of health checks stays healthy', async () => {
  const bodies = { '/v1/models': '{"data":[]}' };
  for (const [dialect, path] of [
    ['vllm', '/health'],
    ['openai', '/v1/models'],
  ] as const) {
    await using bed = await start({ dialect, bodies, statuses: { [path]: 429 } });
    assert.equal(bed.replica.state().state, 'ready');
  }
});

test('a server that cannot report the context length for a moment is asked again, unless it is configured', async () => {
  const bodies = { '/health': '', '/v1/models': '{"data":[{"id":"acme/large","max_model_len":2048}]}' };
  for (const status of [429, 503]) {
    const statuses: Record<string, number> = { '/v1/models': status };
    await using configured = await start({ dialect: 'vllm', bodies, statuses });
    assert.equal(configured.replica.state().state, 'ready');
    await using bed = await start({ dialect: 'vllm', bodies, statuses, contextTokens: undefined });
    assert.equal(bed.replica.state().state, 'down');
    delete statuses['/v1/models'];
    await until(() => bed.replica.description?.contextTokens === 2048);
  }
});
