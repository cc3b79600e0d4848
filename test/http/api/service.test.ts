import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { Contract } from '../../../src/http/api/contract.ts';
import { atRest, chat, MODEL, post, startService, until, type TestService } from '../../harness.ts';
import { Management } from '../../management.ts';
import { testDatabases } from '../../servers.ts';

type Answer<Id extends keyof Contract> = Contract[Id]['response'];

/** A model of two slots, and one whose only replica nobody listens for. */
const YAML = `
models:
  - id: ${MODEL}
    required: true
    engine:
      slots: 2
      file: 'scripted:${JSON.stringify({ tokens: 100_000, tokenMs: 5 })}'
    pricing: { prompt: '0.15', completion: '0.6' }
    modality: text->text
  - id: far/away
    replicas:
      - { url: 'http://127.0.0.1:9', dialect: vllm }
`;

for (const kind of testDatabases()) {
  describe(kind.name, () => {
    let disposal: AsyncDisposableStack;
    let service: TestService;
    let management: Management;
    before(async () => {
      await using owned = new AsyncDisposableStack();
      const { env } = owned.use(await kind.place());
      service = owned.use(await startService(YAML, env));
      management = await Management.of(service);
      disposal = owned.move();
    });
    after(() => disposal.disposeAsync());

    // The manager of the other tests compares answers with their schemas.
    const engines = async () =>
      (await management.call('GET', '/api/engines')) as unknown as Answer<'listEngines'>;
    const models = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const answer = await fetch(`${service.url}/api/models`, { headers });
      return (await answer.json()) as Answer<'listServedModels'>;
    };
    const load = async () => (await management.call('GET', '/api/load')) as unknown as Answer<'readLoad'>;

    test('models are told with their state, and why one is down to operators alone', async () => {
      const [here, away] = (await models(management.admin)).data;
      assert.deepEqual(here, {
        id: MODEL,
        required: true,
        state: 'ready',
        fraction: null,
        received_bytes: null,
        total_bytes: null,
        reason: null,
        retry_in_ms: null,
        waiting: 0,
        in_flight: 0,
        replicas: 1,
        replicas_ready: 1,
        pricing: { prompt: '0.15', completion: '0.6' },
        context_length: 4096,
        max_completion_tokens: 4096,
        quantization: 'none',
        modality: 'text->text',
        instruct_type: null,
      });
      assert.deepEqual(
        [away?.state, away?.reason, away?.replicas_ready, away?.context_length],
        ['down', 'it does not respond', 0, null],
      );
      const [, told] = (await models(service.key)).data;
      assert.deepEqual([told?.state, told?.reason], ['down', null]);
      const { key } = await management.caller(null, { allowed_models: [MODEL] });
      assert.deepEqual(
        (await models(key)).data.map(({ id }) => id),
        [MODEL],
      );
    });

    test('an engine tells what it does, and what it has done', async () => {
      const [idle, remote] = (await engines()).data;
      assert.deepEqual(
        [idle?.model, idle?.dialect, idle?.restarts, idle?.backend, idle?.in_flight],
        [MODEL, 'sluice', 0, 'scripted', 0],
      );
      assert.ok(Date.parse(idle?.started_at ?? '') <= Date.now());
      assert.deepEqual(
        [remote?.state, remote?.slots, remote?.memory_bytes, remote?.restarts, remote?.started_at],
        ['down', null, null, null, null],
      );
      const stop = new AbortController();
      const answer = await fetch(`${service.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.key}` },
        body: JSON.stringify(chat('hello', { stream: true })),
        signal: stop.signal,
      });
      assert.equal(answer.status, 200);
      await until(async () => ((await engines()).data[0]?.tokens_per_second ?? 0) > 0);
      const [busy] = (await engines()).data;
      assert.deepEqual([busy?.in_flight, busy?.slots, busy?.slots_in_use, busy?.queued], [1, 2, 1, 0]);
      assert.ok((busy?.completion_tokens ?? 0) > 0 && (busy?.prompt_tokens ?? 0) > 0);
      assert.equal(busy?.cached_tokens, 0);
      assert.ok((busy?.memory_bytes ?? 0) > 10_000_000, String(busy?.memory_bytes));
      assert.equal((await load()).in_flight, 1);
      stop.abort();
      await atRest(service);
      assert.equal((await load()).in_flight, 0);
    });

    test('an engine that was started again tells so, and begins to count anew', async () => {
      const [embedded] = service.service.models;
      const before = (await engines()).data[0];
      assert.ok(embedded?.pid);
      process.kill(embedded.pid, 'SIGKILL');
      await until(async () => (await engines()).data[0]?.state !== 'ready');
      const down = (await engines()).data[0];
      assert.deepEqual([down?.slots, down?.started_at, down?.tokens_per_second], [null, null, null]);
      await until(async () => {
        const [engine] = (await engines()).data;
        return engine?.state === 'ready' && engine.completion_tokens !== null;
      });
      const again = (await engines()).data[0];
      assert.deepEqual([again?.restarts, again?.completion_tokens], [1, 0]);
      assert.ok(Date.parse(again?.started_at ?? '') >= Date.parse(before?.started_at ?? ''));
    });

    test('the load has each request in the second in which it ended', async () => {
      const sum = (field: 'requests' | 'errors' | 'completion_tokens', { seconds }: Answer<'readLoad'>) =>
        seconds.reduce((total, second) => total + second[field], 0);
      const before = await load();
      assert.equal(before.seconds.length, 300);
      for (const body of [chat('hello', { max_tokens: 3 }), chat('scripted:{"error":"internal_error"}')]) {
        await (await post(service, '/v1/chat/completions', body)).text();
      }
      await until(async () => sum('requests', await load()) >= sum('requests', before) + 2);
      const now = await load();
      assert.equal(sum('errors', now) - sum('errors', before), 1);
      assert.equal(sum('completion_tokens', now) - sum('completion_tokens', before), 3);
      assert.ok(
        now.seconds.some(({ ttft_ms: ttft }) => ttft !== null && ttft.p50 > 0 && ttft.p50 <= ttft.p95),
      );
      assert.deepEqual([now.copies, now.waiting], [1, 0]);
      assert.match(now.copy, /:\d+$/);
    });

    test('health tells what the service stands on', async () => {
      const health = (await management.call('GET', '/api/health')) as unknown as Answer<'readHealth'>;
      const place = kind.name === 'SQLite' ? 'sqlite' : 'postgres';
      assert.deepEqual(health.database, { kind: place, reachable: true, writable: true });
      assert.deepEqual(health.limits_store, { kind: 'memory', reachable: true });
      assert.deepEqual(health.ledger, { writable: true, failing_for_ms: null, waiting: 0, reason: null });
      assert.deepEqual([health.copies, health.mail, health.providers], [1, false, []]);
      assert.equal(health.node_version, process.versions.node);
      assert.ok(health.disk.free_bytes !== null && health.disk.free_bytes > 0);
      assert.ok(health.disk.free_bytes <= (health.disk.total_bytes ?? 0));
    });
  });
}
