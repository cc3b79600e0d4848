import type { GenerationEvent } from '../generation.ts';
import type { GenerationKind } from './field.ts';
import {
  countTokens,
  incompleteResponse,
  invalidResponse,
  parseObject,
  pushText,
  readChoices,
  type ReplicaChoice,
} from './choice-reader.ts';
import { readErrorFrame } from './error-body.ts';
import { ChunkTemplate } from './chunk-template.ts';
import { SseParseError, SseParser, type ServerSentEvent } from './sse.ts';
import { readUsage } from './usage.ts';
import { UsageMeter } from './usage-meter.ts';

/**
 * Converts the server-sent events of a replica of any dialect into the events of a generation. `end` follows `[DONE]`,
 * or the end of the body if every choice has finished. Usage may be in every chunk, in the last one or in a separate
 * one. Without it, `meter` counts deltas and the source is `estimated`.
 *
 * `push` and `end` throw the error of an error frame, or `engine_unavailable` for an invalid or incomplete stream. Do
 * not use a reader again after it has thrown.
 */
export class StreamReader {
  readonly #kind: GenerationKind;
  readonly #parser = new SseParser();
  readonly #template: ChunkTemplate;
  #started = false;
  #ended = false;
  /** Indexes of choices that have started. */
  #seen = new Set<number>();
  /** Indexes of choices that have started and not finished. */
  #open = new Set<number>();
  readonly #meter: UsageMeter;

  constructor(kind: GenerationKind, meter = new UsageMeter()) {
    this.#kind = kind;
    this.#meter = meter;
    this.#template = new ChunkTemplate(kind);
  }

  /**
   * Returns the events that this chunk completes. Adds them to `events`, so that the caller has the events before an
   * error if this throws.
   */
  push(chunk: Buffer, events: GenerationEvent[] = []): GenerationEvent[] {
    const token = this.#parser.isBetweenEvents && !this.#ended ? this.#template.read(chunk) : null;
    if (token === null || !this.#open.has(token.choice)) {
      this.#readEvents(() => this.#parser.push(chunk), events);
      return events;
    }
    this.#meter.record(1, this.#template.usage, token.choice);
    token.completionTokens = this.#meter.completionTokens;
    events.push(token);
    return events;
  }

  /** Returns the remaining events after the end of the body, as `push` does. */
  end(events: GenerationEvent[] = []): GenerationEvent[] {
    this.#readEvents(() => this.#parser.end(), events);
    if (!this.#ended) this.#finishStream(events);
    return events;
  }

  #readEvents(parse: () => ServerSentEvent[], events: GenerationEvent[]): void {
    let parsed: ServerSentEvent[];
    try {
      parsed = parse();
    } catch (cause) {
      if (cause instanceof SseParseError) throw invalidResponse(cause);
      throw cause;
    }
    for (const event of parsed) this.#readEvent(event, events);
  }

  #readEvent({ data, error }: ServerSentEvent, events: GenerationEvent[]): void {
    if (this.#ended || data === '') return;
    if (data === '[DONE]') {
      this.#finishStream(events);
      return;
    }
    if (error) throw readErrorFrame(data);
    const chunk: WireChunk = parseObject(data, 'a chunk'); // The readers check every field.
    if ((chunk.error !== undefined && chunk.error !== null) || chunk.object === 'error')
      throw readErrorFrame(data);
    const usage = readUsage(chunk.usage);
    const choices = readChoices(this.#kind, chunk.choices);
    this.#meter.record(
      countTokens(choices),
      usage,
      choices.length === 1 ? (choices[0]?.index ?? null) : null,
    );
    if (!this.#started) {
      this.#started = true;
      const { promptTokens, cachedTokens } = this.#meter;
      events.push({ type: 'started', promptTokens, cachedTokens });
    }
    const from = events.length;
    for (const choice of choices) this.#readChoice(choice, events);
    const [only] = events.slice(from);
    if (events.length !== from + 1) return;
    if (only?.type === 'token' || only?.type === 'reasoning') this.#template.learn(data, only, usage);
  }

  #readChoice(choice: ReplicaChoice, events: GenerationEvent[]): void {
    const { index, reason } = choice;
    if (!this.#seen.has(index)) {
      this.#seen.add(index);
      this.#open.add(index);
    }
    pushText(choice, this.#meter.completionTokens, events);
    // Some servers send the reason twice.
    if (reason !== null && this.#open.delete(index)) events.push({ type: 'finish', choice: index, reason });
  }

  #finishStream(events: GenerationEvent[]): void {
    if (this.#seen.size === 0) throw incompleteResponse('the stream ended without a choice');
    if (this.#open.size > 0) throw incompleteResponse('the stream ended before all choices were finished');
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
