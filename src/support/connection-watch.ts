import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { isIPv6, type Socket } from 'node:net';
import { tickEvery, tickMsFor } from './deadline.ts';

/** Timeouts of connections, in milliseconds, and their number. */
export interface ConnectionLimits {
  /** Maximum time from the first byte of a request to the last. */
  requestMs: number;
  /** Maximum time for which the client may stop reading a response. */
  stallMs: number;
  /** Maximum time without a request. Sent to clients as `Keep-Alive: timeout=`. */
  idleMs: number;
  /** Default: no bounds. */
  bounds?: ConnectionBounds;
}

/** How many connections may be open. */
interface ConnectionBounds {
  /** In total. */
  max: number;
  /** Whether an address is a proxy, whose connections are those of many clients. */
  isProxy: (address: string) => boolean;
}

/**
 * An idle connection is closed this long after the timeout sent to clients has expired, so that no request arrives
 * while the connection is being closed.
 */
const IDLE_GRACE_MS = 1000;

/**
 * Enforces the timeouts and the bounds of all connections of a server. Timeouts are up to two ticks late. Replaces Node's
 * timers, which have two problems. They count time during which this process was suspended. They also send a 408 on a
 * connection that has never carried a request; a client that connected early takes the 408 as the response to its first
 * request.
 *
 * If a request does not arrive completely in time, calls `onLateRequest`, which must end the connection. Destroys idle
 * connections without sending a response. If a client does not read, destroys its connection with a `StalledError`.
 */
export function watchConnections(
  server: Server,
  limits: ConnectionLimits,
  onLateRequest: (socket: Socket) => void,
): void {
  const { requestMs, stallMs, idleMs, bounds } = limits;
  const open = new OpenConnections(bounds ?? null);
  server.headersTimeout = 0;
  server.requestTimeout = 0;
  // Node sends this as `Keep-Alive: timeout=`. The listener prevents Node's timer from closing the connection.
  server.keepAliveTimeout = idleMs;
  server.on('timeout', () => {});
  server.on('connection', (socket: Socket) => open.admit(socket));
  // Before the handler, which may call `keepConnection` at once.
  server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) =>
    connections.get(socket)?.serve(response),
  );

  const tickMs = tickMsFor(requestMs, stallMs, idleMs);
  const ticks = tickEvery(tickMs, () => {
    for (const connection of open) {
      const state = connection.state();
      const waitedMs = connection.tick(state) * tickMs;
      if (state === 'arriving' && waitedMs > requestMs) onLateRequest(connection.socket);
      else if (state === 'sending' && waitedMs > stallMs) connection.socket.destroy(new StalledError());
      else if (state === 'idle' && waitedMs > idleMs + IDLE_GRACE_MS) connection.socket.destroy();
    }
  });
  server.once('close', () => ticks[Symbol.dispose]());
}

/** The open connections of all servers. */
const connections = new WeakMap<Socket, Connection>();

/** Keeps the connection of an authenticated request until its response is closed, however many others are opened. */
export function keepConnection(request: IncomingMessage): void {
  connections.get(request.socket)?.keep(request);
}

/** Whether the connection of a request is above the bounds, so that only health checks may be answered on it. */
export function isSpareConnection({ socket }: IncomingMessage): boolean {
  return connections.get(socket)?.isSpare() === true;
}

/** Connections above each bound that are accepted for health checks. */
const SPARE = 16;

/** The part of all connections that one network cannot use. */
const SHARE_OF_OTHERS = 1 / 8;

/**
 * The open connections of a server. If there are too many, a new one takes the place of the connection that has been without
 * an authenticated request for the longest time: one from the network of the new connection, if there is any, so that a
 * client with many connections closes its own. Connections with an authenticated request are never closed.
 */
class OpenConnections {
  readonly #bounds: ConnectionBounds | null;
  readonly #open = new Set<Connection>();
  /** Connections without an authenticated request, in the order of their last request or response. */
  readonly #anonymous = new Set<Connection>();
  /** Number of connections by network. */
  readonly #networks = new Map<string, number>();

  constructor(bounds: ConnectionBounds | null) {
    this.#bounds = bounds;
  }

  [Symbol.iterator](): Iterator<Connection> {
    return this.#open[Symbol.iterator]();
  }

  /** Whether there are too many connections, in total or of this network, and this one may be among them. */
  hasTooMany({ network, maxOfNetwork }: Connection): boolean {
    const max = this.#bounds?.max ?? Infinity;
    return this.#open.size > max || this.#countOf(network) > maxOfNetwork;
  }

