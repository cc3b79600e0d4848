import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

export interface ReceivedWebhook {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  /** The parsed body. */
  json: { type: string; text?: string; data: Record<string, unknown> };
}

export interface WebhookReceiver extends AsyncDisposable {
  url: string;
  received: ReceivedWebhook[];
  /** How it responds from now on. Default: with 204. */
  respond: (response: ServerResponse) => void;
}

/** Starts an HTTP server that stores the webhooks it receives. */
export async function startWebhookReceiver(): Promise<WebhookReceiver> {
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const json = JSON.parse(body) as ReceivedWebhook['json'];
      receiver.received.push({ path: request.url ?? '', headers: request.headers, body, json });
      receiver.respond(response);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const receiver: WebhookReceiver = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received: [],
    respond: (response) => response.writeHead(204).end(),
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((closed) => server.close(closed));
    },
  };
  return receiver;
}
