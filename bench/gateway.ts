/**
 * Compares Sluice with a minimal proxy in Node (`gateway/bare-proxy.ts`): CPU of a proxied JSON request and of a streamed
 * chunk, the added latency of a request, the memory of an open stream, and the allocation of a request. Sluice checks keys
 * and limits of every kind and writes its ledger to SQLite. The proxies are warmed up and run in alternating order.
 * Results are medians over several rounds, as multiples of the minimal proxy in the same round. A second Sluice is compared
 * with the first one ("A/A"): what they differ by is noise. CPU time includes all threads of a proxy's process and of its
 * children, as reported by the Linux scheduler.
 *
 *   npm run bench:gateway
 *
 * `--shared` adds Sluice with PostgreSQL and Valkey or Redis, whose CPU time is not included. vllm-router, smg, nginx,
 * Portkey and LiteLLM are added if they are on the PATH, or at the paths in `--vllm-router`, `--smg`, `--nginx`,
 * `--portkey` (its `start-server.js`) and `--litellm`. `--only sluice,smg` selects proxies; the minimal proxy always runs.
 * `--measure memory,cpu,chunk,latency,allocation,metrics` selects measurements. `--scraped` adds Sluice with its
 * metrics scraped every 100 ms, more than a hundred times as often as usual. `--before <folder>` adds the Sluice of
 * another clone, to compare two versions.
 *
 * Sluice's other languages (`gateway/languages.ts`) run in processes of their own, and are compared with its chat.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { Comparison, type Metric } from './gateway/comparison.ts';
import {
  chunkAllocation,
  chunkCost,
  requestAllocation,
  requestCost,
  requestTime,
  streamMemory,
} from './gateway/measurements.ts';
import { LANGUAGES } from './gateway/languages.ts';
import { printMetricsCost } from './gateway/metrics-cost.ts';
import { findProgram, PEERS, type BenchProxy } from './gateway/peers.ts';
import { startPeer, startSluice } from '../test/support/measured-servers.ts';
import { freePort, startPostgres, startValkey } from '../test/support/server-process.ts';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '15' },
    requests: { type: 'string', default: '5000' },
    concurrency: { type: 'string', default: '32' },
    streams: { type: 'string', default: '64' },
    chunks: { type: 'string', default: '200' },
    open: { type: 'string', default: '4000' },
    'vllm-router': { type: 'string' },
    smg: { type: 'string' },
    nginx: { type: 'string' },
    portkey: { type: 'string' },
    litellm: { type: 'string' },
    only: { type: 'string' },
    measure: { type: 'string', default: 'memory,cpu,chunk,latency,allocation,metrics' },
    scraped: { type: 'boolean', default: false },
    shared: { type: 'boolean', default: false },
    before: { type: 'string' },
  },
});
const rounds = Number(options.rounds);
const requests = Number(options.requests);
const callers = Number(options.concurrency);
const streams = Number(options.streams);
const chunks = Number(options.chunks);

/** Largest number of requests of a warm-up. */
const WARM_UP_REQUESTS = 20_000;

const METRICS: Readonly<
  Record<string, { warmUp: 'requests' | 'streams' | null; metrics: readonly Metric[] }>
> = {
  memory: {
    warmUp: null,
    metrics: [
      {
        title: `memory per open stream, ${options.open} streams`,
        unit: 'bytes ',
        measure: streamMemory(Number(options.open)),
        // A second round would reuse the memory that the first one freed.
        rounds: 1,
      },
    ],
  },
  cpu: {
    warmUp: 'requests',
    metrics: [
      {
        title: `CPU per JSON request, ${callers} callers; CPU by thread`,
        unit: 'us',
        measure: requestCost(requests, callers),
        rounds,
        threadsPer: requests,
      },
    ],
  },
  chunk: {
    warmUp: 'streams',
    metrics: [
      {
        title: `CPU per streamed chunk, ${streams} streams; CPU by thread`,
        unit: 'us',
        measure: chunkCost(streams, chunks),
        rounds,
        threadsPer: streams * chunks,
      },
    ],
  },
  latency: {
    warmUp: 'requests',
    metrics: [
      {
        title: 'latency with 1 caller, p50',
        unit: 'ms',
        measure: requestTime(1000, 1, 0.5),
        rounds,
        difference: true,
      },
      {
        title: 'latency with 16 callers, p99',
        unit: 'ms',
        measure: requestTime(4000, 16, 0.99),
        rounds,
        difference: true,
      },
    ],
  },
  allocation: {
    warmUp: 'requests',
    metrics: [
      {
        title: 'JavaScript heap allocated per JSON request on the main thread',
        unit: 'bytes ',
        measure: requestAllocation(requests, callers),
        rounds: 3,
      },
      {
        title: 'JavaScript heap allocated per streamed chunk on the main thread',
        unit: 'bytes ',
        measure: chunkAllocation(streams, chunks),
        rounds: 3,
      },
    ],
  },
};

