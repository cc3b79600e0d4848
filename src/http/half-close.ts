import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';

/** Interval between probes of a half-closed connection, in milliseconds. */
const PROBE_MS = 100;

/** Functions that write a comment to a streamed response. */
const probes = new WeakMap<ServerResponse, () => void>();

/**
 * Serves clients that close their side of a connection after sending the complete request. A disconnected client
 * looks the same, so the connection is probed with bytes that clients ignore. If the client has disconnected, its
 * operating system rejects them, which closes the response like any other disconnect. `current` returns the pending
 * response of a connection.
 */
export function serveHalfClosed(server: Server, current: (socket: Socket) => ServerResponse | null): void {
  // This public property is missing from Node's types. Without it, Node ends the connection at once (`socketOnEnd` in
  // lib/_http_server.js).
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = true;
  server.on('connection', (socket: Socket) => socket.once('end', () => probe(socket, current)));
}

/** Sets how the connection of a streamed response is probed: `write` sends a comment. */
export function probeStreamWith(response: ServerResponse, write: () => void): void {
  probes.set(response, write);
}

/**
 * Probes the connection until its response is complete. The operating system of a disconnected client rejects the
 * first bytes, and the next write fails.
 */
function probe(socket: Socket, current: (socket: Socket) => ServerResponse | null): void {
  const response = current(socket);
  if (response === null || response.writableEnded || socket.destroyed) return;
  if (response.headersSent) {
    if (!socket.writableNeedDrain) probes.get(response)?.();
  } else if (response.req.httpVersion === '1.0') {
    // HTTP/1.0 has no interim responses, so the connection cannot be probed.
    socket.destroy();
    return;
  } else response.writeProcessing();
  setTimeout(() => probe(socket, current), PROBE_MS).unref();
}
