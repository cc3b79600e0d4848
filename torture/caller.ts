import { Agent, request as httpRequest, type ClientRequest, type IncomingMessage } from 'node:http';
import type { ResponseOutcome, RequestRecord, TortureRequest } from './records.ts';
import { parseBody, StreamParser } from './response.ts';

/** Timeout of a request, in milliseconds, besides the time until it is read; longer than any fault. */
const TIMEOUT_MS = 20_000;

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/** Sends a request, without retries, and resolves with its record. Never rejects. */
export function call(url: string, request: TortureRequest): Promise<RequestRecord> {
  return new Exchange(url, request).ended;
}

class Exchange {
  readonly ended: Promise<RequestRecord>;
  readonly #request: TortureRequest;
  readonly #sentAt = Date.now();
  readonly #clientRequest: ClientRequest;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #resolve: (record: RequestRecord) => void;
  #stream: StreamParser | null = null;
  #response: IncomingMessage | null = null;
  #ended = false;

  constructor(url: string, request: TortureRequest) {
    this.#request = request;
    const { promise, resolve } = Promise.withResolvers<RequestRecord>();
    this.ended = promise;
    this.#resolve = resolve;
    const path = request.endpoint === 'chat' ? 'chat/completions' : 'completions';
    this.#clientRequest = httpRequest(`${url}/v1/${path}`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${request.caller.key}`,
        'content-type': 'application/json',
        'x-client-request-id': request.clientRequestId,
      },
    });
    this.#clientRequest.once('response', (response) => this.#receive(response));
    this.#clientRequest.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') this.#end({ kind: 'not-sent' });
      else this.#end({ kind: 'connection-lost', reason: error.code ?? error.message });
    });
    this.#send();
    this.#disconnectAfter(TIMEOUT_MS + (request.pacing?.readAfterMs ?? 0));
    if (request.disconnect && 'afterMs' in request.disconnect)
      this.#disconnectAfter(request.disconnect.afterMs);
  }

  #send(): void {
    const { paddingBytes = 0, betweenHalvesMs = 0 } = this.#request.pacing ?? {};
    const body = JSON.stringify(this.#request.body) + ' '.repeat(paddingBytes);
    if (betweenHalvesMs === 0) {
      this.#clientRequest.end(body);
      return;
    }
    const half = body.length / 2;
    this.#clientRequest.setHeader('content-length', body.length);
    this.#clientRequest.write(body.slice(0, half));
    this.#timers.push(setTimeout(() => this.#clientRequest.end(body.slice(half)), betweenHalvesMs));
  }

  #disconnectAfter(ms: number): void {
    this.#timers.push(setTimeout(() => this.#disconnect(), ms));
  }

  #disconnect(): void {
    this.#end({ kind: 'aborted' });
    this.#clientRequest.destroy();
  }

  #receive(response: IncomingMessage): void {
    const { readAfterMs = 0 } = this.#request.pacing ?? {};
    this.#response = response;
    response.setEncoding('utf8');
    // An incomplete response emits an error and then `close`.
    response.on('error', () => {});
    response.once('close', () => {
      this.#end({ kind: 'connection-lost', reason: 'the response was incomplete' });
    });
    if (readAfterMs === 0) this.#read(response);
    else this.#timers.push(setTimeout(() => this.#read(response), readAfterMs));
  }

  #read(response: IncomingMessage): void {
    if (this.#request.streamed && response.statusCode === 200) this.#readStream(response);
    else this.#readBody(response);
  }

  #readStream(response: IncomingMessage): void {
    const { disconnect } = this.#request;
    const stream = new StreamParser(this.#request);
    this.#stream = stream;
    const maxTokens = disconnect && 'afterTokens' in disconnect ? disconnect.afterTokens : Infinity;
    if (maxTokens === 0) this.#disconnect();
    response.on('data', (text: string) => {
      if (this.#ended) return;
      stream.push(text);
      if (stream.received >= maxTokens && stream.outcome === null) this.#disconnect();
    });
    // A stream is complete only if the HTTP response is too.
    response.once('end', () => {
      this.#end(stream.outcome ?? { kind: 'connection-lost', reason: 'the stream ended without [DONE]' });
    });
  }

  #readBody(response: IncomingMessage): void {
    let body = '';
    response.on('data', (text: string) => (body += text));
    response.once('end', () => {
      // `end` is also emitted if the connection is lost.
      if (response.complete) this.#end(parseBody(response.statusCode ?? 0, body));
    });
  }

  #end(outcome: ResponseOutcome): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const timer of this.#timers) clearTimeout(timer);
    // The request was refused before its body was sent completely.
    if (!this.#clientRequest.writableEnded) this.#clientRequest.destroy();
    const id = this.#response?.headers['x-request-id'];
    this.#resolve({
      request: this.#request,
      requestId: typeof id === 'string' ? id : null,
      status: this.#response?.statusCode ?? null,
      received: this.#stream?.received ?? 0,
      outcome,
      sentAt: this.#sentAt,
      endedAt: Date.now(),
    });
  }
}
