/**
 * CPU of a proxied JSON request and of a streamed chunk, the time that a proxy adds to a request, and the memory of
 * a live stream, against the least that a proxy in Node can be (`gateway/bare-proxy.ts`), over a scripted upstream
 * in a process of its own. Sluice checks keys, holds limits of every kind and keeps its ledger on SQLite. Arms in
 * turn, medians of several rounds, figures as multiples of the bare proxy. CPU is user + system of the arm's
 * process and its children, from the operating system (Linux).
 *
 *   npm run bench:gateway
 *
 * With `--shared`, Sluice on PostgreSQL and Valkey (or Redis) is an arm more; their own CPU is not its. nginx, Portkey
 * and LiteLLM are further arms where they are installed: on PATH, or where `--nginx`, `--portkey` (its
 * `start-server.js`) and `--litellm` say. `--only bare,sluice` measures these arms alone.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { Agent, request, type IncomingMessage } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { locate, PEERS, type Arm } from './gateway/peers.ts';
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
    held: { type: 'string', default: '4000' },
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

function open(
  arm: Arm,
  payload: object,
  agentOf: Agent | false,
  onAnswer: (answer: IncomingMessage) => void,
) {
  const text = JSON.stringify(payload);
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...arm.headers,
  };
  if (arm.server.key !== null) headers.authorization = `Bearer ${arm.server.key}`;
  const url = `${arm.server.url}/v1/chat/completions`;
  const sent = request(url, { method: 'POST', agent: agentOf, headers }, onAnswer);
  sent.end(text);
  return sent;
}

function send(arm: Arm, payload: object): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = open(arm, payload, agent, (answer) => {
      if (answer.statusCode !== 200) reject(new Error(`${arm.name}: status ${answer.statusCode}`));
      answer.resume().once('end', resolve).once('error', reject);
    });
    sent.once('error', reject);
  });
}

/** CPU microseconds of one JSON request, many in flight. */
async function requestCost(arm: Arm): Promise<number> {
  const count = Math.ceil(Number(options.requests) / arm.oneIn);
  let next = 0;
  const worker = async () => {
    while (next++ < count) await send(arm, body);
  };
  const before = cpuMicros(arm.server.pid);
  await Promise.all(Array.from({ length: Number(options.concurrency) }, worker));
  return (cpuMicros(arm.server.pid) - before) / count;
}

/** CPU microseconds of one streamed chunk: long streams, so that their beginnings weigh little. */
async function chunkCost(arm: Arm): Promise<number> {
  const chunks = Number(options.chunks);
  const streams = Math.ceil(Number(options.streams) / arm.oneIn);
  const payload = { ...body, stream: true, max_tokens: chunks, seed: 10 };
  const before = cpuMicros(arm.server.pid);
  await Promise.all(Array.from({ length: streams }, () => send(arm, payload)));
  return (cpuMicros(arm.server.pid) - before) / (streams * chunks);
}

/** Milliseconds that one request takes, at a quantile, with so many callers at once. */
function requestTime(callers: number, fraction: number): (arm: Arm) => Promise<number> {
  return async (arm) => {
    const count = Math.ceil((callers === 1 ? 1000 : 4000) / arm.oneIn);
    const times: number[] = [];
    let next = 0;
    const worker = async () => {
      while (next++ < count) {
        const sentAt = performance.now();
        await send(arm, body);
        times.push(performance.now() - sentAt);
      }
    };
    await Promise.all(Array.from({ length: callers }, worker));
    return quantile(times, fraction);
  };
}

/** Resident bytes of one live stream, many held open at once. */
async function streamMemory(arm: Arm): Promise<number> {
  const held = Math.ceil(Number(options.held) / arm.oneIn);
  const before = residentBytes(arm.server.pid);
  const streams: { destroy(): void }[] = [];
  for (let index = 0; index < held; index += 100) {
    await Promise.all(Array.from({ length: Math.min(100, held - index) }, () => hold(arm, streams)));
  }
  await sleep(3000);
  const bytes = (residentBytes(arm.server.pid) - before) / held;
  for (const each of streams) each.destroy();
  return bytes;
}

