/**
 * Compares Sluice with a minimal proxy in Node (`gateway/bare-proxy.ts`): CPU of a proxied JSON request and of a streamed
 * chunk, the added latency of a request, and the memory of an open stream. Sluice checks keys and limits of every kind
 * and writes its ledger to SQLite. The proxies run in alternating order, with medians of several rounds as multiples of
 * the minimal proxy. CPU is user + system of a proxy's process and its children, from the operating system (Linux).
 *
 *   npm run bench:gateway
 *
 * `--shared` adds Sluice with PostgreSQL and Valkey or Redis, without their CPU. nginx, Portkey and LiteLLM are added if
 * they are on the PATH, or at the paths in `--nginx`, `--portkey` (its `start-server.js`) and `--litellm`.
 * `--only bare,sluice` selects proxies.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { findProgram, PEERS, type BenchProxy } from './gateway/peers.ts';
import { cpuMicros, residentBytes } from './gateway/processes.ts';
import { startPeer, startSluice } from './servers.ts';
import { median, quantile } from './statistics.ts';
import { startPostgres, startValkey } from '../test/server-process.ts';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '9' },
    requests: { type: 'string', default: '10000' },
    concurrency: { type: 'string', default: '32' },
    streams: { type: 'string', default: '64' },
    chunks: { type: 'string', default: '200' },
    open: { type: 'string', default: '4000' },
    nginx: { type: 'string' },
    portkey: { type: 'string' },
    litellm: { type: 'string' },
    only: { type: 'string' },
    shared: { type: 'boolean', default: false },
  },
});
const rounds = Number(options.rounds);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const message = { role: 'user', content: 'Say sixteen words about the weather of tomorrow, please.' };
const body = { model: 'bench/model', messages: [message], temperature: 0.5 };

function post(
  proxy: BenchProxy,
  payload: object,
  agentOf: Agent | false,
  onResponse: (response: IncomingMessage) => void,
) {
  const text = JSON.stringify(payload);
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...proxy.headers,
  };
  if (proxy.server.key !== null) headers.authorization = `Bearer ${proxy.server.key}`;
  const url = `${proxy.server.url}/v1/chat/completions`;
  const sent = request(url, { method: 'POST', agent: agentOf, headers }, onResponse);
  sent.end(text);
  return sent;
}

function send(proxy: BenchProxy, payload: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = post(proxy, payload, agent, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${proxy.name}: status ${response.statusCode}`));
      response.resume().once('end', resolve).once('error', reject);
    });
    sent.once('error', reject);
  });
}

/** Measures the CPU of one JSON request in microseconds, with many in flight. */
async function requestCost(proxy: BenchProxy): Promise<number> {
  const count = Math.ceil(Number(options.requests) / proxy.requestDivisor);
  let next = 0;
  const worker = async () => {
    while (next++ < count) await send(proxy, body);
  };
  const before = cpuMicros(proxy.server.pid);
  await Promise.all(Array.from({ length: Number(options.concurrency) }, worker));
  return (cpuMicros(proxy.server.pid) - before) / count;
}

/** Measures the CPU of one streamed chunk in microseconds, with streams so long that their start matters little. */
async function chunkCost(proxy: BenchProxy): Promise<number> {
  const chunks = Number(options.chunks);
  const streams = Math.ceil(Number(options.streams) / proxy.requestDivisor);
  const payload = { ...body, stream: true, max_tokens: chunks, seed: 10 };
  const before = cpuMicros(proxy.server.pid);
  await Promise.all(Array.from({ length: streams }, () => send(proxy, payload)));
  return (cpuMicros(proxy.server.pid) - before) / (streams * chunks);
}

/** Measures a quantile of the latency of requests in milliseconds, with this many concurrent callers. */
function requestTime(callers: number, fraction: number): (proxy: BenchProxy) => Promise<number> {
  return async (proxy) => {
    const count = Math.ceil((callers === 1 ? 1000 : 4000) / proxy.requestDivisor);
    const times: number[] = [];
    let next = 0;
    const worker = async () => {
      while (next++ < count) {
        const sentAt = performance.now();
        await send(proxy, body);
        times.push(performance.now() - sentAt);
      }
    };
    await Promise.all(Array.from({ length: callers }, worker));
    return quantile(times, fraction);
  };
}

/** Measures the resident memory of one open stream in bytes, with many open at the same time. */
async function streamMemory(proxy: BenchProxy): Promise<number> {
  const count = Math.ceil(Number(options.open) / proxy.requestDivisor);
  const before = residentBytes(proxy.server.pid);
  const streams: { destroy(): void }[] = [];
  for (let index = 0; index < count; index += 100) {
    await Promise.all(Array.from({ length: Math.min(100, count - index) }, () => openStream(proxy, streams)));
  }
  await sleep(3000);
  const bytes = (residentBytes(proxy.server.pid) - before) / count;
  for (const stream of streams) stream.destroy();
  return bytes;
}

