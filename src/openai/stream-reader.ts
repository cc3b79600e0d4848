import type { GenerationEvent } from '../generation.ts';
import type { GenerationKind } from './field.ts';
import {
  brokenOff,
  countTokens,
  pushText,
  readChoices,
  unreadable,
  type ReadChoice,
} from './answer-events.ts';
import { readErrorFrame } from './error-body.ts';
import { ChunkTemplate } from './chunk-template.ts';
import { EventSplitter, EventStreamError, type ServerSentEvent } from './sse.ts';
import { readUsage } from './usage.ts';
import { UsageMeter } from './usage-meter.ts';

/**
 * Reads the SSE bytes of a replica of any dialect as the events of its generation. `end` comes at `[DONE]`, or when
 * the body ends after every choice has finished. Usage may be on every chunk, on the last, in a chunk of its own, or
 * nowhere; then `meter` counts deltas and the source is `estimated`.
 *
 * `push` and `end` throw the error of an error frame, or `engine_unavailable` for bytes that are no such stream and
 * for one that breaks off; a reader that has thrown is not used again.
 */
export class StreamReader {
  readonly #kind: GenerationKind;
  readonly #splitter = new EventSplitter();
  readonly #template: ChunkTemplate;
  #started = false;
  #ended = false;
  /** Choices that were seen, and of these the ones that have not finished. */
  #seen = new Set<number>();
  #open = new Set<number>();
  readonly #meter: UsageMeter;

  constructor(kind: GenerationKind, meter = new UsageMeter()) {
    this.#kind = kind;
    this.#meter = meter;
    this.#template = new ChunkTemplate(kind);
  }

  /**
   * The events that these bytes complete; the bytes may be cut anywhere. They are added to `events`, so that those
   * before a fault are not lost when this throws.
   */
  push(bytes: Uint8Array, events: GenerationEvent[] = []): GenerationEvent[] {
    const chunk = Buffer.isBuffer(bytes)
      ? bytes
      : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const token = this.#splitter.betweenEvents && !this.#ended ? this.#template.read(chunk) : null;
    if (token === null || !this.#open.has(token.choice)) {
      this.#frames(() => this.#splitter.push(chunk), events);
      return events;
    }
    this.#meter.note(1, this.#template.usage, token.choice);
    token.completionTokens = this.#meter.completionTokens;
    events.push(token);
    return events;
  }

  /** What is still due once the body has ended; as `push`. */
  end(events: GenerationEvent[] = []): GenerationEvent[] {
    this.#frames(() => this.#splitter.end(), events);
    if (!this.#ended) this.#finishStream(events);
    return events;
  }

  #frames(next: () => ServerSentEvent[], events: GenerationEvent[]): void {
    for (const event of this.#split(next)) this.#frame(event, events);
  }

  #split(next: () => ServerSentEvent[]): ServerSentEvent[] {
    try {
      return next();
    } catch (cause) {
      if (cause instanceof EventStreamError) throw unreadable(cause);
      throw cause;
    }
  }

  #frame({ data, error }: ServerSentEvent, events: GenerationEvent[]): void {
    if (this.#ended || data === '') return;
    if (data === '[DONE]') {
      this.#finishStream(events);
      return;
    }
    if (error) throw readErrorFrame(data);
    const chunk = parse(data);
    if ((chunk.error !== undefined && chunk.error !== null) || chunk.object === 'error')
      throw readErrorFrame(data);
    const usage = chunk.usage === undefined || chunk.usage === null ? null : readUsage(chunk.usage);
    const choices = readChoices(this.#kind, chunk.choices);
    this.#meter.note(countTokens(choices), usage, choices.length === 1 ? (choices[0]?.index ?? null) : null);
    if (!this.#started) {
      this.#started = true;
      const { promptTokens, cachedTokens } = this.#meter;
      events.push({ type: 'started', promptTokens, cachedTokens });
    }
    const from = events.length;
    for (const choice of choices) this.#choice(choice, events);
    const [only] = events.slice(from);
    if (events.length !== from + 1) return;
    if (only?.type === 'token' || only?.type === 'reasoning') this.#template.learn(data, only, usage);
  }

  #choice(choice: ReadChoice, events: GenerationEvent[]): void {
    const { index, reason } = choice;
    if (!this.#seen.has(index)) {
      this.#seen.add(index);
      this.#open.add(index);
    }
    pushText(choice, this.#meter.completionTokens, events);
    // Some servers say the reason twice; a choice finishes once.
    if (reason !== null && this.#open.delete(index)) events.push({ type: 'finish', choice: index, reason });
  }

  #finishStream(events: GenerationEvent[]): void {
    if (this.#seen.size === 0) throw brokenOff('the stream ended without a choice');
    if (this.#open.size > 0) throw brokenOff('the stream ended before all choices were finished');
    this.#ended = true;
    events.push({ type: 'end', ...this.#meter.total() });
  }
}

interface WireChunk {
  object?: unknown;
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
}

function parse(data: string): WireChunk {
  let value: unknown;
  try {
    value = JSON.parse(data);
  } catch {
    // The parser's own message quotes generated text, which belongs in no log.
    throw unreadable(new Error('a chunk is not JSON'));
  }
  if (typeof value !== 'object' || value === null) throw unreadable(new Error('a chunk is not an object'));
  return value; // Every field is checked where it is read.
}
