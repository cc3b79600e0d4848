import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { tickEvery, tickMsFor } from './deadline.ts';

/** Timeouts of connections, in milliseconds. */
export interface ConnectionLimits {
  /** Maximum time from the first byte of a request to the last. */
  requestMs: number;
  /** Maximum time for which the client may stop reading a response. */
  stallMs: number;
  /** Maximum time without a request. Sent to clients as `Keep-Alive: timeout=`. */
  idleMs: number;
}

/**
 * An idle connection is closed this long after the timeout sent to clients has expired, so that no request arrives
 * while the connection is being closed.
 */
const IDLE_GRACE_MS = 1000;

/**
 * Enforces the timeouts of all connections of a server, up to two ticks late. Replaces Node's timers, which have two
 * problems. They count time during which this process was suspended. They also send a 408 on a connection that has
 * never carried a request; a client that connected early takes the 408 as the response to its first request.
 *
 * If a request does not arrive completely in time, calls `onLateRequest`, which must end the connection. Destroys idle
 * connections without sending a response. If a client does not read, destroys its connection with a `StalledError`.
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
  // Node sends this as `Keep-Alive: timeout=`. The listener prevents Node's timer from closing the connection.
  server.keepAliveTimeout = idleMs;
  server.on('timeout', () => {});
  server.on('connection', (socket: Socket) => {
    connections.set(socket, new Connection(socket));
    socket.once('close', () => connections.delete(socket));
  });
  server.on('request', ({ socket }: IncomingMessage, response: ServerResponse) =>
    connections.get(socket)?.serve(response),
  );

  const tickMs = tickMsFor(requestMs, stallMs, idleMs);
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

/** The client read no data of its response for `stallMs`. */
export class StalledError extends Error {
  constructor() {
    super('the client stopped reading the response');
    this.name = 'StalledError';
  }
}

/**
 * The server waits for the first byte of a request (`idle`), for the rest of it (`arriving`), for its own handler
 * (`serving`), or for the client to read (`sending`).
 */
type ConnectionState = 'idle' | 'arriving' | 'serving' | 'sending';

class Connection {
  readonly socket: Socket;
  /** The response to the latest request. */
  #response: ServerResponse | null = null;
  /** Bytes read when the latest response ended. Any further byte begins a request. */
  #readBytes = 0;
  #state: ConnectionState = 'idle';
  /** Ticks spent in `#state` without progress. */
  #ticks = 0;
  #sentBytes = 0;

  constructor(socket: Socket) {
    this.socket = socket;
  }

  serve(response: ServerResponse): void {
    this.#response = response;
    response.on('close', this.#onResponseClosed);
  }

  readonly #onResponseClosed = (): void => {
    this.#readBytes = this.socket.bytesRead;
    this.#ticks = 0;
  };

  state(): ConnectionState {
    const response = this.#response;
    if (response === null || response.closed) {
      return this.socket.bytesRead > this.#readBytes ? 'arriving' : 'idle';
    }
    // A response without a socket belongs to a pipelined request, which Node may have stopped reading.
    if (!response.req.complete && response.socket !== null) return 'arriving';
    return this.socket.writableLength > 0 ? 'sending' : 'serving';
  }

  /** Counts a tick in this state. Returns the number of consecutive ticks without progress. */
  tick(state: ConnectionState): number {
    const sent = sentBytes(this.socket);
    const same = state === this.#state && (state !== 'sending' || sent === this.#sentBytes);
    this.#ticks = same ? this.#ticks + 1 : 1;
    this.#state = state;
    this.#sentBytes = sent;
    return this.#ticks;
  }
}

/** Returns the bytes passed to the operating system. `Socket.bytesWritten` also counts buffered bytes. */
function sentBytes(socket: Socket): number {
  // Node's socket timeout also reads the handle, because no public API shows the progress of a large write.
  const { _handle: handle } = socket as Socket & {
    _handle?: { bytesWritten: number; writeQueueSize: number } | null;
  };
  return handle ? handle.bytesWritten - handle.writeQueueSize : 0;
}