function hold(arm: Arm, streams: { destroy(): void }[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = open(arm, { ...body, stream: true, max_tokens: 2, seed: 0 }, false, (answer) => {
      answer.once('data', () => resolve()).on('error', () => {});
    });
    sent.on('error', reject);
    streams.push(sent);
  });
}

const here = (file: string) => join(import.meta.dirname, 'gateway', file);
const node = process.execPath;
await using upstream = await startPeer(node, (port) => [here('upstream.ts'), String(port)], '/v1/models');
await using bare = await startPeer(node, (port) => [here('bare-proxy.ts'), String(port), upstream.url], '/');
/** Every kind of limit, none of which is reached. */
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
const arms: Arm[] = [
  { name: 'bare', server: bare, headers: {}, oneIn: 1 },
  { name: 'sluice', server: sluice, headers: {}, oneIn: 1 },
];

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'));
await using peers = new AsyncDisposableStack();
peers.defer(() => rm(folder, { recursive: true, force: true }));
const wanted = options.only?.split(',');
if (options.shared) {
  const postgres = peers.use(await startPostgres());
  const valkey = peers.use(await startValkey());
  const env = { SLUICE_DATABASE_URL: postgres.url, SLUICE_VALKEY_URL: valkey.url };
  arms.push({ name: 'shared', server: peers.use(await startSluice(config, env)), headers: {}, oneIn: 1 });
}
for (const name of ['nginx', 'portkey', 'litellm'] as const) {
  const program = options[name] ?? locate(PEERS[name].program);
  if (program === null || wanted?.includes(name) === false) continue;
  const arm = await PEERS[name].start(program, folder, upstream.url);
  peers.use(arm.server);
  arms.push(arm);
}

/**
 * Measures every arm in turn, round by round, and prints medians of the figures and of their multiples of the bare proxy's. A further arm
 * that fails is told so, and left out: Portkey's streams do on a recent Node.
 */
async function compare(
  title: string,
  unit: string,
  cost: (arm: Arm) => Promise<number>,
  { rounds, warm, added = false }: { rounds: number; warm: boolean; added?: boolean },
) {
  const figures = new Map<Arm, number[]>(arms.map((arm) => [arm, []]));
  const failures = new Map<Arm, string>();
  const measure = async (arm: Arm, keep: boolean) => {
    if (failures.has(arm)) return;
    try {
      const figure = await cost(arm);
      if (keep) figures.get(arm)?.push(figure);
    } catch (error) {
      if (arm.server === bare || arm.server === sluice) throw error;
      failures.set(arm, error instanceof Error ? error.message : String(error));
    }
  };
  for (const arm of warm ? arms : []) await measure(arm, false);
  for (let round = 0; round < rounds; round++) {
    for (const arm of round % 2 === 0 ? arms : arms.toReversed()) await measure(arm, true);
  }
  const base = [...figures].find(([arm]) => arm.server === bare)?.[1] ?? [];
  console.log(title);
  for (const [arm, values] of figures) {
    // Of each round by itself: a machine that others use is as slow for the arms of one round, and for no two rounds.
    const against = (value: number, round: number) => {
      const bareValue = base[round] ?? NaN;
      return added ? value - bareValue : value / bareValue;
    };
    const figure = median(values.map(against)).toFixed(2);
    const words = `${median(values)
      .toFixed(added ? 2 : 1)
      .padStart(9)} ${unit}  ${added ? `${figure} more than bare` : `${figure} x bare`}`;
    console.log(`  ${arm.name.padEnd(8)} ${failures.get(arm) ?? words}`);
  }
}

// Memory first: what a process under load has freed, the held streams would fill unseen.
await compare(`a live stream, ${options.held} held`, 'bytes ', streamMemory, { rounds: 1, warm: false });
await compare('a proxied JSON request', 'us CPU', requestCost, { rounds, warm: true });
await compare('a streamed chunk', 'us CPU', chunkCost, { rounds, warm: true });
const timed = { rounds, warm: false, added: true };
await compare('a request of 1 caller, p50', 'ms', requestTime(1, 0.5), timed);
await compare('a request of 16 callers, p99', 'ms', requestTime(16, 0.99), timed);
process.exit(0);
