import { Deadline } from '../../support/deadline.ts';
import { ServiceError } from '../../core/errors.ts';
import { KeepAlives, type KeepAliveOptions } from '../../support/event-stream.ts';
import { ClientDisconnected } from '../../inference/complete.ts';
import type { GenerationRecord } from '../../inference/record.ts';
import type { FrameOutput, GenerationOutput } from '../generation-output.ts';

/** Memory per generation in addition to its response, in bytes. */
const OVERHEAD_BYTES = 1024;

/** If a response is no longer shared, its generation waits while more than this number of its pages are in memory. */
const UNSHARED_PAGES = 2;

export interface ResponseMemory {
  /** Reserves bytes for an account if there is room for them, and returns whether there was. */
  reserve(accountId: string, bytes: number): boolean;
  /** Counts bytes even if there is no room for them. */
  add(accountId: string, bytes: number): void;
  release(accountId: string, bytes: number): void;
}

interface KeyedGenerationOptions {
  accountId: string;
  /** The account and the key. */
  id: string;
  /** The hash of the request. */
  fingerprint: string;
  requestId: string;
  memory: ResponseMemory;
  /** When streams send keep-alives. */
  stream: Pick<KeepAliveOptions, 'holdMs' | 'keepAliveMs'>;
  /** Returns how long the generation continues without readers, in milliseconds. */
  graceMs: () => number;
  /** Called when the last reader has disconnected from a running generation, which continues for `graceMs`. */
  onWaiting: (requestId: string) => void;
  /** Called when the generation is aborted because it has no readers. */
  onAbandoned: (generation: KeyedGeneration) => void;
  /** Called when the generation has ended and all readers have disconnected before the end of the response. */
  onUndelivered: (requestId: string) => void;
}

/**
 * A generation with an idempotency key, and its response. The response is written once and sent to any number of
 * readers, each at its own pace. While there is memory for the whole response, readers never delay the generation or each
 * other. Otherwise, the response is no longer shared: no request can join, and the generation continues at the pace
 * of the oldest reader, the one that began first. Readers that are too far behind get an error.
 */
export class KeyedGeneration implements GenerationOutput, FrameOutput {
  readonly accountId: string;
  readonly id: string;
  readonly fingerprint: string;
  readonly requestId: string;
  readonly stop = new AbortController();
  /** Null until a stream begins, and for other responses. */
  record: GenerationRecord | null = null;
  readonly #options: KeyedGenerationOptions;
  readonly #pages: ResponsePages;
  /** In the order in which they began. */
  readonly #readers = new Set<ResponseReader>();
  #shared: boolean;
  #keepAlives: KeepAlives | null = null;
  #opened = false;
  #ended = false;
  #fault: ServiceError | ClientDisconnected | null = null;
  #delivered = false;
  #discarded = false;
  #grace: Deadline | undefined;
  /** Resolves at the next change; null: no reader waits for one. */
  #change: PromiseWithResolvers<void> | null = null;
  /** Lets the generation continue when readers have caught up. */
  #resume: (() => void) | null = null;

  constructor(options: KeyedGenerationOptions) {
    this.accountId = options.accountId;
    this.id = options.id;
    this.fingerprint = options.fingerprint;
    this.requestId = options.requestId;
    this.#options = options;
    this.#pages = new ResponsePages((bytes) => this.#reserve(bytes));
    this.#shared = true;
    this.#reserve(OVERHEAD_BYTES);
  }

  /** Whether the response so far is in memory, so that other requests can join. */
  get shared(): boolean {
    return this.#shared;
  }

  /** Whether the response has ended, with or without an error. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The error that was sent instead of a response; null: none. */
  get fault(): ServiceError | ClientDisconnected | null {
    return this.#fault;
  }

  get hasReaders(): boolean {
    return this.#readers.size > 0;
  }

  /** Whether a stream has begun, so that errors can only be sent as frames. */
  get opened(): boolean {
    return this.#opened;
  }

