import type { ServerResponse } from 'node:http';
import type { Writable } from 'node:stream';

/** The media type of server-sent events. */
const EVENT_STREAM = 'text/event-stream; charset=utf-8';

/** A comment that keeps proxies and clients from timing out. It is not an event. */
export const KEEP_ALIVE = ': keep-alive\n\n';

/** Copies a concatenated string for many frames: V8 keeps it as a tree, which every write of a frame would traverse. */
export function flatten(text: string): string {
  return Buffer.from(text).toString();
}

export interface KeepAliveOptions {
  /**
   * Time after which the first keep-alive is sent, in milliseconds, if the stream has not begun. If null, the stream waits
   * for its first event.
   */
  holdMs: number | null;
  /** Time without data after which a keep-alive is sent, in milliseconds. */
  keepAliveMs: number;
  /** Returns the frames of a keep-alive. */
  keepAlive: () => string;
  /** While this returns false, no keep-alives are sent. Default: always true. */
  alive?: () => boolean;
}

export interface EventStreamOptions {
  /** Null: those that write the stream also write its keep-alives. */
  keepAlives: KeepAliveOptions | null;
  /** Default: the content type of server-sent events. */
  contentType?: string;
}

/** Writes keep-alives to a stream while it has nothing else to send. */
export class KeepAlives implements Disposable {
  readonly #options: KeepAliveOptions;
  readonly #write: (frames: string) => void;
  /** Runs for `holdMs`, then for `keepAliveMs`. */
  #timer: NodeJS.Timeout | undefined;
  #wroteAtMs = -Infinity;

  constructor(options: KeepAliveOptions, write: (frames: string) => void) {
    this.#options = options;
    this.#write = write;
    if (options.holdMs !== null) this.#timer = setTimeout(this.#hold, options.holdMs);
  }

  /** Tells that the stream has begun. */
  begin(): void {
    this.#schedule(this.#options.keepAliveMs);
  }

  /** Tells that data was written. The timer is not restarted, because that costs more than recording the time. */
  wrote(): void {
    this.#wroteAtMs = performance.now();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }

  readonly #hold = (): void => {
    const { holdMs, alive, keepAlive } = this.#options;
    if (alive?.() !== false) this.#write(keepAlive());
    else if (holdMs !== null) this.#timer = setTimeout(this.#hold, holdMs);
  };

  #schedule(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#keepAlive(), ms);
  }

  #keepAlive(): void {
    const { keepAliveMs, alive, keepAlive } = this.#options;
    const leftMs = this.#wroteAtMs + keepAliveMs - performance.now();
    if (leftMs <= 0 && alive?.() !== false) this.#write(keepAlive());
    this.#schedule(leftMs > 0 ? leftMs : keepAliveMs);
  }
}

const HEADERS = ['cache-control', 'no-cache', 'x-accel-buffering', 'no'];

/**
 * Maximum total length of the frames collected in one turn of the event loop, in characters. If they are longer, they
 * are sent before the end of the turn.
 */
const PENDING_LIMIT = 65_536;

/**
 * Flushes the streams of one server at the end of each turn of the event loop, after all input was read. All frames
 * that a stream got in one turn are then sent as one chunk. This makes a token 10% cheaper than alternating reads and
 * writes.
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
 * Sends server-sent events on one response. The status is sent with the first frame, which can be a keep-alive. The amount
 * of unread data is limited to the high-water mark plus the frames of one turn; `watchConnections` closes connections whose
 * client does not read.
 *
 * `ServerResponse.write` creates four buffers and a `writev` for each chunk, which is most of the cost of a token in a
 * proxy. After the headers, this class therefore frames each chunk itself and writes it directly to the socket.
 */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #writes: WriteQueue;
  readonly #contentType: string;
  readonly #keepAlives: KeepAlives | null;
  readonly #headers: () => string[];
  #opened = false;
  /** Whether chunks are written directly to the socket. */
  #direct = false;
  /** Frames of this turn of the event loop. */
  #pending = '';

  /** `headers` returns additional headers, as alternating names and values, when the status is sent. */
  constructor(
    response: ServerResponse,
    writes: WriteQueue,
    { keepAlives, contentType = EVENT_STREAM }: EventStreamOptions,
    headers: () => string[] = () => [],
  ) {
    this.#response = response;
    this.#writes = writes;
    this.#contentType = contentType;
    this.#headers = headers;
    this.#keepAlives = keepAlives && this.#keepAlivesOf(keepAlives);
  }

  /** Whether the status has been sent, so that errors can only be sent as frames. */
  get opened(): boolean {
    return this.#opened;
  }

  /**
   * Writes complete frames. An empty string sends only the status. If the buffer is full, returns a promise that must
   * be awaited before the next write. The promise also resolves when the connection closes.
   */
  write(frames: string): Promise<void> | null {
    if (frames === '') {
      this.#open();
      return null;
    }
    if (!this.#opened) this.#writeHead();
    this.#keepAlives?.wrote();
    if (this.#pending === '') this.#writes.add(this);
    this.#pending += frames;
    if (this.#pending.length > PENDING_LIMIT) this.flush();
    const full = this.#fullBuffer;
    return full && this.#drained(full);
  }

  /** Writes the last frames and ends the response. */
  end(frames: string): void {
    if (!this.#opened) this.#writeHead();
    this.#response.end(this.#pending + frames);
    this.#pending = '';
  }

  /** Sends the frames of this turn. Called by the write queue. */
  flush(): void {
    const frames = this.#pending;
    const response = this.#response;
    const { socket } = response;
    if (frames === '' || response.writableEnded || response.destroyed) return;
    this.#pending = '';
    // After a chunk, Node corks the response until the end of the tick. A direct write would overtake that chunk.
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
    this.#keepAlives?.[Symbol.dispose]();
  }

  /** Keep-alives wait while the client does not read. */
  #keepAlivesOf(options: KeepAliveOptions): KeepAlives {
    const response = this.#response;
    const isReady = () => !response.writableEnded && !response.destroyed && this.#fullBuffer === null;
    const alive = () => isReady() && options.alive?.() !== false;
    return new KeepAlives({ ...options, alive }, (frames) => void this.write(frames));
  }

  #open(): void {
    if (this.#opened) return;
    this.#writeHead();
    this.#response.flushHeaders();
    this.#headersWritten();
  }

  /** Writes the status line and headers, which are sent with the next bytes. */
  #writeHead(): void {
    this.#opened = true;
    this.#response.writeHead(200, ['content-type', this.#contentType, ...HEADERS, ...this.#headers()]);
    this.#keepAlives?.begin();
  }

  /**
   * Decides whether the next chunks can be written directly to the socket. This is not possible with pipelining (the
   * response has no socket while an earlier one uses it), with HTTP/1.0 (which has no chunks), and if `write` is
   * replaced (as in tests that inject faults).
   */
  #headersWritten(): void {
    const response = this.#response;
    this.#direct = response.socket !== null && response.chunkedEncoding && !Object.hasOwn(response, 'write');
  }

  /**
   * The response or the socket, whichever has a full buffer; null if neither has. A corked response buffers its chunks
   * itself.
   */
  get #fullBuffer(): Writable | null {
    const response = this.#response;
    if (response.writableNeedDrain) return response;
    return response.socket?.writableNeedDrain ? response.socket : null;
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
