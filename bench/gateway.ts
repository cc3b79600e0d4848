/**
 * CPU of a proxied JSON request and of a streamed chunk, and the memory of a live stream, against the least that
 * a proxy in Node can be (`gateway/bare-proxy.ts`), over a scripted upstream in a process of its own. Arms in
 * turn, medians of several rounds, figures as multiples of the bare proxy. CPU is user + system of the arm's
 * process and its children, from the operating system (Linux).
 *
 *   npm run bench:gateway            -- further arms: nginx where it is on PATH, others by --arm name=url,pid
 */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { Agent, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { cpuMicros, residentBytes } from './gateway/processes.ts';
import { startPeer, startSluice, type Server } from './servers.ts';
import { median } from './statistics.ts';

const { values: options } = parseArgs({
  options: {
    rounds: { type: 'string', default: '5' },
    requests: { type: 'string', default: '4000' },
    concurrency: { type: 'string', default: '32' },
    streams: { type: 'string', default: '64' },
    chunks: { type: 'string', default: '200' },
    held: { type: 'string', default: '4000' },
    arm: { type: 'string', multiple: true, default: [] },
  },
});
const rounds = Number(options.rounds);
const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const message = { role: 'user', content: 'Say sixteen words about the weather of tomorrow, please.' };
const body = { model: 'bench/model', messages: [message], temperature: 0.5 };

interface Arm {
  name: string;
  server: Server;
}

function send(server: Server, payload: object, onChunk?: () => void): Promise<void> {
  const text = JSON.stringify(payload);
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
  };
  if (server.key !== null) headers.authorization = `Bearer ${server.key}`;
  return new Promise((resolve, reject) => {
    const sent = request(
      `${server.url}/v1/chat/completions`,
      { method: 'POST', agent, headers },
      (response) => {
        if (response.statusCode !== 200) reject(new Error(`${server.url}: ${response.statusCode}`));
        response.on('data', () => onChunk?.());
        response.once('end', resolve);
        response.once('error', reject);
      },
    );
    sent.once('error', reject);
    sent.end(text);
  });
}

/** CPU microseconds of one JSON request, many in flight. */
async function requestCost(server: Server): Promise<number> {
  const count = Number(options.requests);
  let next = 0;
  const worker = async () => {
    while (next++ < count) await send(server, body);
  };
  const before = cpuMicros(server.pid);
  await Promise.all(Array.from({ length: Number(options.concurrency) }, worker));
  return (cpuMicros(server.pid) - before) / count;
}

/** CPU microseconds of one streamed chunk: long streams, so that their beginnings weigh little. */
async function chunkCost(server: Server): Promise<number> {
  const chunks = Number(options.chunks);
  const streams = Number(options.streams);
  const payload = { ...body, stream: true, max_tokens: chunks, seed: 10 };
  const before = cpuMicros(server.pid);
  await Promise.all(Array.from({ length: streams }, () => send(server, payload)));
  return (cpuMicros(server.pid) - before) / (streams * chunks);
}

/** Resident bytes of one live stream, many held open at once. */
async function streamMemory(server: Server): Promise<number> {
  const held = Number(options.held);
  const before = residentBytes(server.pid);
  const open: { destroy(): void }[] = [];
  for (let index = 0; index < held; index += 100) {
    await Promise.all(Array.from({ length: Math.min(100, held - index) }, () => hold(server, open)));
  }
  await sleep(3000);
  const bytes = (residentBytes(server.pid) - before) / held;
  for (const each of open) each.destroy();
  return bytes;
}

function hold(server: Server, open: { destroy(): void }[]): Promise<void> {
  const text = JSON.stringify({ ...body, stream: true, max_tokens: 2, seed: 0 });
  const headers: Record<string, string> = { 'content-type': 'application/json' };
  if (server.key !== null) headers.authorization = `Bearer ${server.key}`;
  return new Promise((resolve, reject) => {
    const sent = request(
      `${server.url}/v1/chat/completions`,
      { method: 'POST', headers, agent: false },
      (response) => {
        response.once('data', () => resolve());
        response.on('error', () => {});
      },
    );
    sent.on('error', reject);
    open.push(sent);
    sent.end(text);
  });
}

