import { connect } from 'node:net';
import { whileServingOthers, replicaRequest, type FaultContext } from './fault-context.ts';
import { BODY_BYTES, FALSE_USAGE_MODEL, READ_STALL_MS } from './configuration.ts';

/** Timeout for a refusal, in milliseconds; longer than `limits.bodyMs`. */
const LONGEST_REFUSAL_MS = 10_000;

/** Numbers of concurrent requests. */
const SLOW = 8;
const MANY = 12;

/** A response larger than the socket buffers. The service ends streams with more than 256 characters per token. */
const UNREAD = { words: 60_000, wordBytes: 160 };

const MODEL = JSON.stringify(FALSE_USAGE_MODEL);

/** Invalid bodies with as many values or levels as the maximum size allows. */
const INVALID_BODIES: Readonly<Record<string, string>> = {
  'nested arrays': nested('[', ']', BODY_BYTES / 2),
  'nested objects': nested('{"a":', '}', BODY_BYTES / 8),
  'nested messages': `{"model":${MODEL},"messages":${nested('[', ']', BODY_BYTES / 3)}}`,
  'numbers for messages': `{"model":${MODEL},"messages":[${'0,'.repeat(BODY_BYTES / 3)}0]}`,
  'unknown fields': `{"model":${MODEL},${fields(BODY_BYTES / 20)}}`,
  'a repeated field': `{${'"model":"",'.repeat(BODY_BYTES / 12)}"model":${MODEL}}`,
  'a long number': `{"model":${MODEL},"messages":[{"role":"user","content":""}],"temperature":${'9'.repeat(BODY_BYTES / 2)}}`,
  'a long name': `{"model":"${'m'.repeat(BODY_BYTES / 2)}","messages":[]}`,
  'an incomplete string': `{"model":"${'\\u0000'.repeat(BODY_BYTES / 8)}`,
};

/**
 * Sends invalid, slow and oversized bodies, many bodies at once, and requests whose responses are never read, all from
 * one account, while another account must be served.
 */
export async function sendHostileBodies(context: FaultContext): Promise<void> {
  await whileServingOthers(context, async () => {
    for (const [name, body] of Object.entries(INVALID_BODIES)) {
      expect(context, name, 400, await sendRaw(context, { 'Content-Length': body.length }, [body]));
    }
    await sendOversized(context);
    await sendMany(context);
    await Promise.all([sendSlowly(context), sendUnread(context)]);
  });
}

async function sendOversized(context: FaultContext): Promise<void> {
  const part = 'a'.repeat(0x10000);
  expect(context, 'a long body', 413, await sendRaw(context, { 'Content-Length': 1e9 }, endless(part)));
  const chunk = `10000\r\n${part}\r\n`;
  expect(
    context,
    'an endless body',
    413,
    await sendRaw(context, { 'Transfer-Encoding': 'chunked' }, endless(chunk)),
  );
}

async function sendSlowly(context: FaultContext): Promise<void> {
  const slow = Array.from({ length: SLOW }, () =>
    sendRaw(context, { 'Content-Length': 1000 }, endless('{'), 100),
  );
  for (const status of await Promise.all(slow)) expect(context, 'a slow body', 408, status);
}

/** Sends valid requests whose bodies together exceed the limit of the account. Some must be served. */
async function sendMany(context: FaultContext): Promise<void> {
  const sending = Array.from({ length: MANY }, (_, index) =>
    context.send({
      ...replicaRequest(context, 'hostile', {
        endpoint: 'chat',
        streamed: index % 2 === 0,
        usage: 'correct',
        words: 3,
      }),
      pacing: { paddingBytes: BODY_BYTES * 0.75, betweenHalvesMs: 300 },
    }),
  );
  const outcomes = (await Promise.all(sending)).map(({ outcome }) => outcome);
  const complete = outcomes.filter(({ kind }) => kind === 'complete').length;
  const refused = countOf('concurrent_body_bytes');
  // On a busy machine, a body may not arrive within `limits.bodyMs`.
  const late = countOf('request_timeout');
  if (complete === 0 || refused === 0 || complete + refused + late < MANY) {
    const what = `of ${MANY} concurrent large bodies, ${complete} were served, ${refused} refused and ${late} late: ${JSON.stringify(outcomes)}`;
    context.report({ kind: 'unserved', what });
  }

  function countOf(code: string): number {
    return outcomes.filter((outcome) => 'code' in outcome && outcome.code === code).length;
  }
}

/** Sends requests without reading their responses. The service must close their connections. */
async function sendUnread(context: FaultContext): Promise<void> {
  const sending = [true, false].map((streamed) =>
    context.send({
      ...replicaRequest(context, 'hostile', { endpoint: 'chat', streamed, usage: 'correct', ...UNREAD }),
      // Long enough to generate the response while the machine is busy.
      pacing: { readAfterMs: 10 * READ_STALL_MS },
    }),
  );
  for (const record of await Promise.all(sending)) {
    // A request can be refused while the bodies of other requests are in memory.
    if (record.outcome.kind === 'connection-lost' || record.outcome.kind === 'refused') continue;
    context.report({ kind: 'unserved', what: 'a client that did not read was not disconnected', record });
  }
}

function expect(context: FaultContext, name: string, expected: number, status: number | string): void {
  if (status === expected) return;
  context.report({ kind: 'unserved', what: `${name}: ${status} instead of ${expected}` });
}

/**
 * Sends the body of a request in parts until there is a response, for up to `LONGEST_REFUSAL_MS`. Resolves with the
 * status, or a description of what happened instead.
 */
function sendRaw(
  { testbed, index }: FaultContext,
  headers: Record<string, string | number>,
  parts: Iterable<string>,
  everyMs = 1,
): Promise<number | string> {
  const { hostname, port } = new URL(testbed.instances[index]?.url ?? '');
  const key = testbed.callers.find(({ plan }) => plan === 'hostile')?.key;
  const all = { Host: hostname, Authorization: `Bearer ${key}`, ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const remaining = parts[Symbol.iterator]();
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    const end = (result: number | string): void => {
      clearInterval(interval);
      clearTimeout(timeout);
      socket.destroy();
      resolve(result);
    };
    const interval = setInterval(() => {
      if (socket.writableLength > 0) return;
      const { value, done } = remaining.next();
      if (done !== true) socket.write(value);
    }, everyMs);
    const timeout = setTimeout(() => end('no response'), LONGEST_REFUSAL_MS);
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\n${lines.join('')}\r\n`);
    socket.once('data', (bytes: Buffer) => end(Number(bytes.toString('latin1').split(' ')[1])));
    socket.once('error', (error) => end(error.message));
    socket.once('close', () => end('closed without a response'));
  });
}

function* endless(part: string): Generator<string> {
  for (;;) yield part;
}

function nested(open: string, close: string, bytes: number): string {
  const depth = Math.floor(bytes / (open.length + close.length));
  return open.repeat(depth) + close.repeat(depth);
}

function fields(count: number): string {
  return Array.from({ length: count }, (_, index) => `"field${index}":0`).join(',');
}