  /** Keep-alives are part of the response, because events are numbered for all readers. */
  openStream(record: GenerationRecord, keepAlive: () => string): FrameOutput {
    this.record = record;
    const alive = () => record.isRowWritten && this.#resume === null;
    const options = { ...this.#options.stream, keepAlive, alive };
    this.#keepAlives = new KeepAlives(options, (frames) => this.#send(frames));
    this.wake();
    return this;
  }

  write(frames: string): Promise<void> | null {
    this.#send(frames);
    return this.#shared ? null : this.#whenRead();
  }

  end(frames: string): void {
    this.#append(frames);
    this.#end();
  }

  sendJson(body: string | readonly Buffer[]): void {
    for (const part of typeof body === 'string' ? [body] : body) this.#append(part);
    this.#end();
  }

  fail(error: ServiceError | ClientDisconnected): void {
    this.#fault = error;
    this.#end();
  }

  [Symbol.dispose](): void {
    this.#keepAlives?.[Symbol.dispose]();
  }

  /** Adds a reader, which must be closed. The generation continues while there are readers. */
  join(): ResponseReader {
    this.#grace?.[Symbol.dispose]();
    const reader = new ResponseReader(this);
    this.#readers.add(reader);
    return reader;
  }

  /** Aborts the generation like a disconnect. */
  abandon(reason = new ClientDisconnected()): void {
    this.#grace?.[Symbol.dispose]();
    if (this.#ended || this.stop.signal.aborted) return;
    this.stop.abort(reason);
    this.#options.onAbandoned(this);
  }

  /** Releases the memory when the last reader has left. Other requests cannot join anymore. */
  discard(): void {
    if (this.#discarded) return;
    this.#discarded = true;
    if (this.#readers.size === 0) this.#free();
  }

  /** Resolves at the next change of the response or of a reader. For readers. */
  get changed(): Promise<void> {
    this.#change ??= Promise.withResolvers<void>();
    return this.#change.promise;
  }

  /** Resolves `changed`. For readers. */
  wake(): void {
    this.#change?.resolve();
    this.#change = null;
  }

  /** Returns the next bytes from a position and advances it. Empty if there are no more bytes yet. For readers. */
  read(position: Position): Buffer {
    if (this.#pages.isDropped(position)) throw tooSlow();
    const bytes = this.#pages.read(position);
    if (!this.#shared) this.#dropRead();
    return bytes;
  }

  /** Removes a reader. `disconnect` is the reason if it has not received the whole response. For readers. */
  leave(reader: ResponseReader, disconnect: ClientDisconnected | null): void {
    this.#readers.delete(reader);
    if (disconnect === null) this.#delivered = true;
    this.wake();
    if (!this.#shared) this.#dropRead();
    if (this.#readers.size > 0) return;
    if (this.#discarded) this.#free();
    if (this.#ended) this.#checkDelivery();
    else if (disconnect !== null) this.#waitForReader(disconnect);
  }

  #send(frames: string): void {
    if (!this.#opened) this.#keepAlives?.begin();
    this.#opened = true;
    if (frames !== '') this.#keepAlives?.wrote();
    this.#append(frames);
    this.wake();
  }

  #append(frames: string | Buffer): void {
    if (frames.length > 0 && !(this.#discarded && this.#readers.size === 0)) this.#pages.append(frames);
  }

  #end(): void {
    this.#ended = true;
    this.#grace?.[Symbol.dispose]();
    this.#release(this.#pages.trim());
    this.wake();
    this.#checkDelivery();
  }

  #checkDelivery(): void {
    if (this.#readers.size === 0 && !this.#delivered) this.#options.onUndelivered(this.requestId);
  }

  #waitForReader(disconnect: ClientDisconnected): void {
    const graceMs = this.#shared ? this.#options.graceMs() : 0;
    if (graceMs === 0) {
      this.abandon(disconnect);
      return;
    }
    this.#options.onWaiting(this.requestId);
    this.#grace = new Deadline(graceMs, () => this.abandon(disconnect));
  }

  #reserve(bytes: number): void {
    const { memory } = this.#options;
    if (this.#shared && memory.reserve(this.accountId, bytes)) return;
    this.#shared = false;
    memory.add(this.accountId, bytes);
  }

  #release(bytes: number): void {
    this.#options.memory.release(this.accountId, bytes);
  }

  /** Waits until the oldest reader has read all but the last pages. */
  #whenRead(): Promise<void> | null {
    if (this.#readers.size === 0) this.abandon();
    this.#dropRead();
    if (this.#readers.size === 0 || this.#pages.count <= UNSHARED_PAGES) return null;
    return new Promise((resolve) => (this.#resume = resolve));
  }

  /** Drops the pages that the oldest reader has read. */
  #dropRead(): void {
    const leader = this.#readers.values().find(({ position }) => !this.#pages.isDropped(position));
    if (leader !== undefined) this.#release(this.#pages.dropBefore(leader.position.page));
    if (leader !== undefined && this.#pages.count > UNSHARED_PAGES) return;
    this.#resume?.();
    this.#resume = null;
  }

  #free(): void {
    this.#release(this.#pages.dropBefore(Infinity) + OVERHEAD_BYTES);
  }
}

/** Reads the response of a generation from the start, for one connection. */
export class ResponseReader {
  readonly position: Position = { page: 0, offset: 0 };
  readonly #generation: KeyedGeneration;
  #started = false;
  #fault: ServiceError | null = null;
  #closed = false;

  constructor(generation: KeyedGeneration) {
    this.#generation = generation;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Resolves with the record of the generation if the response is a stream, otherwise null. Rejects like `next`. */
  async streamRecord(): Promise<GenerationRecord | null> {
    const generation = this.#generation;
    while (generation.record === null && !generation.ended && !this.#closed) {
      if (this.#fault !== null) throw this.#fault;
      await generation.changed;
    }
    return generation.record;
  }

  /**
   * Resolves with the next bytes, or null at the end of the response or if the reader is closed. The first bytes are
   * empty if a stream has begun but has no frames yet. The bytes are shared by all readers, and must not be changed.
   * Rejects with the error of the generation, or with the error passed to `fail`.
   */
  async next(): Promise<Buffer | null> {
    const generation = this.#generation;
    for (;;) {
      if (this.#closed) return null;
      if (this.#fault !== null) throw this.#fault;
      const bytes = generation.read(this.position);
      const hasStarted = this.#started;
      this.#started ||= bytes.length > 0 || generation.opened;
      if (bytes.length > 0 || this.#started !== hasStarted) return bytes;
      if (generation.fault !== null) throw generation.fault;
      if (generation.ended) return null;
      await generation.changed;
    }
  }

  /** Iterates over the bytes. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, undefined> {
    for (let bytes = await this.next(); bytes !== null; bytes = await this.next()) yield bytes;
  }

  /** Ends this reader with an error. The generation continues. */
  fail(error: ServiceError): void {
    this.#fault ??= error;
    this.#generation.wake();
  }

  /** Leaves the generation. `disconnect` is the reason if the connection closed before the end of the response. Idempotent. */
  close(disconnect: ClientDisconnected | null): void {
    if (this.#closed) return;
    this.#closed = true;
    const isComplete = disconnect === null && this.#fault === null && this.#generation.ended;
    this.#generation.leave(this, isComplete ? null : (disconnect ?? new ClientDisconnected()));
  }
}

function tooSlow(): ServiceError {
  return new ServiceError(
    'idempotency_in_flight',
    'The response is too large to be kept, and this connection reads it too slowly.',
  );
}

/** Size of the first page of a response, in bytes. Each further page is twice as large as the one before it. */
const FIRST_PAGE_BYTES = 4096;
const MAX_PAGE_BYTES = 65_536;

const EMPTY = Buffer.alloc(0);

interface Page {
  bytes: Buffer;
  used: number;
}

/** Position of a reader in a response. */
interface Position {
  /** Counted from the start of the response, including dropped pages. */
  page: number;
  offset: number;
}

/**
 * The bytes of a response, in pages outside of the JavaScript heap, so that their size is known exactly. Each text that
 * is appended is in one page, so that readers never get part of a character.
 */
class ResponsePages {
  readonly #onAllocate: (bytes: number) => void;
  readonly #pages: Page[] = [];
  #dropped = 0;

  /** Calls `onAllocate` before each new page. */
  constructor(onAllocate: (bytes: number) => void) {
    this.#onAllocate = onAllocate;
  }

  /** Number of pages in memory. */
  get count(): number {
    return this.#pages.length;
  }

  append(text: string | Buffer): void {
    const length = Buffer.byteLength(text);
    let page = this.#pages.at(-1);
    if (page === undefined || page.bytes.length - page.used < length) {
      const usual = page === undefined ? FIRST_PAGE_BYTES : Math.min(2 * page.bytes.length, MAX_PAGE_BYTES);
      page = this.#allocate(Math.max(usual, length));
    }
    page.used +=
      typeof text === 'string' ? page.bytes.write(text, page.used) : text.copy(page.bytes, page.used);
  }

  /** Whether the page of this position has been dropped. */
  isDropped(position: Position): boolean {
    return position.page < this.#dropped;
  }

  /**
   * Returns the bytes from this position to the end of their page, and advances the position. Empty at the end. The bytes
   * are part of the page, so that any number of readers share its memory.
   */
  read(position: Position): Buffer {
    let page = this.#pages[position.page - this.#dropped];
    if (page?.used === position.offset && position.page - this.#dropped < this.#pages.length - 1) {
      position.page++;
      position.offset = 0;
      page = this.#pages[position.page - this.#dropped];
    }
    if (page === undefined) return EMPTY;
    const bytes = page.bytes.subarray(position.offset, page.used);
    position.offset = page.used;
    return bytes;
  }

  /** Drops the pages before this one. Returns their size in bytes. */
  dropBefore(page: number): number {
    const dropped = this.#pages.splice(0, page - this.#dropped);
    this.#dropped += dropped.length;
    return dropped.reduce((sum, { bytes }) => sum + bytes.length, 0);
  }

  /** Releases the unused end of the last page. Returns its size in bytes. */
  trim(): number {
    const last = this.#pages.at(-1);
    if (last === undefined) return 0;
    const unused = last.bytes.length - last.used;
    if (unused === 0) return 0;
    const exact = Buffer.allocUnsafeSlow(last.used);
    last.bytes.copy(exact, 0, 0, last.used);
    last.bytes = exact;
    return unused;
  }

  #allocate(bytes: number): Page {
    this.#onAllocate(bytes);
    // Smaller buffers from Node's pool would keep the pool's memory.
    const page = { bytes: Buffer.allocUnsafeSlow(bytes), used: 0 };
    this.#pages.push(page);
    return page;
  }
}
