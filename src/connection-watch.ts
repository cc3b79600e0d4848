import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tickEvery } from './deadline.ts';

/** How long the connections of a server may wait for their client, in milliseconds. */
export interface ConnectionLimits {
  /** From the first byte of a request to its last. */
  requestMs: number;
  /** With bytes of a response that the client does not read. */
  stallMs: number;
  /** Without a request. Clients learn it from `Keep-Alive: timeout=`. */
  idleMs: number;
}

/** Time added to the timeout that clients are sent, so that no request arrives while the connection closes. */
const IDLE_GRACE_MS = 1000;

/**
 * Enforces the time limits of all connections of a server, in place of Node's own timers. Those answer 408 on a
 * connection that has never carried a request, which a client that connected ahead of need reads as the response to its
 * first request; and they count time in which this process stood still. Limits are enforced up to two ticks late.
 *
 * `onLateRequest` is called for a connection whose request has begun and did not arrive whole in time; it must end the
 * connection. Idle connections are closed without a response, and those of clients that read nothing with a
 * `StalledError`, whatever the response is.
 */
export function watchConnections(
  server: Server,
  limits: ConnectionLimits,
  onLateRequest: (socket: Socket) => void,
): void {
  const { requestMs, stallMs, idleMs } = limits;
  const connections = new Map<Socket, Connection>();
  server.headersTimeout = 0;
  server.requestTimeout = 0;
  // Node sends `Keep-Alive: timeout=` from this. A listener keeps it from closing the connection by its own timer.
  server.keepAliveTimeout = idleMs;
  server.on('timeout', () => {});
  server.on('connection', (socket: Socket) => {
    connections.set(socket, new Connection(socket));
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) =>
    connections.get(socket)?.serve(response),
  );

  const tickMs = Math.min(Math.max(Math.min(requestMs, stallMs, idleMs) / 10, 20), 1000);
  const ticks = tickEvery(tickMs, () => {
    for (const connection of connections.values()) {
      const state = connection.state();
      const waitedMs = connection.tick(state) * tickMs;
      if (state === 'arriving' && waitedMs > requestMs) onLateRequest(connection.socket);
      else if (state === 'sending' && waitedMs > stallMs) connection.socket.destroy(new StalledError());
      else if (state === 'idle' && waitedMs > idleMs + IDLE_GRACE_MS) connection.socket.destroy();
    }
  });
  server.once('close', () => ticks[Symbol.dispose]());
}

/** The client read nothing of its response for `stallMs`. */
export class StalledError extends Error {
  constructor() {
    super('the client stopped reading the response');
    this.name = 'StalledError';
  }
}

/**
 * What the server waits for: the first byte of a request (`idle`), the rest of it (`arriving`), nothing of the client
 * (`serving`), or that it reads (`sending`).
 */
type State = 'idle' | 'arriving' | 'serving' | 'sending';

class Connection {
  readonly socket: Socket;
  /** To the latest request. */
  #response: ServerResponse | null = null;
  /** What had been read when the latest response was complete: a byte more begins a request. */
  #readBytes = 0;
  #state: State = 'idle';
  /** Ticks spent in `#state` without progress. */
  #ticks = 0;
  #sentBytes = 0;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  serve(response: ServerResponse): void {
    this.#response = response;
    response.once('close', this.#served);
  }

  readonly #served = (): void => {
    this.#readBytes = this.socket.bytesRead;
    this.#ticks = 0;
  };

  state(): State {
    const response = this.#response;
    if (response === null || response.closed) {
      return this.socket.bytesRead > this.#readBytes ? 'arriving' : 'idle';
    }
    // The request behind a response that has no socket yet was pipelined: Node may have stopped reading it.
    if (!response.req.complete && response.socket !== null) return 'arriving';
    return this.socket.writableLength > 0 ? 'sending' : 'serving';
  }

  /** Counts one tick in a state; how many there were in a row without progress. */
  tick(state: State): number {
    const sent = sentBytes(this.socket);
    const same = state === this.#state && (state !== 'sending' || sent === this.#sentBytes);
    this.#ticks = same ? this.#ticks + 1 : 1;
    this.#state = state;
    this.#sentBytes = sent;
    return this.#ticks;
  }
}

/** Bytes that the system has taken. `Socket.bytesWritten` also counts those that wait in this process. */
function sentBytes(socket: Socket): number {
  // Node's own socket timeout looks at its handle too, since nothing public tells how far a large write has come.
  const { _handle: handle } = socket as Socket & {
    _handle?: { bytesWritten: number; writeQueueSize: number } | null;
  };
  return handle ? handle.bytesWritten - handle.writeQueueSize : 0;
}
