import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { ScriptedEngine } from '../support/scripted-engine/engine.ts';
import { injectFaults } from '../support/scripted-engine/fault-injection.ts';
import { scripted, type Directive } from '../support/scripted-engine/directive.ts';
import { serveEngine } from '../../src/engine/server.ts';
import { ERRORS } from '../../src/core/errors.ts';
import { SILENT } from '../../src/support/log.ts';
import { METRICS, type Metric } from '../../src/metrics/table.ts';
import { generatedParts, partsOf } from '../docs/generated.ts';
import { MODEL, openService, post, scriptedYaml, startService, until } from '../harness.ts';
import { requestText, Wire } from './wire.ts';
import { parseExposition, total, type ExposedMetric } from '../metrics/exposition.ts';

const REMOTE = 'test/remote';
const CHAT = '/v1/chat/completions';

/** A server with the scripted engine, for a model with two replicas. */
async function serveReplica(fails: boolean) {
  const server = await serveEngine(
    new ScriptedEngine(),
    { host: '127.0.0.1', port: 0 },
    {
      maxChoices: 16,
      modelId: REMOTE,
      log: SILENT,
      beforeResponse(request, response) {
        if (fails) response.destroy();
        else injectFaults(request, response);
      },
    },
  );
  after(() => server.close());
  return `      - {url: "${server.address}", dialect: sluice, maxInFlight: 64}\n`;
}

const replicas = (await serveReplica(true)) + (await serveReplica(false));
const service = await startService(
  scriptedYaml(
    { slots: 2, ownProcess: true },
    `    pricing: {prompt: '0.1', completion: '2.5'}
  - id: ${REMOTE}
    replicas:\n${replicas}routing: {policy: round-robin}
retry: {minPerMinute: 1000}
metrics: {port: 0}
alerts: {webhooks: [{name: pager, url: 'http://127.0.0.1:9', format: slack}]}
`,
  ),
);
after(() => service[Symbol.asyncDispose]());
await until(() =>
  service.service.router
    .overview()
    .every((model) => model.replicas.every(({ state }) => state.state === 'ready')),
);
const { key: admin } = await service.service.keys.create({ name: 'admin', kind: 'admin' });
const limits = { requestsPerMinute: 1 };
const { key: limited } = await service.service.keys.create({ name: 'limited', limits });

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
}

async function ask(directive: Directive, { model = MODEL, key = service.key } = {}) {
  const body = { model, messages: [{ role: 'user', content: scripted(directive) }] };
  const response = await post(service, CHAT, body, { authorization: `Bearer ${key}` });
  const json = (await response.json()) as { usage?: Usage };
  return { status: response.status, usage: json.usage };
}

async function scrape(): Promise<Map<string, ExposedMetric>> {
  const response = await fetch(service.service.metricsUrl ?? '');
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'text/plain; version=0.0.4; charset=utf-8');
  return parseExposition(await response.text());
}

const EXPECTED: readonly Metric[] = Object.values(METRICS);

