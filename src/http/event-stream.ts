import type { ServerResponse } from 'node:http';
import { KEEP_ALIVE } from '../openai/stream.ts';
import type { WriteQueue } from '../write-queue.ts';

export interface EventStreamOptions {
  /** How long the status waits for the engine's word, in milliseconds. */
  holdMs: number;
  /** Silence after which a comment is sent, in milliseconds. */
  keepAliveMs: number;
}

const HEADERS = [
  'content-type',
  'text/event-stream; charset=utf-8',
  'cache-control',
  'no-cache',
  'x-accel-buffering',
  'no',
];

/**
 * Server-sent events on one response. The status goes out with the first frame, or after `holdMs`; from then on
 * a comment follows each `keepAliveMs` of silence. What a slow caller has not read is bounded by the socket's
 * high-water mark and the frames of one turn; the connection watch ends one that reads nothing.
 *
 * The frames of one turn of the event loop leave as one chunk in one write. `ServerResponse.write` makes four
 * buffers and a `writev` of each chunk, which is most of what a token costs a proxy; so once the headers are out
 * the chunk is framed here and given to the socket. The response still begins and ends the body.
 */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #headers: () => string[];
  readonly #options: EventStreamOptions;
  readonly #writes: WriteQueue;
  #opened = false;
  /** Whether the headers have been given to the socket, so that chunks may follow them there. */
  #flushed = false;
  /** Frames of this turn of the event loop. */
  #pending = '';
  /** Waits for the engine's word, then for each silence. */
  #silence: NodeJS.Timeout;
  #wroteAtMs = 0;

  constructor(
    response: ServerResponse,
    headers: () => string[],
    options: EventStreamOptions,
    writes: WriteQueue,
  ) {
    this.#response = response;
    this.#headers = headers;
    this.#options = options;
    this.#writes = writes;
    this.#silence = setTimeout(() => {
      void this.write(KEEP_ALIVE);
    }, options.holdMs);
  }

  /** Whether the 200 has gone out, so that an error can only be told in a frame. */
  get opened(): boolean {
    return this.#opened;
  }

  /** Sends the 200 now, once. */
  open(): void {
    if (this.#opened) return;
    this.#head();
    this.#response.flushHeaders();
    this.#flushed = this.#response.socket !== null;
  }

  /** Writes whole frames. A promise comes back only where the caller must read first; await it before the next. */
  write(frames: string): Promise<void> | null {
    if (!this.#opened) this.#head();
    this.#wroteAtMs = performance.now();
    if (this.#pending === '') this.#writes.add(this);
    this.#pending += frames;
    return this.#response.socket?.writableNeedDrain ? this.#drained() : null;
  }

  /** Writes the last frames and ends the response. */
  end(frames: string): void {
    if (!this.#opened) this.#head();
    this.#response.end(this.#pending + frames);
    this.#pending = '';
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#silence);
  }

  /** The status line and headers, to leave with the first bytes that follow. */
  #head(): void {
    this.#opened = true;
    this.#response.writeHead(200, [...HEADERS, ...this.#headers()]);
    this.#awaitSilence(this.#options.keepAliveMs);
  }

  /** A timer that each write pushed back would cost a token more than a look at the clock does. */
  #awaitSilence(forMs: number): void {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#keepAlive(), forMs);
  }

  #keepAlive(): void {
    if (this.#response.writableEnded || this.#response.destroyed) return;
    const { keepAliveMs } = this.#options;
    const leftMs = this.#wroteAtMs + keepAliveMs - performance.now();
    if (leftMs <= 0 && !this.#response.socket?.writableNeedDrain) void this.write(KEEP_ALIVE);
    this.#awaitSilence(leftMs > 0 ? leftMs : keepAliveMs);
  }

  /** Sends what was written in this turn. */
  flush(): void {
    const frames = this.#pending;
    const response = this.#response;
    const { socket } = response;
    if (frames === '' || response.writableEnded || response.destroyed) return;
    this.#pending = '';
    // Before the headers are out, and while an earlier answer of a pipelining client has the socket, only the
    // response knows what goes first.
    if (!this.#flushed || socket === null || !response.chunkedEncoding) {
      this.#flushed = socket !== null;
      response.write(frames);
      return;
    }
    const bytes = Buffer.byteLength(frames);
    const ascii = bytes === frames.length;
    socket.write(`${bytes.toString(16)}\r\n${frames}\r\n`, ascii ? 'latin1' : 'utf8');
  }

  #drained(): Promise<void> {
    const response = this.#response;
    const { socket } = response;
    return new Promise((resolve) => {
      const done = () => {
        socket?.off('drain', done);
        response.off('close', done);
        resolve();
      };
      socket?.once('drain', done);
      response.once('close', done);
    });
  }
}
