import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { StalledError, watchConnections } from '../src/support/connection-watch.ts';
import { EventStream, KEEP_ALIVE, WriteQueue } from '../src/support/event-stream.ts';

const STALL_MS = 1000;
/** Interval of `watchConnections`. */
const TICK_MS = STALL_MS / 10;
/** About 64 KB. */
const FRAME = `data: ${'x'.repeat(65_536)}\n\n`;

test('a stream ends only if its client reads nothing for stallMs', async (context) => {
  const pass = async (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += TICK_MS) {
      context.mock.timers.tick(TICK_MS);
      await turns();
    }
  };
  context.mock.timers.enable({ apis: ['setInterval'] });
  await using exchange = await Exchange.open();
  for (let round = 0; round < 3; round++) {
    const { drained } = await exchange.fill();
    await pass(STALL_MS - 2 * TICK_MS);
    exchange.client.resume();
    await drained;
    exchange.client.pause();
    assert.equal(exchange.server.destroyed, false, `round ${round}`);
  }
  const { drained } = await exchange.fill();
  await pass(STALL_MS + 2 * TICK_MS);
  await drained;
  assert.ok(exchange.server.errored instanceof StalledError);
});

const keepAlive = () => KEEP_ALIVE;

test('a stream that is not alive does not send its status, even after holdMs', async () => {
  let asked = 0;
  const alive = () => ++asked > 3;
  await using owned = new AsyncDisposableStack();
  const server = createServer((_request, response) => {
    const keepAlives = { holdMs: 1, keepAliveMs: 1e6, keepAlive, alive };
    owned.use(new EventStream(response, new WriteQueue(), { keepAlives }));
  });
  owned.defer(() => server.closeAllConnections());
  owned.defer(() => void server.close());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo; // Listens on TCP.
  const response = await fetch(`http://127.0.0.1:${port}`);
  assert.equal(response.status, 200);
  assert.equal(asked, 4);
});

/** A stream on a real connection whose client is paused. */
class Exchange implements AsyncDisposable {
  readonly client: Socket;
  /** The server's side of the connection. */
  readonly server: Socket;
  readonly #stream: EventStream;
  readonly #owned: AsyncDisposable;

  private constructor(client: Socket, response: ServerResponse, owned: AsyncDisposable) {
    this.client = client;
    this.server = response.req.socket;
    this.#owned = owned;
    const options = { keepAlives: { holdMs: 1e6, keepAliveMs: 1e6, keepAlive } };
    this.#stream = new EventStream(response, new WriteQueue(), options);
    void this.#stream.write('');
  }

  static async open(): Promise<Exchange> {
    await using owned = new AsyncDisposableStack();
    const server = createServer();
    watchConnections(server, { requestMs: 1e6, stallMs: STALL_MS, idleMs: 1e6 }, () => {});
    server.listen(0, '127.0.0.1');
    owned.defer(() => void server.close());
    await once(server, 'listening');
    const client = connect((server.address() as AddressInfo).port, '127.0.0.1'); // Listens on TCP.
    owned.defer(() => void client.destroy());
    client.on('data', () => {});
    client.pause();
    const requested = once(server, 'request') as Promise<[unknown, ServerResponse]>;
    client.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    const [, response] = await requested;
    return new Exchange(client, response, owned.move());
  }

  /** Writes until all buffers are full. `drained` resolves when there is room, or when the connection ends. */
  async fill(): Promise<{ drained: Promise<void> }> {
    for (;;) {
      const drained = this.#stream.write(FRAME);
      await turns();
      if (drained === null) continue;
      let room = false;
      void drained.then(() => (room = true));
      await turns();
      if (!room) return { drained };
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stream[Symbol.dispose]();
    await this.#owned[Symbol.asyncDispose]();
  }
}

/** Waits enough turns of the event loop for a write to the kernel and its effects. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
}
