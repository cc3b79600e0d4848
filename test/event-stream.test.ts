import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { connect, type AddressInfo, type Socket } from 'node:net';
import { test } from 'node:test';
import { StalledError, watchConnections } from '../src/connection-watch.ts';
import { EventStream, WriteQueue } from '../src/event-stream.ts';

const STALL_MS = 1000;
/** How often the connection watch looks. */
const TICK_MS = STALL_MS / 10;
/** Some 64 KB. */
const FRAME = `data: ${'x'.repeat(65_536)}\n\n`;

test('a caller that reads within stallMs each time keeps its stream, and one that does not loses it', async (context) => {
  const pass = async (ms: number) => {
    for (let passedMs = 0; passedMs < ms; passedMs += TICK_MS) {
      context.mock.timers.tick(TICK_MS);
      await turns();
    }
  };
  context.mock.timers.enable({ apis: ['setInterval'] });
  await using it = await Exchange.open();
  for (let round = 0; round < 3; round++) {
    const { drained } = await it.fill();
    await pass(STALL_MS - 2 * TICK_MS);
    it.caller.resume();
    await drained;
    it.caller.pause();
    assert.equal(it.served.destroyed, false, `round ${round}`);
  }
  const { drained } = await it.fill();
  await pass(STALL_MS + 2 * TICK_MS);
  await drained;
  assert.ok(it.served.errored instanceof StalledError);
});

/** A stream on a real connection whose caller reads only when it is told to. */
class Exchange implements AsyncDisposable {
  readonly caller: Socket;
  /** The service's side of the connection. */
  readonly served: Socket;
  readonly #stream: EventStream;
  readonly #owned: AsyncDisposable;

  private constructor(caller: Socket, response: ServerResponse, owned: AsyncDisposable) {
    this.caller = caller;
    this.served = response.req.socket;
    this.#owned = owned;
    const options = { holdMs: 1e6, keepAliveMs: 1e6 };
    this.#stream = new EventStream(response, new WriteQueue(), options);
    this.#stream.write('');
  }

  static async open(): Promise<Exchange> {
    await using owned = new AsyncDisposableStack();
    const server = createServer();
    watchConnections(server, { requestMs: 1e6, stallMs: STALL_MS, idleMs: 1e6 }, () => {});
    server.listen(0, '127.0.0.1');
    owned.defer(() => void server.close());
    await once(server, 'listening');
    const caller = connect((server.address() as AddressInfo).port, '127.0.0.1'); // It listens on TCP.
    owned.defer(() => void caller.destroy());
    caller.on('data', () => {});
    caller.pause();
    const asked = once(server, 'request') as Promise<[unknown, ServerResponse]>;
    caller.write('GET / HTTP/1.1\r\nHost: a\r\n\r\n');
    const [, response] = await asked;
    return new Exchange(caller, response, owned.move());
  }

  /** Writes until the buffers between the two are full, and returns what resolves once there is room, or all is over. */
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

/** As many turns of the event loop as a write to the kernel and what follows from it may take. */
async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn++) await new Promise(setImmediate);
}