const measured = options.measure.split(',');
const unknown = measured.find((name) => name !== 'metrics' && !(name in METRICS));
if (unknown !== undefined)
  throw new Error(`--measure: ${unknown} is not one of ${Object.keys(METRICS).join(', ')}, metrics`);

const script = (file: string) => join(import.meta.dirname, 'gateway', file);
const node = process.execPath;
await using upstream = await startPeer(node, (port) => [script('upstream.ts'), String(port)], '/v1/models');
const bareInspectPort = await freePort();
await using bare = await startPeer(
  node,
  (port) => [`--inspect-port=${bareInspectPort}`, script('bare-proxy.ts'), String(port), upstream.url],
  '/',
);
/** All kinds of limits, none of which is reached. */
const config = `
models:
  - id: bench/model
    replicas: [{url: '${upstream.url}', dialect: vllm}]
    contextTokens: 4096
    pricing: {prompt: '0.1', completion: '0.2'}
plans:
  bench:
    requestsPerMinute: 1000000000
    tokensPerMinute: 100000000000
    requestsInFlight: 1000000
    tokensPerDay: 1000000000000
    tokensPerMonth: 1000000000000
    usdPerMonth: '999999'
defaultPlan: bench
`;
const proxies: BenchProxy[] = [
  { name: 'bare', isPeer: false, server: bare, headers: {}, requestDivisor: 1, inspectPort: bareInspectPort },
];

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
await using running = new AsyncDisposableStack();
running.defer(() => rm(folder, { recursive: true, force: true }));
const only = options.only?.split(',');
const isSelected = (name: string): boolean => only?.includes(name) !== false;

interface SluiceOptions {
  env?: NodeJS.ProcessEnv;
  /** Additional configuration. */
  more?: string;
  /** Folder of the clone. */
  root?: string | undefined;
  compared?: Pick<BenchProxy, 'language' | 'comparedWith'>;
}

async function addSluice(
  name: string,
  { env = {}, more = '', root, compared = {} }: SluiceOptions = {},
): Promise<void> {
  const inspectPort = await freePort();
  const settings = { ...env, NODE_OPTIONS: `--inspect-port=${inspectPort}` };
  const server = running.use(await startSluice(config + more, settings, undefined, root));
  proxies.push({ name, isPeer: false, server, headers: {}, requestDivisor: 1, inspectPort, ...compared });
}

if (isSelected('sluice')) {
  await addSluice('sluice');
  // Differs from the first one only by noise.
  await addSluice('sluice A/A', { compared: { comparedWith: 'sluice' } });
}
if (options.before !== undefined)
  await addSluice('before', { root: resolve(options.before), compared: { comparedWith: 'sluice' } });
for (const [name, language] of Object.entries(LANGUAGES)) {
  if (isSelected(name)) await addSluice(name, { compared: { language, comparedWith: 'sluice' } });
}
if (options.scraped) {
  const port = await freePort();
  await addSluice('scraped', { more: `metrics: {port: ${port}}\n` });
  setInterval(() => void fetch(`http://127.0.0.1:${port}/metrics`).then((response) => response.text()), 100);
}
if (options.shared) {
  const postgres = running.use(await startPostgres());
  const valkey = running.use(await startValkey());
  await addSluice('shared', { env: { SLUICE_DATABASE_URL: postgres.url, SLUICE_VALKEY_URL: valkey.url } });
}
for (const name of ['vllm-router', 'smg', 'nginx', 'portkey', 'litellm'] as const) {
  const program = options[name] ?? findProgram(PEERS[name].program);
  if (program === null || !isSelected(name)) continue;
  const proxy = await PEERS[name].start(program, folder, upstream.url);
  running.use(proxy.server);
  proxies.push(proxy);
}

if (measured.includes('metrics')) printMetricsCost();
const comparison = new Comparison(proxies);
const warmedUp = new Set<string | null>([null]);
for (const [name, { warmUp, metrics }] of Object.entries(METRICS)) {
  if (!measured.includes(name)) continue;
  if (!warmedUp.has(warmUp)) {
    warmedUp.add(warmUp);
    if (warmUp === 'streams')
      await comparison.warmUp('chunks', chunkCost(streams, chunks), streams * chunks, 10 * streams * chunks);
    else await comparison.warmUp('requests', requestCost(2000, callers), 2000, WARM_UP_REQUESTS);
  }
  for (const metric of metrics) await comparison.run(metric);
}
process.exit(0);
