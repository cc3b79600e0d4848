import { isUtf8 } from 'node:buffer';

/**
 * Maximum size of a line and of an event in a replica's stream, in bytes, unless the event can repeat the prompt:
 * `maxEventBytes` in `replicas/replica-stream.ts`.
 */
export const MAX_EVENT_BYTES = 1_048_576;

const LF = 0x0a;
const CR = 0x0d;

/** A line or event is too long, or is not UTF-8. */
export class SseParseError extends Error {
  override readonly name: string = 'SseParseError';
}

/** A line or event is too long. */
export class EventTooLong extends SseParseError {
  override readonly name = 'EventTooLong';
}

/** Splits chunks of any size into lines, so that no character is split. Throws `SseParseError` if a line is too long. */
export class LineSplitter {
  readonly #maxBytes: number;
  /** Parts of an incomplete line. */
  #parts: Buffer[] = [];
  #partBytes = 0;

  constructor(maxBytes = MAX_EVENT_BYTES) {
    this.#maxBytes = maxBytes;
  }

  /** Whether the next byte starts a line. */
  get isBetweenLines(): boolean {
    return this.#partBytes === 0;
  }

  /** Returns the lines that this chunk completes, without LF. They are views of the chunk if they are part of it. */
  push(chunk: Buffer): Buffer[] {
    const lines: Buffer[] = [];
    let start = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      const line = chunk.subarray(start, end);
      lines.push(this.#partBytes === 0 ? line : this.#joinParts(line));
      start = end + 1;
    }
    if (start < chunk.length) this.#addPart(chunk.subarray(start));
    return lines;
  }

  /** Returns the last line if it has no LF, otherwise an empty one. */
  end(): Buffer {
    return this.#joinParts(Buffer.alloc(0));
  }

  #addPart(bytes: Buffer): void {
    this.#partBytes += bytes.length;
    if (this.#partBytes > this.#maxBytes) throw new EventTooLong('a line is too long');
    this.#parts.push(Buffer.from(bytes)); // A copy: a view would keep the whole chunk in memory.
  }

  #joinParts(end: Buffer): Buffer {
    const line = Buffer.concat([...this.#parts, end]);
    this.#parts = [];
    this.#partBytes = 0;
    return line;
  }
}

export interface ServerSentEvent {
  /** The data lines, joined. */
  data: string;
  /** Whether it was sent as an `error:` field, as by older versions of llama-server. */
  error: boolean;
}

/**
 * Parses server-sent events from chunks of any size. Decodes only complete lines, so that no character is split. Lines
 * end in LF or CR LF. Throws `SseParseError`.
 */
export class SseParser {
  readonly #maxBytes: number;
  readonly #lines: LineSplitter;
  /** Data lines of the current event. */
  #data: string[] = [];
  #eventBytes = 0;
  #isError = false;

  constructor(maxBytes = MAX_EVENT_BYTES) {
    this.#maxBytes = maxBytes;
    this.#lines = new LineSplitter(maxBytes);
  }

  /** Whether the next byte starts an event. */
  get isBetweenEvents(): boolean {
    return this.#lines.isBetweenLines && this.#data.length === 0;
  }

  /** Returns the events that this chunk completes. */
  push(chunk: Buffer): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    for (const line of this.#lines.push(chunk)) this.#readLine(line, events);
    return events;
  }

  /** Returns the last event if the body ended without a blank line. */
  end(): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    if (!this.#lines.isBetweenLines) this.#readLine(this.#lines.end(), events);
    this.#dispatch(events);
    return events;
  }

  #readLine(line: Buffer, events: ServerSentEvent[]): void {
    const length = line.length > 0 && line[line.length - 1] === CR ? line.length - 1 : line.length;
    if (length === 0) {
      this.#dispatch(events);
      return;
    }
    this.#eventBytes += length;
    if (this.#eventBytes > this.#maxBytes) throw new EventTooLong('an event is too long');
    if (!isUtf8(line)) throw new SseParseError('a line is not UTF-8');
    const text = line.toString('utf8', 0, length);
    if (text.startsWith('data:')) this.#data.push(text.slice(text[5] === ' ' ? 6 : 5));
    else if (text.startsWith('error:')) {
      this.#data.push(text.slice(6).trim());
      this.#isError = true;
    }
  }

  #dispatch(events: ServerSentEvent[]): void {
    const [first] = this.#data;
    this.#eventBytes = 0;
    if (first === undefined) return;
    events.push({ data: this.#data.length === 1 ? first : this.#data.join('\n'), error: this.#isError });
    this.#data = [];
    this.#isError = false;
  }
}
