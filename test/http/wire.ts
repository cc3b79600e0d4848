import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { ERRORS, errorType, type ErrorCode } from '../../src/core/errors.ts';

/** A response as it was sent. */
export interface WireResponse {
  status: number;
  statusLine: string;
  /** In their order and case. */
  headers: readonly (readonly [name: string, value: string])[];
  /** Returns a header by its lowercase name; null: none. */
  header(name: string): string | null;
  body: string;
  /** The chunks of the body; null: not chunked. */
  chunks: readonly string[] | null;
}

/** A raw HTTP/1.1 connection, which shows what client libraries hide. */
export class Wire implements Disposable {
  readonly socket: Socket;
  #received: Buffer = Buffer.alloc(0);
  #ended = false;
  #wake: () => void = () => {};

  private constructor(socket: Socket) {
    this.socket = socket;
    socket.on('data', (bytes: Buffer) => {
      this.#received = Buffer.concat([this.#received, bytes]);
      this.#wake();
    });
    for (const event of ['end', 'close', 'error']) {
      socket.on(event, () => {
        this.#ended = true;
        this.#wake();
      });
    }
  }

  /** Connects to the host and port of a URL. */
  static async open(url: string): Promise<Wire> {
    const { hostname, port } = new URL(url);
    const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true });
    await once(socket, 'connect');
    return new Wire(socket);
  }

  send(bytes: string | Uint8Array): this {
    this.socket.write(bytes);
    return this;
  }

  /** Reads a whole response. Rejects if the connection ends within it. */
  async response(method = 'GET'): Promise<WireResponse> {
    const head = await this.head();
    if (method === 'HEAD' || head.status === 204 || head.status < 200) return head;
    if (head.header('transfer-encoding') === 'chunked') {
      const chunks: string[] = [];
      for (let chunk = await this.chunk(); chunk !== null; chunk = await this.chunk()) chunks.push(chunk);
      return { ...head, chunks, body: chunks.join('') };
    }
    const length = head.header('content-length');
    if (length === null) throw new Error(`the response has neither length nor chunks: ${head.statusLine}`);
    return { ...head, body: (await this.#take(Number(length))).toString() };
  }

  /** Reads only the status line and the headers. */
  async head(): Promise<WireResponse> {
    const text = (await this.#takeThrough('\r\n\r\n')).toString();
    const [statusLine = '', ...lines] = text.slice(0, -4).split('\r\n');
    const headers = lines.map((line) => {
      const colon = line.indexOf(': ');
      return [line.slice(0, colon), line.slice(colon + 2)] as const;
    });
    const header = (name: string) => headers.find(([written]) => written.toLowerCase() === name)?.[1] ?? null;
    const status = Number(statusLine.split(' ')[1]);
    return { status, statusLine, headers, header, body: '', chunks: null };
  }

  /** Reads one chunk of a chunked body; null at its end. */
  async chunk(): Promise<string | null> {
    const size = Number.parseInt((await this.#takeThrough('\r\n')).toString(), 16);
    const bytes = await this.#take(size + 2);
    if (bytes.subarray(size).toString() !== '\r\n') throw new Error('a chunk does not end at its length');
    return size === 0 ? null : bytes.subarray(0, size).toString();
  }

  /** Reads the rest of a chunked body. */
  async restOfBody(): Promise<string> {
    let text = '';
    for (let chunk = await this.chunk(); chunk !== null; chunk = await this.chunk()) text += chunk;
    return text;
  }

  /** Returns unread bytes once the server has closed its side or the connection. */
  async rest(): Promise<string> {
    while (!this.#ended) await this.#more();
    return this.#received.toString();
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }

  async #takeThrough(mark: string): Promise<Buffer> {
    for (;;) {
      const at = this.#received.indexOf(mark);
      if (at !== -1) return this.#take(at + mark.length);
      await this.#moreOrFail();
    }
  }

  async #take(length: number): Promise<Buffer> {
    while (this.#received.length < length) await this.#moreOrFail();
    const taken = this.#received.subarray(0, length);
    this.#received = this.#received.subarray(length);
    return taken;
  }

  async #moreOrFail(): Promise<void> {
    if (this.#ended)
      throw new Error(`the connection ended after ${JSON.stringify(this.#received.toString())}`);
    await this.#more();
  }

  #more(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }
}

/** Sends a request on a new connection and reads the response. */
export async function exchange(
  url: string,
  request: string | Uint8Array,
  method?: string,
): Promise<WireResponse> {
  using wire = await Wire.open(url);
  return await wire.send(request).response(method);
}

/** Asserts that a stream ends with this error and `[DONE]`, and returns the completion tokens of the error frame. */
export function assertEndsWith(stream: string, code: ErrorCode): number {
  const frames = stream.split('\n\n');
  assert.deepEqual(frames.slice(-2), ['data: [DONE]', ''], stream);
  const { error, usage } = JSON.parse((frames.at(-3) ?? '').slice('data: '.length)) as {
    error?: { code: string };
    usage?: { completion_tokens: number };
  };
  assert.equal(error?.code, code, stream);
  return usage?.completion_tokens ?? NaN;
}

/** Builds a request. An object becomes a JSON body with its `Content-Length`. */
export function requestText(
  start: string,
  headers: Readonly<Record<string, string>> = {},
  body: string | object = '',
): string {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  const lines = Object.entries({ Host: 'sluice.test', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  const length = text === '' ? '' : `Content-Length: ${Buffer.byteLength(text)}\r\n`;
  return `${start} HTTP/1.1\r\n${lines.join('')}${length}\r\n${text}`;
}

/** Headers that Node adds. */
const IGNORED_HEADERS = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding']);

/** Formats a response for comparison, with varying values masked. */
export function transcript(response: WireResponse): string {
  const headers = response.headers.filter(([name]) => !IGNORED_HEADERS.has(name.toLowerCase()));
  const lines = [response.statusLine, ...headers.map(([name, value]) => `${name}: ${value}`)];
  return mask(`${lines.join('\n')}\n\n${response.body}`);
}

/**
 * Masks IDs, times, remaining limits and waits. Also masks the `content-length` of a body with a wait, which has a
 * variable length.
 */
export function mask(text: string): string {
  const waits = text.includes('Try again in ');
  return (waits ? text.replace(/^content-length: \d+$/m, 'content-length: <length>') : text)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g, '<uuid>')
    .replaceAll(/\b(chatcmpl|cmpl)-[0-9a-f]{32}\b/g, '$1-<id>')
    .replaceAll(/\bcall_[0-9a-f]{24}\b/g, 'call_<id>')
    .replaceAll(/\b(resp|msg|rs|fc|ctc)_[0-9a-f]{32}(\d*)\b/g, '$1_<id>$2')
    .replaceAll(/"signature":"[\w-]+"/g, '"signature":"<signature>"')
    .replaceAll(/"(created|created_at|completed_at)":\d{10}\b/g, '"$1":<time>')
    .replaceAll(/^(x-ratelimit-remaining-\w+|anthropic-ratelimit-\w+-remaining): \d+$/gm, '$1: <left>')
    .replaceAll(/^(x-ratelimit-reset-\w+): [\dhms.]+$/gm, '$1: <duration>')
    .replaceAll(/Try again in [\dhms.]+\./g, 'Try again in <duration>.')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z/g, '<time>')
    .replaceAll(/^(retry-after): (?!1$)\d+$/gm, '$1: <seconds>')
    .replaceAll(/^(retry-after-ms): (?!1000$)\d+$/gm, '$1: <milliseconds>');
}

/** Asserts that a response is this error, with the status and type of the table and the four fields in order. */
export function assertError(
  response: { status: number; body: string },
  code: ErrorCode,
  param: string | null = null,
): void {
  const { error } = JSON.parse(response.body) as { error: { message: string } };
  const [status] = ERRORS[code];
  const type = errorType(status);
  const { message } = error;
  assert.equal(response.body, JSON.stringify({ error: { message, type, param, code } }));
  assert.equal(response.status, status);
  assert.ok(message.length > 0);
}
