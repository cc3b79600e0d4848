import assert from 'node:assert/strict';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

interface Attribute {
  key: string;
  value: Record<string, unknown>;
}

export interface ReceivedSpan {
  traceId: string;
  spanId: string;
  parentSpanId?: string;
  name: string;
  kind: number;
  startTimeUnixNano: string;
  endTimeUnixNano: string;
  attributes: Attribute[];
  status: { code?: number };
}

/** The body of a request of OTLP/HTTP in JSON. */
interface ExportRequest {
  resourceSpans: {
    resource: { attributes: Attribute[] };
    scopeSpans: { spans: ReceivedSpan[] }[];
  }[];
}

export interface Receiver extends AsyncDisposable {
  url: string;
  /** The headers of each request. */
  headers: IncomingHttpHeaders[];
  /** The texts of the accepted bodies. */
  bodies: string[];
  spans(): ReceivedSpan[];
  resource(): Map<string, unknown>;
}

/** Starts an OTLP/HTTP receiver, which responds to its first requests with these statuses, then with 200. */
export async function startReceiver(statuses: readonly number[] = []): Promise<Receiver> {
  const headers: IncomingHttpHeaders[] = [];
  const bodies: string[] = [];
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      assert.equal(`${request.method} ${request.url}`, 'POST /v1/traces');
      assert.equal(request.headers['content-type'], 'application/json');
      const status = statuses[headers.length] ?? 200;
      headers.push(request.headers);
      if (status === 200) bodies.push(body);
      response.writeHead(status, { 'content-type': 'application/json' }).end('{}');
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  // A server that listens on a port has an address of this type.
  const { port } = server.address() as AddressInfo;
  const requests = () => bodies.map((body) => JSON.parse(body) as ExportRequest);
  return {
    url: `http://127.0.0.1:${port}`,
    headers,
    bodies,
    spans: () =>
      requests().flatMap(({ resourceSpans }) =>
        resourceSpans.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans)),
      ),
    resource: () => attributesOf(requests()[0]?.resourceSpans[0]?.resource.attributes ?? []),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Returns the values of attributes by name. */
export function attributesOf(attributes: readonly Attribute[]): Map<string, unknown> {
  return new Map(
    attributes.map(({ key, value }) => {
      const [[type, plain] = ['', null]] = Object.entries(value);
      if (type === 'intValue') return [key, Number(plain)];
      return [key, plain];
    }),
  );
}
