import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** How long a test of a half-closed connection waits for its result, in milliseconds. */
const PROBE_MS = 100;

/** What tests the connection of a response that is a stream. */
const streams = new WeakMap<ServerResponse, () => void>();

/**
 * Lets clients that close their side of a connection after a whole request have the response. A client that is gone
 * looks the same, so the connection is tested with bytes that clients ignore: a gone client's system refuses them,
 * which closes the response as any disconnect does. `current` returns the response that a connection is waiting for.
 */
export function serveHalfClosed(server: Server, current: (socket: Socket) => ServerResponse | null): void {
  // Public, and in no type: without it Node ends the connection at once (`socketOnEnd` in lib/_http_server.js).
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on('connection', (socket: Socket) => socket.once('end', () => probe(socket, current)));
}

/** Has a stream's connection tested by `write`, which sends a comment. */
export function probeStreamWith(response: ServerResponse, write: () => void): void {
  streams.set(response, write);
}

/** Tests the connection until its response is complete. The first bytes are refused, and the next ones fail. */
function probe(socket: Socket, current: (socket: Socket) => ServerResponse | null): void {
  const response = current(socket);
  if (response === null || response.writableEnded || socket.destroyed) return;
  if (response.headersSent) {
    if (!socket.writableNeedDrain) streams.get(response)?.();
  } else if (response.req.httpVersion === '1.0') {
    // It has no interim responses: nothing can be sent before the response itself.
    socket.destroy();
    return;
  } else response.writeProcessing();
  setTimeout(() => probe(socket, current), PROBE_MS).unref();
}
