import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';

/** A comment that keeps proxies and clients from timing out. It is not an event. */
export const KEEP_ALIVE = ': keep-alive\n\n';

export interface EventStreamOptions {
  /** Sends the status after this many milliseconds even without an event; null waits for the first event. */
  holdMs: number | null;
  /** Silence after which a keep-alive comment is sent, in milliseconds. */
  keepAliveMs: number;
  /** Suppresses keep-alive comments while it returns false. */
  alive?: () => boolean;
}

const HEADERS = [
  'content-type',
  'text/event-stream; charset=utf-8',
  'cache-control',
  'no-cache',
  'x-accel-buffering',
  'no',
];

/** Frames of one turn of the event loop are sent early when they are longer than this, in characters. */
const PENDING_LIMIT = 65_536;

/**
 * Flushes the streams of one server that were written to in this turn of the event loop, after the turn has read
 * all its input. This makes a token a tenth cheaper than alternating reads and writes, and the frames that a
 * stream wrote in one turn leave as one chunk.
 */
export class WriteQueue {
  #streams: EventStream[] = [];

  /** Flushes the stream at the end of this turn. */
  add(stream: EventStream): void {
    if (this.#streams.length === 0) setImmediate(this.#flush);
    this.#streams.push(stream);
  }

  readonly #flush = (): void => {
    const streams = this.#streams;
    this.#streams = [];
    for (const stream of streams) stream.flush();
  };
}

/**
 * Sends server-sent events on one response. The status leaves with the first frame, or after `holdMs`; from then
 * on a comment follows each `keepAliveMs` of silence. Unread data is bounded by the high-water mark and the frames
 * of one turn; the connection watch closes a connection whose client reads nothing.
 *
 * `ServerResponse.write` makes four buffers and a `writev` of each chunk, which is most of the cost of a token in a
 * proxy. So after the headers, each chunk is framed here and written to the socket in one write.
 */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #writes: WriteQueue;
  readonly #options: EventStreamOptions;
  readonly #headers: () => string[];
  #opened = false;
  /** Whether chunks may be written to the socket, past the response. */
  #direct = false;
  /** Frames of this turn of the event loop. */
  #pending = '';
  /** Runs out at the end of the hold, then at the end of each silence. */
  #timer: NodeJS.Timeout | undefined;
  #wroteAtMs = -Infinity;

  /** `headers` returns further headers, as names and values in turn, when the status is sent. */
  constructor(
    response: ServerResponse,
    writes: WriteQueue,
    options: EventStreamOptions,
    headers: () => string[] = () => [],
  ) {
    this.#response = response;
    this.#writes = writes;
    this.#options = options;
    this.#headers = headers;
    if (options.holdMs !== null) this.#timer = setTimeout(() => void this.write(KEEP_ALIVE), options.holdMs);
  }

  /** Whether the 200 has been sent, so that an error can only be reported in a frame. */
  get opened(): boolean {
    return this.#opened;
  }

  /**
   * Writes whole frames, or the status alone when there are none. Returns a promise only if the client must read
   * first; await it before the next write. It also resolves when the connection closes.
   */
  write(frames: string): Promise<void> | null {
    if (frames === '') {
      this.#open();
      return null;
    }
    if (!this.#opened) this.#writeHead();
    this.#wroteAtMs = performance.now();
    if (this.#pending === '') this.#writes.add(this);
    this.#pending += frames;
    if (this.#pending.length > PENDING_LIMIT) this.flush();
    const full = this.#full;
    return full && this.#drained(full);
  }

  /** Writes the last frames and ends the response. */
  end(frames: string): void {
    if (!this.#opened) this.#writeHead();
    this.#response.end(this.#pending + frames);
    this.#pending = '';
  }

  /** Sends the frames of this turn. For the write queue. */
  flush(): void {
    const frames = this.#pending;
    const response = this.#response;
    const { socket } = response;
    if (frames === '' || response.writableEnded || response.destroyed) return;
    this.#pending = '';
    // A response is corked until the end of the tick in which it wrote a chunk.
    if (!this.#direct || socket === null || response.writableCorked > 0) {
      response.write(frames);
      this.#headersWritten();
      return;
    }
    const bytes = Buffer.byteLength(frames);
    const ascii = bytes === frames.length;
    socket.write(`${bytes.toString(16)}\r\n${frames}\r\n`, ascii ? 'latin1' : 'utf8');
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  #open(): void {
    if (this.#opened) return;
    this.#writeHead();
    this.#response.flushHeaders();
    this.#headersWritten();
  }

  /** Writes the status line and headers, which leave with the first bytes that follow. */
  #writeHead(): void {
    this.#opened = true;
    this.#response.writeHead(200, [...HEADERS, ...this.#headers()]);
    this.#awaitSilence(this.#options.keepAliveMs);
  }

  /**
   * The response has no socket while an earlier response of a pipelining client uses it, HTTP/1.0 has no chunks, and
   * the scripted engine replaces `write` to inject faults.
   */
  #headersWritten(): void {
    const response = this.#response;
    this.#direct = response.socket !== null && response.chunkedEncoding && !Object.hasOwn(response, 'write');
  }

  /** The one whose buffer is full, of the response and its socket. A corked response holds its chunks back. */
  get #full(): Writable | null {
    const response = this.#response;
    if (response.writableNeedDrain) return response;
    return response.socket?.writableNeedDrain ? response.socket : null;
  }

  /** Reading the clock once per write is cheaper than postponing a timer. */
  #awaitSilence(forMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#keepAlive(), forMs);
  }

  #keepAlive(): void {
    if (this.#response.writableEnded || this.#response.destroyed) return;
    const { keepAliveMs, alive } = this.#options;
    const leftMs = this.#wroteAtMs + keepAliveMs - performance.now();
    if (leftMs <= 0 && this.#full === null && alive?.() !== false) void this.write(KEEP_ALIVE);
    this.#awaitSilence(leftMs > 0 ? leftMs : keepAliveMs);
  }

  #drained(output: Writable): Promise<void> {
    const response = this.#response;
    return new Promise((resolve) => {
      const done = () => {
        output.off('drain', done);
        response.off('close', done);
        resolve();
      };
      output.once('drain', done);
      response.once('close', done);
    });
  }
}