test('a scrape under load has exactly the metrics of the table, with type, labels and buckets', async () => {
  const cached = { cachedTokens: 4, tokens: 20 };
  const responses = await Promise.all([
    ...Array.from({ length: 6 }, () => ask(cached)),
    ...Array.from({ length: 4 }, () => ask({ tokens: 3 }, { model: REMOTE })),
    ask({}, { model: 'test/none' }),
    ask({}, { key: 'sk-sluice-wrong' }),
    ask({ dieAfter: 3, once: true, tokens: 6 }),
  ]);
  const admitted = await ask({}, { key: limited.reveal() });
  const denied = await ask({}, { key: limited.reveal() });
  using running = await Wire.open(service.url);
  const forever = { model: MODEL, messages: [{ role: 'user', content: scripted({ tokenMs: 1_000_000 }) }] };
  running.send(requestText(`POST ${CHAT}`, { Authorization: `Bearer ${service.key}` }, forever));
  await until(() => {
    const [embedded] = service.service.router.reports();
    return embedded?.inFlight === 1 && embedded.health?.slotsInUse === 1;
  });
  const metrics = await scrape();

  assert.deepEqual(
    [...metrics].map(([name, { type }]) => [name, type]),
    EXPECTED.map(({ name, type }) => [name, type]),
  );
  const text = JSON.stringify([...metrics]);
  for (const secret of [service.key, limited.reveal(), 'wrong']) assert.ok(!text.includes(secret));
  for (const { name, labels, buckets, help } of EXPECTED) {
    const { samples, help: shown } = metrics.get(name) ?? assert.fail(name);
    assert.equal(shown, help);
    assert.ok(samples.length > 0, name);
    for (const sample of samples) {
      const expected = sample.name.endsWith('_bucket') ? [...labels, 'le'] : labels;
      assert.deepEqual(Object.keys(sample.labels), expected, sample.name);
      assert.ok(sample.value >= 0, sample.name);
    }
    if (buckets) assertHistogram(metrics, name, buckets);
  }
  assertLabels(metrics);

  const statuses = [...responses, admitted, denied].map(({ status }) => status);
  assert.deepEqual(
    statuses.toSorted((a, b) => a - b),
    [...Array.from({ length: 12 }, () => 200), 401, 404, 429],
  );
  for (const status of new Set(statuses)) {
    const count = statuses.filter((found) => found === status).length;
    assert.equal(total(metrics, 'sluice_requests_total', { status: String(status) }), count);
  }
  assert.equal(total(metrics, 'sluice_limit_denials_total', { limit: 'requestsPerMinute' }), 1);
  assert.ok(total(metrics, 'sluice_retries_total', { model: REMOTE }) > 0);
  assert.ok(total(metrics, 'sluice_continuations_total', { model: MODEL }) > 0);
  assert.equal(total(metrics, 'sluice_engine_restarts_total'), 1);
  assert.equal(total(metrics, 'sluice_requests_running', { model: MODEL }), 1);
  assert.equal(total(metrics, 'sluice_replica_slots', { model: MODEL }), 2);
  assert.equal(total(metrics, 'sluice_replica_slots_in_use', { model: MODEL }), 1);
  assert.equal(total(metrics, 'sluice_ledger_writable'), 1);
});

test('tokens and cost are those of the responses', async () => {
  // The request of the previous test is recorded after its client has disconnected.
  const requests = 'sluice_requests_total';
  await until(async () => total(await scrape(), requests, { code: 'client_disconnected' }) === 1);
  const before = await scrape();
  const responses = await Promise.all([7, 11].map((tokens) => ask({ tokens, cachedTokens: 2 })));
  const after = await scrape();
  const grown = (name: string) =>
    total(after, name, { model: MODEL }) - total(before, name, { model: MODEL });
  const sum = (count: (usage: Usage) => number) =>
    responses.reduce((all, { usage }) => all + count(usage ?? assert.fail()), 0);
  const prompt = sum((usage) => usage.prompt_tokens);
  assert.equal(grown('sluice_prompt_tokens_total'), prompt);
  assert.equal(grown('sluice_completion_tokens_total'), 18);
  assert.equal(
    grown('sluice_cached_prompt_tokens_total'),
    sum((usage) => usage.prompt_tokens_details.cached_tokens),
  );
  assert.equal(Math.round(grown('sluice_cost_usd_total') * 1e12), prompt * 100_000 + 18 * 2_500_000);
  for (const name of ['time_to_first_token', 'inter_token', 'request_duration', 'queue_wait']) {
    assert.equal(grown(`sluice_${name}_seconds_count`), 2, name);
  }
});

test('/metrics on the port of the service requires an admin key, even while the service is stopping', async () => {
  const status = async (key?: string, method = 'GET') => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    return (await fetch(`${service.url}/metrics`, { method, headers })).status;
  };
  assert.equal(await status(), 401);
  assert.equal(await status('sk-sluice-wrong'), 401);
  assert.equal(await status(service.key), 403);
  assert.equal(await status(admin.reveal(), 'POST'), 405);
  assert.equal(await status(admin.reveal(), 'HEAD'), 200);
  const response = await fetch(`${service.url}/metrics`, {
    headers: { authorization: `Bearer ${admin.reveal()}` },
  });
  assert.deepEqual(
    [...parseExposition(await response.text()).keys()],
    EXPECTED.map(({ name }) => name),
  );
  await using stopping = await startService();
  const { key } = await stopping.service.keys.create({ name: 'admin', kind: 'admin' });
  await stopping.service.drain();
  const headers = { authorization: `Bearer ${key.reveal()}` };
  assert.equal((await fetch(`${stopping.url}/metrics`, { headers })).status, 200);
  assert.equal(stopping.service.metricsUrl, null);
});