  /** Watches a new connection, or destroys it. */
  admit(socket: Socket): void {
    const connection = new Connection(socket, this.#boundOf(socket), this);
    if (!this.#makeRoom(connection)) {
      socket.destroy();
      return;
    }
    const { network } = connection;
    this.#open.add(connection);
    this.#networks.set(network, this.#countOf(network) + 1);
    connections.set(socket, connection);
    this.touch(connection);
    socket.once('close', () => this.#remove(connection));
  }

  /** Makes a connection the last one to be closed for others, unless it has an authenticated request. */
  touch(connection: Connection): void {
    this.#anonymous.delete(connection);
    if (!connection.isKept && this.#open.has(connection)) this.#anonymous.add(connection);
  }

  #boundOf({ remoteAddress = '' }: Socket): NetworkBound {
    const { max, isProxy } = this.#bounds ?? { max: Infinity, isProxy: () => true };
    const maxOfNetwork = isProxy(remoteAddress) ? Infinity : max - Math.floor(max * SHARE_OF_OTHERS);
    return { network: networkOf(remoteAddress), maxOfNetwork };
  }

  /** Returns false if there is no room, and no connection to close. */
  #makeRoom(connection: Connection): boolean {
    const { network, maxOfNetwork } = connection;
    const { max = Infinity } = this.#bounds ?? {};
    const count = this.#countOf(network);
    const isFull = (spare: number) => this.#open.size >= max + spare || count >= maxOfNetwork + spare;
    if (!isFull(0)) return true;
    const own = count === 0 || maxOfNetwork === Infinity ? undefined : this.#firstOf(network);
    const replaced = own ?? (count < maxOfNetwork ? this.#anonymous.values().next().value : undefined);
    if (replaced !== undefined) {
      this.#remove(replaced);
      replaced.socket.destroy();
      return true;
    }
    connection.exceeds();
    return !isFull(SPARE);
  }

  #firstOf(network: string): Connection | undefined {
    return this.#anonymous.values().find((connection) => connection.network === network);
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    this.#anonymous.delete(connection);
    const left = this.#countOf(connection.network) - 1;
    if (left > 0) this.#networks.set(connection.network, left);
    else this.#networks.delete(connection.network);
  }

  #countOf(network: string): number {
    return this.#networks.get(network) ?? 0;
  }
}

/** The client read no data of its response for `stallMs`. */
export class StalledError extends Error {
  constructor() {
    super('the client stopped reading the response');
    this.name = 'StalledError';
  }
}

/** The network of a client, and how many connections it may have. */
interface NetworkBound {
  readonly network: string;
  /** Infinity: a proxy. */
  readonly maxOfNetwork: number;
}

/**
 * The server waits for the first byte of a request (`idle`), for the rest of it (`arriving`), for its own handler
 * (`serving`), or for the client to read (`sending`).
 */
type ConnectionState = 'idle' | 'arriving' | 'serving' | 'sending';

class Connection {
  readonly socket: Socket;
  readonly network: string;
  readonly maxOfNetwork: number;
  readonly #open: OpenConnections;
  /** The authenticated requests whose responses are not closed. */
  readonly #kept = new Set<IncomingMessage>();
  /** Whether the connection was above the maximum when it was opened, and there has been no room since. */
  #exceeds = false;
  /** The response to the latest request. */
  #response: ServerResponse | null = null;
  /** Bytes read when the latest response ended. Any further byte begins a request. */
  #readBytes = 0;
  #state: ConnectionState = 'idle';
  /** Ticks spent in `#state` without progress. */
  #ticks = 0;
  #sentBytes = 0;

  constructor(socket: Socket, { network, maxOfNetwork }: NetworkBound, open: OpenConnections) {
    this.socket = socket;
    this.network = network;
    this.maxOfNetwork = maxOfNetwork;
    this.#open = open;
  }

  get isKept(): boolean {
    return this.#kept.size > 0;
  }

  isSpare(): boolean {
    this.#exceeds &&= this.#open.hasTooMany(this);
    return this.#exceeds;
  }

  exceeds(): void {
    this.#exceeds = true;
  }

  keep(request: IncomingMessage): void {
    this.#kept.add(request);
    this.#open.touch(this);
  }

  serve(response: ServerResponse): void {
    this.#response = response;
    this.#open.touch(this);
    response.on('close', () => {
      this.#readBytes = this.socket.bytesRead;
      this.#ticks = 0;
      this.#kept.delete(response.req);
      this.#open.touch(this);
    });
  }

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

/** Returns the /64 network of an IPv6 address, because a client usually controls a whole /64. */
export function networkOf(ip: string): string {
  if (!isIPv6(ip) || ip.startsWith('::ffff:')) return ip;
  const [head = '', tail] = ip.split('::');
  const groups = head === '' ? [] : head.split(':');
  const missing = tail === undefined ? 0 : 8 - groups.length - (tail === '' ? 0 : tail.split(':').length);
  return [...groups, ...Array<string>(Math.max(missing, 0)).fill('0'), ...(tail ?? '').split(':')]
    .slice(0, 4)
    .map((group) => Number.parseInt(group || '0', 16).toString(16))
    .join(':');
}
