import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { SERVICE } from '../../../src/accounts/audit.ts';
import { drainReplica, resumeReplica } from '../../../src/accounts/drained-replicas.ts';
import { openDatabase } from '../../../src/database/database.ts';
import type { Contract } from '../../../src/http/api/contract.ts';
import {
  untilIdle,
  chat,
  MODEL,
  pauseEngine,
  post,
  startService,
  until,
  type TestService,
} from '../../harness.ts';
import { Secret } from '../../../src/support/secret.ts';
import { Management } from '../../management.ts';
import { testDatabases } from '../../support/servers.ts';

type ResponseOf<Id extends keyof Contract> = Contract[Id]['response'];

/** Loads long enough that a test sees it restart. */
const ENGINE = { tokens: 100_000, tokenMs: 5, loadMs: 500, ownProcess: true };

/** A model with two slots, and one whose only replica is unreachable. */
const YAML = `
models:
  - id: ${MODEL}
    required: true
    engine:
      slots: 2
      file: 'scripted:${JSON.stringify(ENGINE)}'
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
    let databaseUrl: Secret | null;
    before(async () => {
      await using owned = new AsyncDisposableStack();
      const { env } = owned.use(await kind.location());
      const { SLUICE_DATABASE_URL: url } = env;
      databaseUrl = url === undefined ? null : new Secret(url);
      service = owned.use(await startService(YAML, env));
      management = await Management.of(service);
      disposal = owned.move();
    });
    after(() => disposal.disposeAsync());

    // The other tests of the API compare responses with their schemas.
    const replicas = async () =>
      (await management.call('GET', '/api/engines')) as unknown as ResponseOf<'listEngines'>;
    const models = async (key: string) => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await fetch(`${service.url}/api/models`, { headers });
      return (await response.json()) as ResponseOf<'listServedModels'>;
    };
    const load = async () => (await management.call('GET', '/api/load')) as unknown as ResponseOf<'readLoad'>;

    test('models are listed with their state, and only operators see why one is down', async () => {
      await until(async () => (await models(management.admin)).data[1]?.state === 'down');
      const [here, away] = (await models(management.admin)).data;
      // Unknown until the first health check.
      const { memory_bytes: memory, ...rest } = here ?? {};
      assert.ok(memory === null || Number(memory) > 0);
      assert.deepEqual(rest, {
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
        pricing: { prompt: '0.15', completion: '0.6', input_cache_read: null },
        context_length: 4096,
        max_completion_tokens: 4096,
        quantization: 'none',
        modality: 'text->text',
        instruct_type: null,
        recommended_sampling: {},
        is_default: true,
        origin: 'file',
        embedded: true,
        invalid: false,
        source: `scripted:${JSON.stringify(ENGINE)}`,
        aliases: [],
        context_tokens: null,
        size_bytes: null,
        downloaded: null,
        license: null,
        keep: false,
        deletes_file: false,
        tools: null,
        reasoning: null,
      });
      assert.deepEqual(
        [away?.state, away?.reason, away?.replicas_ready, away?.context_length],
        ['down', 'its health check failed: connect ECONNREFUSED 127.0.0.1:9', 0, null],
      );
      const [, seen] = (await models(service.key)).data;
      assert.deepEqual([seen?.state, seen?.reason], ['down', null]);
      const [shown] = (await models(service.key)).data;
      assert.deepEqual([shown?.source, shown?.downloaded, shown?.deletes_file], [null, null, null]);
      const { key } = await management.caller(null, { allowed_models: [MODEL] });
      assert.deepEqual(
        (await models(key)).data.map(({ id }) => id),
        [MODEL],
      );
    });

    test('an engine reports its load and totals', async () => {
      const [idle, remote] = (await replicas()).data;
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
      const response = await fetch(`${service.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${service.key}` },
        body: JSON.stringify(chat('hello', { stream: true })),
        signal: stop.signal,
      });
      assert.equal(response.status, 200);
      await until(async () => ((await replicas()).data[0]?.tokens_per_second ?? 0) > 0);
      const [busy] = (await replicas()).data;
      assert.deepEqual([busy?.in_flight, busy?.slots, busy?.slots_in_use, busy?.queued], [1, 2, 1, 0]);
      assert.ok((busy?.completion_tokens ?? 0) > 0 && (busy?.prompt_tokens ?? 0) > 0);
      assert.equal(busy?.cached_tokens, 0);
      assert.ok((busy?.memory_bytes ?? 0) > 10_000_000, String(busy?.memory_bytes));
      assert.equal((await load()).in_flight, 1);
      stop.abort();
      await untilIdle(service);
      assert.equal((await load()).in_flight, 0);
    });

    test('an engine reports its restarts, and its totals start at 0 again', async () => {
      const [embedded] = service.service.embeddedReplicas;
      const before = (await replicas()).data[0];
      assert.ok(embedded?.pid);
      process.kill(embedded.pid, 'SIGKILL');
      let down = before;
      await until(async () => {
        [down] = (await replicas()).data;
        return down?.state !== 'ready';
      });
      assert.deepEqual([down?.slots, down?.started_at, down?.tokens_per_second], [null, null, null]);
      await until(async () => {
        const [replica] = (await replicas()).data;
        return replica?.state === 'ready' && replica.completion_tokens !== null;
      });
      const again = (await replicas()).data[0];
      assert.deepEqual([again?.restarts, again?.completion_tokens], [1, 0]);
      assert.ok(Date.parse(again?.started_at ?? '') >= Date.parse(before?.started_at ?? ''));
    });

    test('an engine process is restarted after its requests have ended, and the audit log records the restart', async () => {
      const [before, remote] = (await replicas()).data;
      assert.deepEqual([before?.restartable, remote?.restartable], [true, false]);
      const restart = (model = '', name = '') =>
        management.call('POST', '/api/engines/restart', { model, name });
      const running = post(service, '/v1/chat/completions', chat('hello', { max_tokens: 400 }));
      await until(async () => (await load()).in_flight === 1);
      const { accounts } = await load();
      const [{ account_id: accountId, ...shown } = {}] = accounts;
      assert.deepEqual(shown, { model: MODEL, account_name: 'Default', running: 1, waiting: 0, weight: 1 });
      assert.equal((await management.call('GET', `/api/accounts/${accountId}`)).name, 'Default');
      assert.equal((await restart(before?.model, before?.name)).state, 'loading');
      assert.equal((await running).status, 200);
      await until(async () => (await replicas()).data[0]?.state === 'ready');
      assert.equal((await replicas()).data[0]?.restarts, (before?.restarts ?? 0) + 1);
      const audit = await management.call('GET', '/api/audit?action=engine.restart');
      const [entry] = (audit as unknown as ResponseOf<'listAudit'>).data;
      assert.deepEqual([entry?.subject, entry?.detail], [`engine:${MODEL}`, { replica: before?.name }]);
      await assert.rejects(restart(remote?.model, remote?.name), /: 409 .*Only engine processes/);
      await assert.rejects(restart(MODEL, 'x'), /: 404 .*no replica with this name/);
      await assert.rejects(restart('no/model', 'x'), /: 404 .*model_not_found/);
    });

    test('a drained replica finishes its requests and gets no new ones until it is resumed', async () => {
      const replica = { model: MODEL, name: `embedded:${MODEL}` };
      const call = (action: 'drain' | 'resume', body: object = replica) =>
        management.call('POST', `/api/engines/${action}`, body);
      using paused = pauseEngine(service);
      const running = post(service, '/v1/chat/completions', chat('hello', { max_tokens: 3 }));
      await until(async () => (await load()).in_flight === 1);
      const drained = await call('drain');
      assert.deepEqual([drained.state, drained.drained], ['drained', true]);
      assert.equal((await call('drain')).state, 'drained', 'draining it again changes nothing');
      paused.dispose();
      assert.equal((await running).status, 200);
      const refused = await post(service, '/v1/chat/completions', chat('hello'));
      assert.equal(refused.status, 503);
      assert.equal(refused.headers.get('retry-after'), '10');
      assert.match(await refused.text(), /This model is out of service for maintenance\. Try again later\./);
      assert.equal((await fetch(`${service.url}/readyz`)).status, 503);
      const [model] = (await models(management.admin)).data;
      assert.deepEqual([model?.state, model?.reason], ['down', 'drained']);
      assert.equal((await call('resume')).state, 'ready');
      const resumed = await post(service, '/v1/chat/completions', chat('hello', { max_tokens: 1 }));
      assert.equal(resumed.status, 200);
      const audit = await management.call('GET', '/api/audit?action=replica.drain');
      const entries = (audit as unknown as ResponseOf<'listAudit'>).data;
      assert.deepEqual(
        entries.map(({ subject, detail }) => [subject, detail]),
        [[`engine:${MODEL}`, { server: replica.name }]],
      );
      await assert.rejects(call('drain', { ...replica, name: 'x' }), /: 404 .*no replica with this name/);
    });

    test('replicas that another process drains are drained within a second', async () => {
      const replica = { model: MODEL, server: `embedded:${MODEL}` };
      await using database = await openDatabase({ home: service.home, url: databaseUrl });
      await drainReplica(database, replica, SERVICE);
      await until(async () => (await replicas()).data[0]?.state === 'drained');
      assert.equal(await resumeReplica(database, replica, SERVICE), true);
      assert.equal(await resumeReplica(database, replica, SERVICE), false);
      await until(async () => (await replicas()).data[0]?.state === 'ready');
    });

    test('the load contains each request in the second in which it ended', async () => {
      const sum = (field: 'requests' | 'errors' | 'completion_tokens', { seconds }: ResponseOf<'readLoad'>) =>
        seconds.reduce((total, second) => total + second[field], 0);
      // The current second is not listed, and requests of earlier tests may have ended in it.
      const startedAt = Date.now();
      await until(async () => Date.parse((await load()).seconds.at(-1)?.at ?? '') >= startedAt - 1000);
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
      assert.deepEqual([now.instances, now.waiting, now.accounts], [1, 0, []]);
      assert.match(now.instance, /:\d+$/);
    });

    test('health contains the state of the dependencies', async () => {
      const health = (await management.call('GET', '/api/health')) as unknown as ResponseOf<'readHealth'>;
      const expected = kind.name === 'SQLite' ? 'sqlite' : 'postgres';
      assert.deepEqual(health.database, { kind: expected, reachable: true, writable: true });
      assert.deepEqual(health.limits_store, { kind: 'memory', reachable: true });
      assert.deepEqual(health.ledger, { writable: true, failing_for_ms: null, waiting: 0, reason: null });
      assert.deepEqual([health.instances, health.mail, health.providers], [1, false, []]);
      assert.equal(health.recommended_model, null, 'a model other than the default is served');
      assert.equal(health.node_version, process.versions.node);
      assert.ok(health.disk.free_bytes !== null && health.disk.free_bytes > 0);
      assert.ok(health.disk.free_bytes <= (health.disk.total_bytes ?? 0));
    });
  });
}
