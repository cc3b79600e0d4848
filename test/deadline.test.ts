import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { after, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { Deadline, tickEvery } from '../src/support/deadline.ts';
import { blockProcess } from './harness.ts';

const server = createServer().listen(0, '127.0.0.1');
await once(server, 'listening');
after(() => server.close());

/** Opens a connection in this process and returns both ends. */
async function connection(): Promise<{ near: Socket; far: Socket } & Disposable> {
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const near = connect((server.address() as AddressInfo).port, '127.0.0.1'); // Listens on TCP.
  const [[far]] = await Promise.all([accepted, once(near, 'connect')]);
  return { near, far, [Symbol.dispose]: () => [near, far].forEach((socket) => socket.destroy()) };
}

/** Waits some turns of the event loop, in which due timers fire and ready sockets are read. */
async function turns(): Promise<void> {
  for (let count = 0; count < 5; count++) await turn();
}

/** Sends a byte, blocks the process, and returns whether the timer expired or the byte was read first. */
async function firstAfter(blockedMs: number, arm: (expire: () => void) => Disposable): Promise<string> {
  using ends = await connection();
  const events: string[] = [];
  ends.near.on('data', () => events.push('data'));
  using _ = arm(() => events.push('expired'));
  ends.far.write('x');
  blockProcess(blockedMs);
  while (events.length === 0) await turn();
  return events[0] ?? '';
}

test('an overdue plain timer fires before ready sockets are read', async () => {
  const first = await firstAfter(150, (expire) => {
    const timer = setTimeout(expire, 100);
    return { [Symbol.dispose]: () => clearTimeout(timer) };
  });
  assert.equal(first, 'expired');
});

test('a slightly overdue deadline expires after ready sockets are read', async () => {
  assert.equal(await firstAfter(120, (expire) => new Deadline(100, expire)), 'data');
});

test('an overdue tick comes after ready sockets are read', async () => {
  assert.equal(await firstAfter(150, (expire) => tickEvery(100, expire)), 'data');
});

test('a late deadline is extended by its delay', async () => {
  const expiry = Promise.withResolvers<number>();
  using _ = new Deadline(300, () => expiry.resolve(performance.now()));
  blockProcess(700);
  const unblockedAtMs = performance.now();
  const waitedMs = (await expiry.promise) - unblockedAtMs;
  // Timers count whole milliseconds.
  assert.ok(waitedMs >= 299, `${waitedMs} ms`);
});

test('a deadline is extended only once', async () => {
  let expired = false;
  using _ = new Deadline(300, () => (expired = true));
  blockProcess(700);
  await turns();
  blockProcess(700);
  await turns();
  assert.equal(expired, true);
});

test('time during which the process was blocked counts as one tick', async () => {
  let ticks = 0;
  using _ = tickEvery(100, () => ticks++);
  blockProcess(500);
  const unblockedAtMs = performance.now();
  await turns();
  // A busy machine may take more than an interval for the turns.
  const later = Math.floor((performance.now() - unblockedAtMs) / 100);
  assert.ok(ticks >= 1 && ticks <= 1 + later, `${ticks} ticks, at most ${1 + later}`);
});

test('a deadline that is canceled while sockets are read does not expire', async () => {
  let expired = false;
  const deadline = new Deadline(10, () => (expired = true));
  // Fires right after the deadline, in the same phase.
  setTimeout(() => deadline[Symbol.dispose](), 10);
  blockProcess(15);
  await turns();
  assert.equal(expired, false);
});
