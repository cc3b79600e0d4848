import type { Tool } from '../../../generation.ts';
import { SequenceMatcher } from '../sequence-matcher.ts';
import { CallWriter } from './call-writer.ts';
import { type OutputPart, PartCollector } from './part-collector.ts';
import { isSpace, MalformedCall, type Parsing, PieceReader } from './piece-reader.ts';
import { HARMONY_CHANNELS, type ReasoningFormat } from './reasoning.ts';
import type { ToolFormat } from './tool-format.ts';

export interface OutputParserOptions {
  /** Null if calls are not parsed. */
  format: ToolFormat | null;
  /** Null if the model does not reason. */
  reasoning: ReasoningFormat | null;
  /** Whether the prompt ends inside the reasoning; see `reasoningOf`. */
  insideReasoning: boolean;
  /** The tools that are offered. Formats without JSON need their schemas for the types of arguments. */
  tools: readonly Tool[];
}

/**
 * Splits the output of a model into text, reasoning and calls, as it arrives. The output includes the text of control
 * tokens, but not the token that ends the output.
 *
 * Holds back only text that may become the start of a call, and white space that may be omitted (`PartCollector`). A
 * malformed call becomes text. If its arguments have already begun, the call ends and only the rest becomes text. If
 * the output ends inside a call, its arguments are incomplete. The names of calls are not checked.
 */
export class OutputParser {
  readonly #format: ToolFormat | null;
  readonly #reasoning: ReasoningFormat | null;
  readonly #leading: readonly string[];
  readonly #reader = new PieceReader();
  readonly #parts = new PartCollector();
  readonly #writer: CallWriter;
  readonly #parsing: Parsing<void>;
  #state: OutputState = 'text';
  #callText: string | null = null;

  constructor({ format, reasoning, insideReasoning, tools }: OutputParserOptions) {
    this.#format = format;
    this.#reasoning = reasoning;
    this.#leading = format?.leadingOpenings?.(tools) ?? [];
    this.#writer = new CallWriter(this.#parts, this.#reader, tools);
    this.#parsing = reasoning === HARMONY_CHANNELS ? this.#harmony() : this.#output(insideReasoning);
    // Starts the parser, so that `state` is set before the first piece arrives.
    this.#parsing.next();
  }

  /** The kind of part that the output is currently in. Stop sequences do not apply in a call. */
  get state(): OutputState {
    return this.#state;
  }

  /** Number of calls that have ended. */
  get completedCalls(): number {
    return this.#writer.completed;
  }

  /**
   * The text of the current call so far, including its opening, if the last `push` completed the opening; otherwise null.
   * A grammar for the call continues after this text.
   */
  get callText(): string | null {
    return this.#state === 'call' ? this.#callText : null;
  }

  /** Turns the current call into text, because it is not a call of an offered tool. */
  rejectCall(): void {
    this.#callText = null;
    if (this.#state === 'call') this.#parsing.throw(new MalformedCall());
  }

  /** Adds a piece of the output. Returns the parts that are ready, often none. */
  push(text: string): OutputPart[] {
    this.#callText = null;
    this.#reader.push(text);
    this.#parsing.next();
    return this.#parts.take();
  }

  /** Ends the output. Returns the parts that were held back. */
  flush(): OutputPart[] {
    this.#reader.end();
    this.#parsing.next();
    this.#parts.end();
    return this.#parts.take();
  }

  *#output(insideReasoning: boolean): Parsing<void> {
    if (insideReasoning && this.#reasoning !== null) yield* this.#reasoningUntil([this.#reasoning.close]);
    else yield* this.#optionalReasoning();
    yield* this.#leadingSpace();
    const leading = yield* this.#reader.firstOf([...this.#leading]);
    if (leading !== null) yield* this.#call(leading);
    yield* this.#textAndCalls();
  }

  /** Reads reasoning if the output starts with it. */
  *#optionalReasoning(): Parsing<void> {
    if (this.#reasoning === null) return;
    const { open, close } = this.#reasoning;
    yield* this.#leadingSpace();
    const mark = yield* this.#reader.firstOf([open, close]);
    if (mark === open) yield* this.#reasoningUntil([close]);
    // Some models end reasoning that they did not begin.
    else if (mark === close) this.#parts.endReasoning();
  }

  *#reasoningUntil(ends: readonly string[]): Parsing<void> {
    this.#state = 'reasoning';
    this.#parts.beginReasoning();
    const end = yield* this.#untilOrEnd(ends, (text) => this.#parts.reasoning(text));
    if (end !== null) this.#parts.endReasoning();
    this.#state = end === null ? 'reasoning' : 'text';
  }

