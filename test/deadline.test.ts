import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Deadline, tickEvery } from '../src/deadline.ts';
import { blockProcess } from './harness.ts';

const server = createServer().listen(0, '127.0.0.1');
await once(server, 'listening');
after(() => server.close());

/** Both ends of a connection in this process. */
async function connection(): Promise<{ near: Socket; far: Socket } & Disposable> {
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  // The server listens on a port.
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [[far]] = await Promise.all([accepted, once(near, 'connect')]);
  return { near, far, [Symbol.dispose]: () => [near, far].forEach((socket) => socket.destroy()) };
}

/** Some turns of the event loop: timers that are due have fired, and ready sockets have been read. */
async function turns(): Promise<void> {
  for (let count = 0; count < 5; count++) await turn();
}

/** Sends a byte, stands still, and says what the process did first afterwards. */
async function firstAfter(stillMs: number, arm: (expire: () => void) => Disposable): Promise<string> {
  using ends = await connection();
  const events: string[] = [];
  ends.near.on('data', () => events.push('data'));
  using _ = arm(() => events.push('expired'));
  ends.far.write('x');
  blockProcess(stillMs);
  while (events.length === 0) await turn();
  return events[0] ?? '';
}

test('a plain timer that is overdue fires before ready sockets are read', async () => {
  const first = await firstAfter(150, (expire) => {
    const timer = setTimeout(expire, 100);
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  });
  assert.equal(first, 'expired');
});

test('a deadline that is a little overdue expires after ready sockets are read', async () => {
  assert.equal(await firstAfter(120, (expire) => new Deadline(100, expire)), 'data');
});

test('a tick that is overdue comes after ready sockets are read', async () => {
  assert.equal(await firstAfter(150, (expire) => tickEvery(100, expire)), 'data');
});

test('a deadline that is late waits for as long again', async () => {
  let expiredAtMs: number | undefined;
  using _ = new Deadline(300, () => (expiredAtMs = performance.now()));
  blockProcess(700);
  const stillUntilMs = performance.now();
  while (expiredAtMs === undefined) await turn();
  // Timers count whole milliseconds.
  assert.ok(expiredAtMs - stillUntilMs >= 299, `${expiredAtMs - stillUntilMs} ms`);
});

test('a deadline that is late twice expires', async () => {
  let expired = false;
  using _ = new Deadline(300, () => (expired = true));
  blockProcess(700);
  await turns();
  blockProcess(700);
  await turns();
  assert.equal(expired, true);
});

test('time in which the process stood still is one tick', async () => {
  let ticks = 0;
  using _ = tickEvery(100, () => ticks++);
  blockProcess(500);
  const stillUntilMs = performance.now();
  await turns();
  // A busy machine may take more than an interval for the turns.
  const later = Math.floor((performance.now() - stillUntilMs) / 100);
  assert.ok(ticks >= 1 && ticks <= 1 + later, `${ticks} ticks, at most ${1 + later}`);
});

test('a deadline that is cancelled while sockets are read does not expire', async () => {
  let expired = false;
  const deadline = new Deadline(10, () => (expired = true));
  // Due right after it, in the same phase.
  setTimeout(() => deadline[Symbol.dispose](), 10);
  blockProcess(15);
  await turns();
  assert.equal(expired, false);
});
