import type { GenerationEvent, GenerationKind } from '../generation.ts';
import { ChoiceReader, countTokens, readChoices, readTokenIds, type ReplicaChoice } from './choice-reader.ts';
import { readErrorFrame } from './error-body.ts';
import { incompleteResponse, invalidResponse, parseObject } from './invalid-response.ts';
import { ChunkTemplate } from './chunk-template.ts';
import { MAX_EVENT_BYTES, SseParseError, SseParser, type ServerSentEvent } from './sse.ts';
import { readUsage } from './usage.ts';
import { asList, jsonObject } from './values.ts';
import { UsageMeter, type ReceivedTokens } from './usage-meter.ts';

const ONE_TOKEN: ReceivedTokens = { tokens: 1, reasoningTokens: 0 };
const ONE_REASONING_TOKEN: ReceivedTokens = { tokens: 1, reasoningTokens: 1 };

/**
 * Converts the server-sent events of a replica of any dialect into the events of a generation. The event `end` is
 * returned after `[DONE]`, or after the end of the body, if every choice has finished. Usage may be in every chunk, in
 * the last one or in a separate one. Without it, `meter` counts deltas and the source is `estimated`.
 *
 * `push` and `end` throw the error of an error frame, or `engine_unavailable` for an invalid or incomplete stream. Do
 * not use a reader again after it has thrown.
 */
export class StreamReader {
  readonly #kind: GenerationKind;
  readonly #offered: readonly string[];
  readonly #parser: SseParser;
  readonly #template: ChunkTemplate;
  #started = false;
  #ended = false;
  /** The choices that have started, by index. */
  readonly #choices = new Map<number, ChoiceReader>();
  readonly #meter: UsageMeter;
  readonly #count: number;

  /** For `offered`, see `ChoiceReader`. `maxEventBytes`: maximum size of an event. `count`: the choices of the request. */
  constructor(
    kind: GenerationKind,
    meter = new UsageMeter(),
    offered: readonly string[] = [],
    maxEventBytes = MAX_EVENT_BYTES,
    count = Infinity,
  ) {
    this.#kind = kind;
    this.#parser = new SseParser(maxEventBytes);
    this.#offered = offered;
    this.#meter = meter;
    this.#count = count;
    this.#template = new ChunkTemplate(kind);
  }

  /**
   * Returns the events that this chunk completes. Adds them to `events`, so that the caller still receives the events
   * that precede an error.
   */
  push(chunk: Buffer, events: GenerationEvent[] = []): GenerationEvent[] {
    const token = this.#parser.isBetweenEvents && !this.#ended ? this.#template.read(chunk) : null;
    // A chunk of a choice that has not started, or has finished, is left to the parser.
    const choice = token === null ? undefined : this.#choices.get(token.choice);
    if (token === null || choice?.finished !== false) {
      this.#readEvents(() => this.#parser.push(chunk), events);
      return events;
    }
    choice.addPendingIds(token);
    const received = token.type === 'reasoning' ? ONE_REASONING_TOKEN : ONE_TOKEN;
    this.#meter.record(received, this.#template.usage, token.choice);
    token.completionTokens = this.#meter.completionTokens;
    events.push(token);
    return events;
  }

  /** Returns the remaining events after the end of the body. Adds them to `events`, like `push`. */
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
    const choices = readChoices(this.#kind, chunk.choices, this.#count);
    this.#meter.record(
      countTokens(choices),
      usage,
      choices.length === 1 ? (choices[0]?.index ?? null) : null,
    );
    if (!this.#started) {
      this.#started = true;
      const { promptTokens, cachedTokens } = this.#meter;
      const promptTokenIds = readPromptTokenIds(chunk);
      events.push({
        type: 'started',
        promptTokens,
        cachedTokens,
        ...(promptTokenIds === null ? {} : { promptTokenIds }),
      });
    }
    const from = events.length;
    for (const choice of choices) this.#readChoice(choice, events);
    const [only] = events.slice(from);
    if (events.length !== from + 1) return;
    if (only?.type === 'token' || only?.type === 'reasoning') this.#template.learn(data, only, usage);
  }

  #readChoice(choice: ReplicaChoice, events: GenerationEvent[]): void {
    let reader = this.#choices.get(choice.index);
    if (reader === undefined) {
      reader = new ChoiceReader(choice.index, this.#offered);
      this.#choices.set(choice.index, reader);
    }
    reader.push(choice, this.#meter.completionTokens, events);
  }

  #finishStream(events: GenerationEvent[]): void {
    if (this.#choices.size === 0) throw incompleteResponse('the stream ended without a choice');
    for (const { finished } of this.#choices.values()) {
      if (!finished) throw incompleteResponse('the stream ended before all choices were finished');
    }
    this.#ended = true;
    events.push({ type: 'end', ...this.#meter.total() });
  }
}

interface WireChunk {
  object?: unknown;
  choices?: unknown;
  usage?: unknown;
  error?: unknown;
  prompt_token_ids?: unknown;
}

/** vLLM sends the IDs in the first chunk of a chat, and in the first choice of a text completion. */
function readPromptTokenIds({ prompt_token_ids: ids, choices }: WireChunk): readonly number[] | null {
  return readTokenIds(ids ?? jsonObject(asList(choices)[0])['prompt_token_ids']);
}
