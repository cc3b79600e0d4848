import type { Tool } from '../../../core/generation.ts';
import { SequenceMatcher } from './sequence-matcher.ts';
import { HARMONY_CHANNELS, type ReasoningFormat } from './reasoning.ts';
import type { ToolFormat } from './tool-format.ts';
import { type Parsing, MalformedCall, PieceReader, isSpace } from './piece-reader.ts';
import { type OutputPart, PartCollector, CallWriter } from './call-writer.ts';

export interface OutputParserOptions {
  /** Null if calls are not parsed. */
  format: ToolFormat | null;
  /** Null if the model does not reason. */
  reasoning: ReasoningFormat | null;
  /** Whether the prompt ends inside the reasoning; see `reasoningOf`. */
  insideReasoning: boolean;
  /** The tools that are offered. Formats without JSON need their schemas for the types of arguments. */
  tools: readonly Tool[];
  /**
   * Called with the text of a call so far, from its opening to the end of the last piece, when the first name in it is
   * accepted. Returns false if the text is not a call. Default: all are calls.
   */
  acceptCall?: (text: string) => boolean;
}

/**
 * Splits the output of a model into text, reasoning and calls, as it arrives. The output includes the text of control
 * tokens, but not the token that ends the output.
 *
 * An opening begins a call only if the name of an offered tool follows it, so that an answer can mention openings.
 * Holds back only text that may become the start of a call, and white space that may be omitted (`PartCollector`). A
 * malformed call becomes text. If its arguments have already begun, the call ends and only the rest becomes text. If
 * the output ends inside a call, the call has the start of its arguments, and is omitted if they have not begun.
 */
export class OutputParser {
  readonly #format: ToolFormat | null;
  readonly #reasoning: ReasoningFormat | null;
  readonly #leading: readonly string[];
  readonly #reader = new PieceReader();
  readonly #parts = new PartCollector();
  readonly #writer: CallWriter;
  readonly #parsing: Parsing<void>;
  readonly #names: ReadonlySet<string>;
  readonly #acceptCall: (text: string) => boolean;
  #state: OutputState = 'text';

  constructor(options: OutputParserOptions) {
    const { format, reasoning, insideReasoning, tools, acceptCall = () => true } = options;
    this.#format = format;
    this.#names = new Set(tools.map(({ name }) => name));
    this.#acceptCall = acceptCall;
    this.#reasoning = reasoning;
    this.#leading = format?.leadingOpenings?.(tools) ?? [];
    this.#writer = new CallWriter(this.#parts, this.#reader, tools);
    const hasChannels = reasoning === HARMONY_CHANNELS || format?.place === 'header';
    this.#parsing = hasChannels ? this.#channels() : this.#output(insideReasoning);
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
   * Adds a piece of the output. Returns the parts that are ready, often none. If the piece is a control token, it is
   * omitted from a malformed call that becomes text.
   */
  push(text: string, isControl = false): OutputPart[] {
    this.#reader.push(text, isControl);
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
    else if (mark === close) this.#parts.reasoningMark();
  }

  *#reasoningUntil(ends: readonly string[]): Parsing<void> {
    this.#state = 'reasoning';
    this.#parts.reasoningMark();
    const end = yield* this.#untilOrEnd(ends, (text) => this.#parts.reasoning(text));
    if (end !== null) this.#parts.reasoningMark();
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
    let last = '';
    const text = (each: string): void => {
      last = each.at(-1) ?? last;
      this.#parts.text(each);
    };
    for (;;) {
      const opening = yield* this.#untilOrEnd(openings, text);
      if (opening === null) return;
      if (this.#format?.place === 'apart' && ATTACHED.test(last)) text(opening);
      else if (yield* this.#call(opening, text)) last = '';
    }
  }

  /** Parses the call or list of calls after an opening. Returns false if there is none. `sink` receives text that is not a call. */
  *#call(opening: string, sink = (text: string): void => this.#parts.text(text)): Parsing<boolean> {
    if (this.#format === null) return false;
    const [reader, writer] = [this.#reader, this.#writer];
    const { completed } = writer;
    const hasCall = (): boolean => writer.isOpen || writer.completed > completed;
    const check = (name: string): void => {
      if (!this.#names.has(name)) throw new MalformedCall();
    };
    const accept = (name: string): void => {
      check(name);
      if (this.#state === 'call') return;
      if (!this.#acceptCall(opening + reader.marked)) throw new MalformedCall();
      this.#state = 'call';
    };
    let isCut: boolean;
    reader.mark();
    try {
      yield* this.#format.parse({ reader, writer, opening, check, accept });
      isCut = reader.ended;
    } catch (error) {
      if (!(error instanceof MalformedCall)) throw error;
      isCut = reader.ended && this.#state === 'call';
      if (!isCut) sink(reader.unmark(hasCall() ? '' : opening));
    }
    // The parser waited for more text, so the rest is the start of the call's markup.
    if (isCut) reader.skip(reader.rest.length);
    writer.abandon();
    reader.unmark();
    this.#state = 'text';
    return writer.completed > completed;
  }

  /**
   * Reads messages of gpt-oss. Each has a header with its channel, up to `<|message|>`, and a body. The marks between them
   * are control tokens; the same texts in a body are text.
   */
  *#channels(): Parsing<void> {
    const openings = this.#format?.openings ?? [];
    this.#reader.marks = MARKS;
    while (yield* this.#reader.more()) {
      if ((yield* this.#reader.optional(START)) && !this.#reader.isMark(START)) this.#parts.text(START);
      const begin = yield* this.#reader.firstOf([CHANNEL, ...openings]);
      if (begin === CHANNEL && !this.#reader.isMark(CHANNEL)) {
        this.#parts.text(CHANNEL);
        yield* this.#body();
        continue;
      }
      if (begin !== null && begin !== CHANNEL) {
        if (yield* this.#call(begin)) yield* this.#reader.firstOf(BODY_ENDS);
        else yield* this.#body();
        continue;
      }
      let channel = '';
      let end: string | null = begin;
      let hasCall = false;
      while (end !== null && end !== MESSAGE && !hasCall) {
        if (end !== CHANNEL) hasCall = yield* this.#call(end, (text) => (channel += text));
        if (!hasCall) ({ end, channel } = yield* this.#header([MESSAGE, ...openings], channel));
      }
      if (hasCall) yield* this.#reader.firstOf(BODY_ENDS);
      else if (channel.startsWith('analysis')) yield* this.#reasoningUntil(BODY_ENDS);
      else yield* this.#body();
    }
  }

  /** Reads the body of a message, which is text. */
  *#body(): Parsing<void> {
    yield* this.#untilOrEnd(BODY_ENDS, (text) => this.#parts.text(text));
  }

  /**
   * Reads the header after its start, `channel`, up to one of `ends`. Characters beyond `MAX_CHANNEL` become text of the
   * response.
   */
  *#header(ends: readonly string[], channel: string): Parsing<{ end: string | null; channel: string }> {
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
      if (match === null) continue;
      if (this.#reader.isMark(match)) return match;
      sink(match);
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

const MARKS = [MESSAGE, CHANNEL, ...BODY_ENDS];

const MAX_CHANNEL = 256;

/** A character that an opening does not follow if it begins a call (`ToolFormat.place`). */
const ATTACHED = /^[\p{L}\p{N}_'"`‘“«]$/u;
