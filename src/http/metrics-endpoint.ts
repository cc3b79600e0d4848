import type { AddressInfo } from 'node:net';
import type { FastifyInstance } from 'fastify';
import type { ConfigFile } from '../config/schema.ts';
import { watchConnections } from '../support/connection-watch.ts';
import type { Log } from '../support/log.ts';
import type { HttpContext } from './context.ts';
import { acceptKey, invalidKey } from './authenticate.ts';
import { operatorRequired } from './api/access.ts';
import { commonHeaders, takeOver } from './exchange.ts';
import type { ServiceMetrics } from './service-metrics.ts';
import { messageOf } from '../support/thrown.ts';

// An `import` would read all properties of the module, and one of them loads Node's `fetch`.
const { createServer } = process.getBuiltinModule('node:http');

const CONTENT_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

/** Connections to `metrics.port`, which needs few. */
const MAX_CONNECTIONS = 16;

/** Timeouts of these connections, in milliseconds. */
const REQUEST_MS = 10_000;
const IDLE_MS = 5000;

/** `GET /metrics`, for admin keys, even while the service is stopping. */
export function registerMetrics(app: FastifyInstance, context: HttpContext): void {
  app.get('/metrics', { onRequest: acceptKey(context) }, (request, reply) => {
    const { caller } = request;
    if (caller === null) throw invalidKey(undefined);
    if (caller.kind !== 'admin') throw operatorRequired('This endpoint');
    const exchange = takeOver(request, reply);
    const text = context.metrics.expose();
    const headers = [...commonHeaders(exchange), 'content-type', CONTENT_TYPE];
    exchange.response.writeHead(200, [...headers, 'content-length', String(Buffer.byteLength(text))]);
    exchange.response.end(text);
  });
}

/** `metrics.port` cannot be used. */
export class MetricsListenError extends Error {
  constructor(host: string, port: number, cause: unknown) {
    super(
      `Cannot serve metrics on ${host}, port ${port}: ${messageOf(cause)}. Check metrics.host and metrics.port.`,
      { cause },
    );
    this.name = 'MetricsListenError';
  }
}

/** The server of `metrics.port`, which is listening. */
export interface MetricsServer extends AsyncDisposable {
  readonly url: string;
}

/**
 * Serves `GET /metrics` on `metrics.port`, without authentication. Resolves to null if it is not set. Rejects with a
 * `MetricsListenError`.
 */
export async function serveMetrics(
  { metrics: { host, port }, stream: { stallMs } }: Pick<ConfigFile, 'metrics' | 'stream'>,
  metrics: ServiceMetrics,
  log: Log,
): Promise<MetricsServer | null> {
  if (port === undefined) return null;
  const server = createServer({ maxHeaderSize: 8192 }, (request, response) => {
    const { method, url } = request;
    const isKnown = url === '/metrics' || url?.startsWith('/metrics?') === true;
    if (isKnown && (method === 'GET' || method === 'HEAD')) {
      const text = metrics.expose();
      response.writeHead(200, {
        'content-type': CONTENT_TYPE,
        'content-length': Buffer.byteLength(text),
      });
      response.end(text);
    } else {
      response.writeHead(isKnown ? 405 : 404, { 'content-type': 'text/plain' });
      response.end('Only GET /metrics is served here.\n');
    }
  });
  const bounds = { max: MAX_CONNECTIONS, isProxy: () => false };
  watchConnections(server, { requestMs: REQUEST_MS, stallMs, idleMs: IDLE_MS, bounds }, (socket) =>
    socket.destroy(),
  );
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(new MetricsListenError(host, port, error)));
    server.listen(port, host, resolve);
  });
  // A server that listens on a port has an address of this type.
  const { address, family, port: listening } = server.address() as AddressInfo;
  const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${listening}/metrics`;
  log.info('serving metrics', { url });
  return {
    url,
    async [Symbol.asyncDispose]() {
      const closed = new Promise((done) => server.close(done));
      server.closeAllConnections();
      await closed;
    },
  };
}
