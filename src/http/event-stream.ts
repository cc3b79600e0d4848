import type { ServerResponse } from 'node:http';
import { KEEP_ALIVE } from '../openai/stream.ts';
import { HungUp } from './hang-up.ts';

export interface EventStreamOptions {
  /** How long the status waits for the engine's word, in milliseconds. */
  holdMs: number;
  /** Silence after which a comment is sent, in milliseconds. */
  keepAliveMs: number;
  /** How long the caller may leave what was sent unread, in milliseconds. */
  stallMs: number;
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
 * high-water mark and one frame, and a caller that reads nothing for `stallMs` has its stream ended.
 */
export class EventStream implements Disposable {
  readonly #response: ServerResponse;
  readonly #headers: string[];
  readonly #options: EventStreamOptions;
  readonly #stop: AbortController;
  #opened = false;
  readonly #silence: NodeJS.Timeout;
  #beat: NodeJS.Timeout | null = null;

  constructor(
    response: ServerResponse,
    headers: string[],
    options: EventStreamOptions,
    stop: AbortController,
  ) {
    this.#response = response;
    this.#headers = headers;
    this.#options = options;
    this.#stop = stop;
    this.#silence = setTimeout(() => {
      this.#head();
      this.#response.write(KEEP_ALIVE);
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
  }

  /** Writes whole frames. A promise comes back only where the caller must read first; await it before the next. */
  write(frames: string): Promise<void> | null {
    if (!this.#opened) this.#head();
    this.#beat?.refresh();
    return this.#response.write(frames) ? null : this.#drained();
  }

  /** Writes the last frames and ends the response. */
  end(frames: string): void {
    if (!this.#opened) this.#head();
    this.#response.end(frames);
    if (this.#response.writableFinished) return;
    const stalled = setTimeout(() => this.#response.destroy(), this.#options.stallMs);
    this.#response.once('close', () => clearTimeout(stalled));
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#silence);
    if (this.#beat) clearTimeout(this.#beat);
  }

  /** The status line and headers, to leave with the first bytes that follow. */
  #head(): void {
    this.#opened = true;
    clearTimeout(this.#silence);
    this.#response.writeHead(200, [...HEADERS, ...this.#headers]);
    this.#beat = setTimeout(() => this.#keepAlive(), this.#options.keepAliveMs);
  }

  #keepAlive(): void {
    if (this.#response.writableEnded || this.#response.destroyed) return;
    if (!this.#response.writableNeedDrain) this.#response.write(KEEP_ALIVE);
    this.#beat?.refresh();
  }

  #drained(): Promise<void> {
    const response = this.#response;
    return new Promise((resolve) => {
      const stalled = setTimeout(() => {
        this.#stop.abort(new HungUp('the caller did not read its stream'));
        response.destroy();
      }, this.#options.stallMs);
      const done = () => {
        clearTimeout(stalled);
        response.off('drain', done).off('close', done);
        resolve();
      };
      response.once('drain', done).once('close', done);
    });
  }
}