  /** Reads white space, which becomes text if other text follows. */
  *#leadingSpace(): Parsing<void> {
    while ((yield* this.#reader.more()) && isSpace(this.#reader.rest.charAt(0))) {
      this.#parts.text(this.#reader.rest.charAt(0));
      this.#reader.skip(1);
    }
  }

  *#textAndCalls(): Parsing<void> {
    const openings = this.#format?.openings ?? [];
    for (;;) {
      const opening = yield* this.#untilOrEnd(openings, (text) => this.#parts.text(text));
      if (opening === null) return;
      yield* this.#call(opening);
    }
  }

  /** Parses the call or list of calls after an opening. */
  *#call(opening: string): Parsing<void> {
    if (this.#format === null) return;
    const [reader, writer] = [this.#reader, this.#writer];
    this.#state = 'call';
    this.#callText = opening + reader.rest;
    const { completed } = writer;
    reader.mark();
    try {
      yield* this.#format.parse({ reader, writer, opening });
      reader.unmark();
    } catch (error) {
      if (!(error instanceof MalformedCall)) throw error;
      const callStarted = writer.isOpen || writer.completed > completed;
      this.#parts.text((callStarted ? '' : opening) + reader.unmark());
    }
    writer.abandon();
    reader.unmark();
    this.#state = 'text';
  }

  /** Reads messages of gpt-oss. Each has a header with its channel, up to `<|message|>`, and a body. */
  *#harmony(): Parsing<void> {
    const openings = this.#format?.openings ?? [];
    while (yield* this.#reader.more()) {
      yield* this.#reader.optional(START);
      const begin = yield* this.#reader.firstOf([CHANNEL, ...openings]);
      const header = begin === CHANNEL ? yield* this.#header([MESSAGE, ...openings]) : { end: begin };
      if (header.end !== null && header.end !== MESSAGE) {
        yield* this.#call(header.end);
        yield* this.#reader.firstOf(BODY_ENDS);
        continue;
      }
      if (header.channel?.startsWith('analysis')) yield* this.#reasoningUntil(BODY_ENDS);
      else yield* this.#untilOrEnd(BODY_ENDS, (text) => this.#parts.text(text));
    }
  }

  /** Reads the name of a channel, up to one of `ends`. Characters beyond `MAX_CHANNEL` become text of the response. */
  *#header(ends: readonly string[]): Parsing<{ end: string | null; channel?: string }> {
    let channel = '';
    const end = yield* this.#untilOrEnd(ends, (text) => {
      if (channel.length + text.length > MAX_CHANNEL) this.#parts.text(text);
      else channel += text;
    });
    return { end, channel };
  }

  /** Reads up to one of these sequences and returns it, or null if the output ends first. */
  *#untilOrEnd(sequences: readonly string[], sink: (text: string) => void): Parsing<string | null> {
    const matcher = new SequenceMatcher(sequences);
    while (yield* this.#reader.more()) {
      const { text, match, end } = matcher.push(this.#reader.rest);
      this.#reader.skip(end);
      if (text !== '') sink(text);
      if (match !== null) return match;
    }
    sink(matcher.flush());
    return null;
  }
}

export type OutputState = 'text' | 'reasoning' | 'call';

const MESSAGE = '<|message|>';
const START = '<|start|>assistant';
const CHANNEL = '<|channel|>';
const BODY_ENDS = ['<|end|>', '<|return|>', '<|call|>', START];
const MAX_CHANNEL = 256;
