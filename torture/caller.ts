import { Agent, request, type ClientRequest, type IncomingMessage } from 'node:http';
import type { Ending, Entry, Wish } from './books.ts';
import { AnswerInParts, readWhole } from './answer.ts';

/** How long a caller waits for its whole answer, in milliseconds: longer than any single fault lasts. */
const PATIENCE_MS = 20_000;

const agent = new Agent({ keepAlive: true, maxSockets: 256 });

/**
 * Sends one request and writes down what became of it. Nothing is sent twice. Never rejects.
 */
export function call(url: string, wish: Wish): Promise<Entry> {
  return new Exchange(url, wish).ended;
}

/** One request and its answer, as its caller sees them. */
class Exchange {
  readonly ended: Promise<Entry>;
  readonly #wish: Wish;
  readonly #sentAt = Date.now();
  readonly #request: ClientRequest;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #resolve: (entry: Entry) => void;
  #answer: AnswerInParts | null = null;
  #response: IncomingMessage | null = null;
  #over = false;

  constructor(url: string, wish: Wish) {
    this.#wish = wish;
    const { promise, resolve } = Promise.withResolvers<Entry>();
    this.ended = promise;
    this.#resolve = resolve;
    this.#request = request(`${url}/v1/${wish.endpoint === 'chat' ? 'chat/completions' : 'completions'}`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${wish.caller.key}`,
        'content-type': 'application/json',
        'x-client-request-id': wish.clientRequestId,
      },
    });
    this.#request.once('response', (response) => this.#receive(response));
    this.#request.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED') this.#end({ how: 'unreached' });
      else this.#end({ how: 'lost', why: error.code ?? error.message });
    });
    this.#send();
    this.#hangUpAfter(PATIENCE_MS);
    if (wish.hangUp && 'afterMs' in wish.hangUp) this.#hangUpAfter(wish.hangUp.afterMs);
  }

  #send(): void {
    const { paddingBytes = 0, betweenHalvesMs = 0 } = this.#wish.manner ?? {};
    const body = JSON.stringify(this.#wish.body) + ' '.repeat(paddingBytes);
    if (betweenHalvesMs === 0) {
      this.#request.end(body);
      return;
    }
    const half = body.length / 2;
    this.#request.setHeader('content-length', body.length);
    this.#request.write(body.slice(0, half));
    this.#timers.push(setTimeout(() => this.#request.end(body.slice(half)), betweenHalvesMs));
  }

  #hangUpAfter(ms: number): void {
    this.#timers.push(setTimeout(() => this.#hangUp(), ms));
  }

  #hangUp(): void {
    this.#end({ how: 'hung-up' });
    this.#request.destroy();
  }

  #receive(response: IncomingMessage): void {
    const { readAfterMs = 0 } = this.#wish.manner ?? {};
    this.#response = response;
    response.setEncoding('utf8');
    // An answer that breaks off is an error, then a close; the request tells it again.
    response.on('error', () => {});
    response.once('close', () => this.#end({ how: 'lost', why: 'the answer broke off' }));
    if (readAfterMs === 0) this.#read(response);
    else this.#timers.push(setTimeout(() => this.#read(response), readAfterMs));
  }

  #read(response: IncomingMessage): void {
    if (this.#wish.streamed && response.statusCode === 200) this.#readStream(response);
    else this.#readBody(response);
  }

  #readStream(response: IncomingMessage): void {
    const { hangUp } = this.#wish;
    const answer = new AnswerInParts(this.#wish);
    this.#answer = answer;
    const enough = hangUp && 'afterTokens' in hangUp ? hangUp.afterTokens : Infinity;
    if (enough === 0) this.#hangUp();
    response.on('data', (text: string) => {
      if (this.#over) return;
      answer.push(text);
      if (answer.received >= enough && answer.ending === null) this.#hangUp();
    });
    // What `[DONE]` promised holds only when the answer has ended as HTTP says it does.
    response.once('end', () => {
      this.#end(answer.ending ?? { how: 'lost', why: 'the stream ended without [DONE]' });
    });
  }

  #readBody(response: IncomingMessage): void {
    let body = '';
    response.on('data', (text: string) => (body += text));
    response.once('end', () => {
      // A broken connection ends the data as well.
      if (response.complete) this.#end(readWhole(response.statusCode ?? 0, body));
    });
  }

  #end(ending: Ending): void {
    if (this.#over) return;
    this.#over = true;
    for (const timer of this.#timers) clearTimeout(timer);
    // Refused before its whole body was sent.
    if (!this.#request.writableEnded) this.#request.destroy();
    const id = this.#response?.headers['x-request-id'];
    this.#resolve({
      wish: this.#wish,
      requestId: typeof id === 'string' ? id : null,
      status: this.#response?.statusCode ?? null,
      received: this.#answer?.received ?? 0,
      ending,
      sentAt: this.#sentAt,
      endedAt: Date.now(),
    });
  }
}