function openStream(proxy: BenchProxy, streams: { destroy(): void }[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = post(proxy, { ...body, stream: true, max_tokens: 2, seed: 0 }, false, (response) => {
      response.once('data', () => resolve()).on('error', () => {});
    });
    sent.on('error', reject);
    streams.push(sent);
  });
}

const script = (file: string) => join(import.meta.dirname, 'gateway', file);
const node = process.execPath;
await using upstream = await startPeer(node, (port) => [script('upstream.ts'), String(port)], '/v1/models');
await using bare = await startPeer(
  node,
  (port) => [script('bare-proxy.ts'), String(port), upstream.url],
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
await using sluice = await startSluice(config);
const proxies: BenchProxy[] = [
  { name: 'bare', server: bare, headers: {}, requestDivisor: 1 },
  { name: 'sluice', server: sluice, headers: {}, requestDivisor: 1 },
];

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
await using peers = new AsyncDisposableStack();
peers.defer(() => rm(folder, { recursive: true, force: true }));
const selected = options.only?.split(',');
if (options.shared) {
  const postgres = peers.use(await startPostgres());
  const valkey = peers.use(await startValkey());
  const env = { SLUICE_DATABASE_URL: postgres.url, SLUICE_VALKEY_URL: valkey.url };
  const server = peers.use(await startSluice(config, env));
  proxies.push({ name: 'shared', server, headers: {}, requestDivisor: 1 });
}
for (const name of ['nginx', 'portkey', 'litellm'] as const) {
  const program = options[name] ?? findProgram(PEERS[name].program);
  if (program === null || selected?.includes(name) === false) continue;
  const proxy = await PEERS[name].start(program, folder, upstream.url);
  peers.use(proxy.server);
  proxies.push(proxy);
}

/**
 * Measures every proxy in each round, and prints medians of the values and of their differences from the minimal proxy.
 * An optional proxy that fails is reported and skipped, such as Portkey's streams on a recent Node.
 */
async function compare(
  title: string,
  unit: string,
  measure: (proxy: BenchProxy) => Promise<number>,
  { rounds, warmUp, difference = false }: { rounds: number; warmUp: boolean; difference?: boolean },
) {
  const results = new Map<BenchProxy, number[]>(proxies.map((proxy) => [proxy, []]));
  const failures = new Map<BenchProxy, string>();
  const run = async (proxy: BenchProxy, keep: boolean) => {
    if (failures.has(proxy)) return;
    try {
      const value = await measure(proxy);
      if (keep) results.get(proxy)?.push(value);
    } catch (error) {
      if (proxy.server === bare || proxy.server === sluice) throw error;
      failures.set(proxy, error instanceof Error ? error.message : String(error));
    }
  };
  for (const proxy of warmUp ? proxies : []) await run(proxy, false);
  for (let round = 0; round < rounds; round++) {
    for (const proxy of round % 2 === 0 ? proxies : proxies.toReversed()) await run(proxy, true);
  }
  const base = [...results].find(([proxy]) => proxy.server === bare)?.[1] ?? [];
  console.log(title);
  for (const [proxy, values] of results) {
    // Compared within each round, because other load on the machine differs between rounds.
    const relative = (value: number, round: number) => {
      const bareValue = base[round] ?? NaN;
      return difference ? value - bareValue : value / bareValue;
    };
    const ratio = median(values.map(relative)).toFixed(2);
    const value = median(values)
      .toFixed(difference ? 2 : 1)
      .padStart(9);
    const text = `${value} ${unit}  ${difference ? `bare + ${ratio}` : `${ratio} x bare`}`;
    console.log(`  ${proxy.name.padEnd(8)} ${failures.get(proxy) ?? text}`);
  }
}

// Memory is measured first, because new streams would reuse memory that was freed after load.
await compare(`memory per open stream, ${options.open} streams`, 'bytes ', streamMemory, {
  rounds: 1,
  warmUp: false,
});
await compare('CPU per proxied JSON request', 'us', requestCost, { rounds, warmUp: true });
await compare('CPU per streamed chunk', 'us', chunkCost, { rounds, warmUp: true });
const latency = { rounds, warmUp: false, difference: true };
await compare('latency with 1 caller, p50', 'ms', requestTime(1, 0.5), latency);
await compare('latency with 16 callers, p99', 'ms', requestTime(16, 0.99), latency);
process.exit(0);
