import { Agent, request, type IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { allocatedBytes } from './inspector.ts';
import { CHAT } from './languages.ts';
import type { BenchProxy } from './peers.ts';
import { cpuMicros, residentBytes } from './processes.ts';
import { quantile } from '../statistics.ts';

/** Returns one value for a proxy, under load. */
export type Measurement = (proxy: BenchProxy) => Promise<number>;

const agent = new Agent({ keepAlive: true, maxSockets: Infinity });
const content = 'Say sixteen words about the weather of tomorrow, please.';
const body = { model: 'bench/model', temperature: 0.5 };
/** The `max_tokens` of JSON requests. */
const MAX_TOKENS = 100;

/** Measures the CPU of one JSON request in microseconds. */
export function requestCost(count: number, callers: number): Measurement {
  return async (proxy) => {
    const before = cpuMicros(proxy.server.pid);
    const { length } = await sendRequests(proxy, count, callers);
    return (cpuMicros(proxy.server.pid) - before) / length;
  };
}

/** Measures the JavaScript heap that one JSON request allocates on the main thread, in bytes. */
export function requestAllocation(count: number, callers: number): Measurement {
  return async (proxy) => {
    const before = await allocated(proxy);
    const { length } = await sendRequests(proxy, count, callers);
    return ((await allocated(proxy)) - before) / length;
  };
}

/** Measures a quantile of the latency of JSON requests in milliseconds. */
export function requestTime(count: number, callers: number, fraction: number): Measurement {
  return async (proxy) => quantile(await sendRequests(proxy, count, callers), fraction);
}

/** Measures the CPU of one streamed chunk in microseconds. The streams are long enough that their start does not matter. */
export function chunkCost(streams: number, chunks: number): Measurement {
  return async (proxy) => {
    const before = cpuMicros(proxy.server.pid);
    const count = await sendStreams(proxy, streams, chunks);
    return (cpuMicros(proxy.server.pid) - before) / (count * chunks);
  };
}

/** Measures the JavaScript heap that one streamed chunk allocates on the main thread, in bytes. */
export function chunkAllocation(streams: number, chunks: number): Measurement {
  return async (proxy) => {
    const before = await allocated(proxy);
    const count = await sendStreams(proxy, streams, chunks);
    return ((await allocated(proxy)) - before) / (count * chunks);
  };
}

async function allocated({ server, inspectPort }: BenchProxy): Promise<number> {
  if (inspectPort === undefined) throw new Error('not a Node process');
  return await allocatedBytes(server.pid, inspectPort);
}

/** Measures the resident memory of one open stream in bytes, with many open at the same time. */
export function streamMemory(open: number): Measurement {
  return async (proxy) => {
    const count = Math.ceil(open / proxy.requestDivisor);
    const before = residentBytes(proxy.server.pid);
    const streams: { destroy(): void }[] = [];
    for (let index = 0; index < count; index += 100) {
      await Promise.all(
        Array.from({ length: Math.min(100, count - index) }, () => openStream(proxy, streams)),
      );
    }
    await sleep(3000);
    const bytes = (residentBytes(proxy.server.pid) - before) / count;
    for (const stream of streams) stream.destroy();
    return bytes;
  };
}

/** Sends JSON requests from this many callers at the same time. Resolves to their latencies in milliseconds. */
async function sendRequests(proxy: BenchProxy, requests: number, callers: number): Promise<number[]> {
  const count = Math.ceil(requests / proxy.requestDivisor);
  const times: number[] = [];
  let next = 0;
  const caller = async () => {
    while (next++ < count) {
      const sentAt = performance.now();
      await send(proxy, body, MAX_TOKENS);
      times.push(performance.now() - sentAt);
    }
  };
  await Promise.all(Array.from({ length: callers }, caller));
  return times;
}

/** Sends streaming requests at the same time. Resolves to their number. */
async function sendStreams(proxy: BenchProxy, streams: number, chunks: number): Promise<number> {
  const count = Math.ceil(streams / proxy.requestDivisor);
  const payload = { ...body, stream: true, seed: 10 };
  await Promise.all(Array.from({ length: count }, () => send(proxy, payload, chunks)));
  return count;
}

function send(proxy: BenchProxy, payload: object, maxTokens: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = post(proxy, payload, maxTokens, agent, (response) => {
      if (response.statusCode !== 200) reject(new Error(`${proxy.name}: status ${response.statusCode}`));
      response.resume().once('end', resolve).once('error', reject);
    });
    sent.once('error', reject);
  });
}

function openStream(proxy: BenchProxy, streams: { destroy(): void }[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const sent = post(proxy, { ...body, stream: true, seed: 0 }, 2, false, (response) => {
      response.once('data', () => resolve()).on('error', () => {});
    });
    sent.on('error', reject);
    streams.push(sent);
  });
}

function post(
  proxy: BenchProxy,
  payload: object,
  maxTokens: number,
  agentOf: Agent | false,
  onResponse: (response: IncomingMessage) => void,
) {
  const { path, fields } = proxy.language ?? CHAT;
  const text = JSON.stringify({ ...payload, ...fields(content, maxTokens) });
  const headers: Record<string, string | number> = {
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    ...proxy.headers,
  };
  if (proxy.server.key !== null) headers.authorization = `Bearer ${proxy.server.key}`;
  const sent = request(proxy.server.url + path, { method: 'POST', agent: agentOf, headers }, onResponse);
  sent.end(text);
  return sent;
}