test('the metrics port serves nothing else', async () => {
  const url = service.service.metricsUrl ?? '';
  for (const [path, method, status] of [
    ['/metrics?x=1', 'GET', 200],
    ['/metrics', 'HEAD', 200],
    ['/metrics', 'POST', 405],
    ['/', 'GET', 404],
    ['/v1/models', 'GET', 404],
    ['/metricsx', 'GET', 404],
  ] as const) {
    assert.equal((await fetch(new URL(path, url), { method })).status, status, `${method} ${path}`);
  }
});

test('clients that read nothing for stallMs do not keep others from the metrics port', async () => {
  await using other = await startService(scriptedYaml({}, 'metrics: {port: 0}\nstream: {stallMs: 200}\n'));
  const url = new URL(other.service.metricsUrl ?? '');
  const requests = 'GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n'.repeat(1000);
  // As many as the port accepts. The responses do not fit into the buffers of a connection.
  const sockets = Array.from({ length: 16 }, () => connect(Number(url.port), url.hostname).pause());
  try {
    await Promise.all(
      sockets.map((socket) =>
        once(
          socket.on('error', () => {}),
          'connect',
        ),
      ),
    );
    for (const socket of sockets) socket.write(requests);
    await until(async () => (await fetch(url).catch(() => null))?.status === 200);
  } finally {
    for (const socket of sockets) socket.destroy();
  }
});

test('a port that is in use is named in the error', async () => {
  const { port } = new URL(service.service.metricsUrl ?? '');
  await assert.rejects(
    openService(scriptedYaml({}, `metrics: {port: ${port}}\n`)),
    new RegExp(
      `^MetricsListenError: .*127\\.0\\.0\\.1, port ${port}.*Check metrics\\.host and metrics\\.port\\.$`,
    ),
  );
});

test('docs/metrics.md has the table and the buckets', async () => {
  const expected = (await generatedParts()).get('docs/metrics.md') ?? assert.fail();
  const shown = partsOf('docs/metrics.md');
  assert.deepEqual([...shown.keys()], [...expected.keys()]);
  const plain = (text = '') => text.replaceAll(/ +/g, ' ').replaceAll(/-+/g, '-');
  for (const [name, text] of expected) assert.equal(plain(shown.get(name)), plain(text));
});

function assertHistogram(
  metrics: ReadonlyMap<string, ExposedMetric>,
  name: string,
  buckets: readonly number[],
): void {
  const { samples } = metrics.get(name) ?? assert.fail(name);
  for (const { labels, value } of samples.filter((sample) => sample.name === `${name}_count`)) {
    const counts = samples
      .filter((sample) => sample.name === `${name}_bucket` && sample.labels['model'] === labels['model'])
      .map((sample) => [sample.labels['le'] ?? '', sample.value] as const);
    assert.deepEqual(
      counts.map(([le]) => le),
      [...buckets.map(String), '+Inf'],
    );
    assert.ok(counts.every(([, count], index) => count >= (counts[index - 1]?.[1] ?? 0)));
    assert.equal(counts.at(-1)?.[1], value);
  }
}

/** Checks that the values of each label are from a known set. */
function assertLabels(metrics: ReadonlyMap<string, ExposedMetric>): void {
  const known: Record<string, (value: string) => boolean> = {
    model: (value) => [MODEL, REMOTE, 'unknown'].includes(value),
    endpoint: (value) => value === CHAT,
    status: (value) => /^\d{3}$/.test(value),
    code: (value) => ['ok', 'client_disconnected'].includes(value) || Object.hasOwn(ERRORS, value),
    replica: (value) => service.service.router.reports().some(({ name }) => name === value),
    state: (value) =>
      ['downloading', 'loading', 'ready', 'paused', 'drained', 'unloaded', 'idle', 'down'].includes(value),
    limit: (value) => value === 'requestsPerMinute',
    type: (value) => ['resident', 'heap_used', 'heap_total', 'external'].includes(value),
    channel: (value) => value === 'webhook:pager',
    outcome: (value) => ['sent', 'failed'].includes(value),
    le: (value) => value === '+Inf' || Number(value) > 0,
  };
  for (const { name, labels } of [...metrics.values()].flatMap(({ samples }) => samples)) {
    for (const [label, value] of Object.entries(labels)) {
      assert.ok(known[label]?.(value), `${name}{${label}="${value}"}`);
    }
  }
}
