import { connect } from 'node:net';
import { besideAnother, wishOf, type Blow } from './blow.ts';
import { BODY_BYTES, LIAR_MODEL, READ_STALL_MS } from './configuration.ts';

/** How long a request that is refused may take to be, in milliseconds: beyond `limits.bodyMs`. */
const LONGEST_REFUSAL_MS = 10_000;

/** Requests at once. */
const SLOW = 8;
const MANY = 12;

/** More than the system takes from the service for a caller who reads nothing. */
const UNREAD = { words: 300, wordBytes: 32_768 };

const MODEL = JSON.stringify(LIAR_MODEL);

/** Bodies that are as large as they may be, in values or in depth; none is a request. */
const BOMBS: Readonly<Record<string, string>> = {
  'arrays in arrays': nested('[', ']', BODY_BYTES / 2),
  'objects in objects': nested('{"a":', '}', BODY_BYTES / 8),
  'messages in messages': `{"model":${MODEL},"messages":${nested('[', ']', BODY_BYTES / 3)}}`,
  'numbers for messages': `{"model":${MODEL},"messages":[${'0,'.repeat(BODY_BYTES / 3)}0]}`,
  'unknown fields': `{"model":${MODEL},${fields(BODY_BYTES / 20)}}`,
  'one field again and again': `{${'"model":"",'.repeat(BODY_BYTES / 12)}"model":${MODEL}}`,
  'a long number': `{"model":${MODEL},"messages":[{"role":"user","content":""}],"temperature":${'9'.repeat(BODY_BYTES / 2)}}`,
  'a long name': `{"model":"${'m'.repeat(BODY_BYTES / 2)}","messages":[]}`,
  'half a text': `{"model":"${'\\u0000'.repeat(BODY_BYTES / 8)}`,
};

/**
 * Sends bodies that are hostile, slow, too large and many at once, and does not read responses, all with keys of one
 * account. Another account is served meanwhile.
 */
export async function sendBodies(blow: Blow): Promise<void> {
  await besideAnother(blow, async () => {
    for (const [name, bomb] of Object.entries(BOMBS)) {
      expect(blow, name, 400, await pour(blow, { 'Content-Length': bomb.length }, [bomb]));
    }
    await sendOversized(blow);
    await sendMany(blow);
    await Promise.all([sendSlowly(blow), neverRead(blow)]);
  });
}

async function sendOversized(blow: Blow): Promise<void> {
  const part = 'a'.repeat(0x10000);
  expect(blow, 'a long body', 413, await pour(blow, { 'Content-Length': 1e9 }, endless(part)));
  const chunk = `10000\r\n${part}\r\n`;
  expect(blow, 'an endless body', 413, await pour(blow, { 'Transfer-Encoding': 'chunked' }, endless(chunk)));
}

async function sendSlowly(blow: Blow): Promise<void> {
  const slow = Array.from({ length: SLOW }, () => pour(blow, { 'Content-Length': 1000 }, endless('{'), 100));
  for (const status of await Promise.all(slow)) expect(blow, 'a slow body', 408, status);
}

/** Valid requests that together have more bytes than their account may have: some are served. */
async function sendMany(blow: Blow): Promise<void> {
  const asking = Array.from({ length: MANY }, (_, index) =>
    blow.ask({
      ...wishOf(blow, 'hostile', { endpoint: 'chat', streamed: index % 2 === 0, lie: 'none', words: 3 }),
      manner: { paddingBytes: BODY_BYTES * 0.75, betweenHalvesMs: 300 },
    }),
  );
  const endings = (await Promise.all(asking)).map(({ ending }) => ending);
  const whole = endings.filter(({ how }) => how === 'whole').length;
  const refused = endings.filter((each) => 'code' in each && each.code === 'concurrent_body_bytes').length;
  if (whole === 0 || refused === 0 || whole + refused < MANY) {
    const what = `of ${MANY} large bodies at once, ${whole} were served and ${refused} refused`;
    blow.report({ kind: 'unserved', what });
  }
}

/** The service has to close the connection of a caller who reads nothing. */
async function neverRead(blow: Blow): Promise<void> {
  const asking = [true, false].map((streamed) =>
    blow.ask({
      ...wishOf(blow, 'hostile', { endpoint: 'chat', streamed, lie: 'none', ...UNREAD }),
      manner: { readAfterMs: 3 * READ_STALL_MS },
    }),
  );
  for (const entry of await Promise.all(asking)) {
    if (entry.ending.how === 'lost') continue;
    blow.report({ kind: 'unserved', what: 'a caller who read nothing was not disconnected', entry });
  }
}

function expect(blow: Blow, name: string, expected: number, status: number | string): void {
  if (status === expected) return;
  blow.report({ kind: 'unserved', what: `${name}: ${status}, and not ${expected}` });
}

/**
 * Sends a request whose body comes in parts until there is a response, at most `LONGEST_REFUSAL_MS` long. Resolves
 * with the status, or with what happened instead.
 */
function pour(
  { stage, index }: Blow,
  headers: Record<string, string | number>,
  parts: Iterable<string>,
  everyMs = 1,
): Promise<number | string> {
  const { hostname, port } = new URL(stage.copies[index]?.url ?? '');
  const key = stage.callers.find(({ plan }) => plan === 'hostile')?.key;
  const all = { Host: hostname, Authorization: `Bearer ${key}`, ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  const left = parts[Symbol.iterator]();
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    const end = (what: number | string): void => {
      clearInterval(pouring);
      clearTimeout(patience);
      socket.destroy();
      resolve(what);
    };
    const pouring = setInterval(() => {
      if (socket.writableLength > 0) return;
      const { value, done } = left.next();
      if (done !== true) socket.write(value);
    }, everyMs);
    const patience = setTimeout(() => end('no response'), LONGEST_REFUSAL_MS);
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
