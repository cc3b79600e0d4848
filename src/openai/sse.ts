import { isUtf8 } from 'node:buffer';

/** Longest line and longest event of a replica's stream, in bytes. */
export const MAX_LINE_BYTES = 1_048_576;

const LF = 0x0a;
const CR = 0x0d;

/** Bytes that are no event stream: too long a line, or not UTF-8. */
export class EventStreamError extends Error {
  override readonly name = 'EventStreamError';
}

/** One event: its data lines joined, and whether it came as an `error:` field, as older llama-servers send it. */
export interface ServerSentEvent {
  data: string;
  error: boolean;
}

/**
 * Splits the bytes of an SSE body into events, wherever the bytes are cut: only whole lines are decoded, so a
 * character is never met in half. Lines end in LF or CR LF. Throws `EventStreamError`.
 */
export class EventSplitter {
  /** Pieces of a line that has not ended yet, and their bytes together. */
  #pieces: Buffer[] = [];
  #kept = 0;
  #data: string[] = [];
  #bytes = 0;
  #error = false;

  /** Whether the next byte begins an event. */
  get betweenEvents(): boolean {
    return this.#kept === 0 && this.#data.length === 0;
  }

  /** The events that these bytes complete. */
  push(chunk: Buffer): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    let start = 0;
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      const line = chunk.subarray(start, end);
      this.#line(this.#kept === 0 ? line : this.#joined(line), events);
      start = end + 1;
    }
    if (start < chunk.length) this.#keep(chunk.subarray(start));
    return events;
  }

  /** What was left without its closing blank line, once the body has ended. */
  end(): ServerSentEvent[] {
    const events: ServerSentEvent[] = [];
    if (this.#kept > 0) this.#line(this.#joined(Buffer.alloc(0)), events);
    this.#dispatch(events);
    return events;
  }

  #keep(bytes: Buffer): void {
    this.#kept += bytes.length;
    if (this.#kept > MAX_LINE_BYTES) throw new EventStreamError('a line is too long');
    this.#pieces.push(Buffer.from(bytes)); // A copy, so that a few bytes do not hold a whole read in memory.
  }

  /** The pieces kept from before with these bytes behind them; nothing is kept any more. */
  #joined(bytes: Buffer): Buffer {
    const whole = Buffer.concat([...this.#pieces, bytes]);
    this.#pieces = [];
    this.#kept = 0;
    return whole;
  }

  #line(line: Buffer, events: ServerSentEvent[]): void {
    const length = line.length > 0 && line[line.length - 1] === CR ? line.length - 1 : line.length;
    if (length === 0) {
      this.#dispatch(events);
      return;
    }
    this.#bytes += length;
    if (this.#bytes > MAX_LINE_BYTES) throw new EventStreamError('an event is too long');
    if (!isUtf8(line)) throw new EventStreamError('a line is not UTF-8');
    const text = line.toString('utf8', 0, length);
    if (text.startsWith('data:')) this.#data.push(text.slice(text[5] === ' ' ? 6 : 5));
    else if (text.startsWith('error:')) {
      this.#data.push(text.slice(6).trim());
      this.#error = true;
    }
  }

  #dispatch(events: ServerSentEvent[]): void {
    const [first] = this.#data;
    this.#bytes = 0;
    if (first === undefined) return;
    events.push({ data: this.#data.length === 1 ? first : this.#data.join('\n'), error: this.#error });
    this.#data = [];
    this.#error = false;
  }
}