function installed(program: string): boolean {
  try {
    execFileSync(program, ['-v'], { stdio: 'ignore' });
    return true;
  } catch {
    return false;
  }
}

function nginxConfig(folder: string, port: number, upstream: string): string {
  return `
    daemon off; worker_processes 1; pid ${folder}/pid; error_log /dev/null;
    events { worker_connections 20000; }
    http {
      access_log ${folder}/access.log;
      client_body_temp_path ${folder}/body; proxy_temp_path ${folder}/proxy;
      fastcgi_temp_path ${folder}/fastcgi; uwsgi_temp_path ${folder}/uwsgi; scgi_temp_path ${folder}/scgi;
      upstream scripted { server ${new URL(upstream).host}; keepalive 256; }
      server {
        listen 127.0.0.1:${port} backlog=4096;
        location / {
          proxy_pass http://scripted; proxy_http_version 1.1; proxy_set_header Connection "";
          proxy_buffering off; proxy_read_timeout 600s;
        }
      }
    }`;
}

const here = (file: string) => join(import.meta.dirname, 'gateway', file);
const node = process.execPath;
await using upstream = await startPeer(node, (port) => [here('upstream.ts'), String(port)], '/v1/models');
await using bare = await startPeer(node, (port) => [here('bare-proxy.ts'), String(port), upstream.url], '/');
await using sluice = await startSluice(
  `models:\n  - id: bench/model\n    replicas: [{url: '${upstream.url}', dialect: vllm}]\n`,
);
const arms: Arm[] = [
  { name: 'bare', server: bare },
  { name: 'sluice', server: sluice },
];

const folder = await mkdtemp(join(tmpdir(), 'sluice-nginx-'));
await using peers = new AsyncDisposableStack();
peers.defer(() => rm(folder, { recursive: true, force: true }));
if (installed('nginx')) {
  const start = async (port: number) => {
    const file = join(folder, 'nginx.conf');
    await writeFile(file, nginxConfig(folder, port, upstream.url));
    return ['-c', file, '-p', folder];
  };
  arms.push({ name: 'nginx', server: peers.use(await startPeer('nginx', start, '/v1/models')) });
}
for (const given of options.arm) {
  const [, name, url, pid] = /^(\w+)=(.+),(\d+)$/.exec(given) ?? [];
  if (!name || !url) throw new Error(`--arm ${given}: expected name=url,pid`);
  arms.push({ name, server: { url, key: 'none', pid: Number(pid), async [Symbol.asyncDispose]() {} } });
}

/** Measures every arm in turn, round by round, and prints medians and multiples of the bare proxy's. */
async function compare(
  title: string,
  unit: string,
  times: number,
  cost: (server: Server) => Promise<number>,
) {
  const figures = new Map<string, number[]>(arms.map(({ name }) => [name, []]));
  for (let index = 0; index < times; index++) {
    for (const { name, server } of index % 2 === 0 ? arms : [...arms].reverse()) {
      figures.get(name)?.push(await cost(server));
    }
  }
  const base = median(figures.get('bare') ?? []);
  console.log(title);
  for (const [name, values] of figures) {
    const middle = median(values);
    console.log(
      `  ${name.padEnd(8)} ${middle.toFixed(1).padStart(9)} ${unit}  ${(middle / base).toFixed(2)} x bare`,
    );
  }
}

// Memory first: what a process under load has freed, the held streams would fill unseen.
await compare(`a live stream, ${options.held} held`, 'bytes ', 1, streamMemory);
for (const { server } of arms) await requestCost(server);
await compare('a proxied JSON request', 'us CPU', rounds, requestCost);
for (const { server } of arms) await chunkCost(server);
await compare('a streamed chunk', 'us CPU', rounds, chunkCost);
process.exit(0);
