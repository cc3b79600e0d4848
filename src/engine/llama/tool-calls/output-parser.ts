import type { Tool } from '../../../core/generation.ts';
import { SequenceMatcher } from './sequence-matcher.ts';
import { ArgumentTypes, type ValueTypes } from './argument-types.ts';
import type { CallGrammar } from './call-grammar.ts';
import { HARMONY_CHANNELS, type ReasoningFormat } from './reasoning.ts';

/** How a family of models writes calls. */
export interface ToolFormat {
  readonly name: string;
  /** Texts that begin a call, or a list of calls, anywhere in the answer. They can include control tokens. */
  readonly openings: readonly string[];
  /**
   * Where `openings` are recognized: `anywhere`, because answers seldom contain such texts. `apart`: not directly after a
   * letter, a digit or a quotation mark, because the openings are ordinary text that code contains. `header`: only in the
   * headers of messages in channels.
   */
  readonly place: 'anywhere' | 'apart' | 'header';
  /** Additional openings, which are recognized only at the start of the answer. */
  readonly leadingOpenings?: (tools: readonly Tool[]) => readonly string[];
  /**
   * Whether another opening can follow a call. Otherwise, the output has one call, or one list of calls that `parse`
   * parses.
   */
  readonly repeats: boolean;
  /**
   * Parses the call, or the list of calls, after an opening. Accepts the name of each call as soon as the text can only
   * be a call. Throws `MalformedCall` if the output is not a call, or ends inside of it.
   */
  readonly parse: (call: CallParsing) => Parsing<void>;
  /** Returns a GBNF expression for what `parse` parses, including the opening. */
  readonly grammar: (grammar: CallGrammar) => string;
  /** Like `grammar`, for leading openings that `grammar` does not allow. Absent if `grammar` allows all of them. */
  readonly leadingGrammar?: (grammar: CallGrammar) => string;
  /** GBNF expression for the text between a call and the next opening. */
  readonly separator: string;
  /** GBNF expression for the text before the first call if a grammar constrains the whole output. Absent: none. */
  readonly preamble?: string;
}

export interface CallParsing {
  reader: PieceReader;
  writer: CallWriter;
  /** The opening that was found. */
  opening: string;
  /** Throws `MalformedCall` if no tool with this name is offered. */
  readonly check: (name: string) => void;
  /** Calls `check`. From the first accepted name on, the output is a call, and a grammar constrains the rest of it. */
  readonly accept: (name: string) => void;
}

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

/** A part of the output of a model. `arguments` belong to the last `call`; joined, they are a JSON object. */
export type OutputPart =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'arguments'; text: string }
  | { type: 'call'; name: string };

/** Maximum white space that is held back, in UTF-16 code units. */
const MAX_SPACE = 256;

/**
 * Collects the parts of an output and joins adjacent ones. Omits white space at both ends of the reasoning, at the start
 * of the text that follows it, before and between calls, and between the last call and the end.
 */
class PartCollector {
  #parts: OutputPart[] = [];
  #last: OutputPart['type'] | null = null;
  /** White space at the end of the text or reasoning so far, which may be omitted. */
  #space = '';
  /** Whether white space at the start of the next text or reasoning is omitted. */
  #trimsStart = false;

  /** Returns the parts that were collected since the last `take`. */
  take(): OutputPart[] {
    const parts = this.#parts;
    this.#parts = [];
    return parts;
  }

  text(text: string): void {
    this.#spaced('text', text);
  }

  beginReasoning(): void {
    this.#space = '';
    this.#trimsStart = true;
  }

  reasoning(text: string): void {
    this.#spaced('reasoning', text);
  }

  endReasoning(): void {
    this.#space = '';
    this.#trimsStart = true;
  }

  /** Starts a call. */
  call(name: string): void {
    this.#space = '';
    this.#trimsStart = false;
    this.#last = 'call';
    this.#parts.push({ type: 'call', name });
  }

  arguments(text: string): void {
    this.#add('arguments', text);
  }

  /** Ends the output. */
  end(): void {
    if (this.#last === 'text' || this.#last === null) this.#add('text', this.#space);
    this.#space = '';
  }

  #spaced(type: 'text' | 'reasoning', text: string): void {
    const whole = this.#space + (this.#trimsStart ? text.trimStart() : text);
    if (whole !== '') this.#trimsStart = false;
    const trimmed = whole.trimEnd();
    const keep = whole.length - trimmed.length > MAX_SPACE ? whole.length : trimmed.length;
    this.#space = whole.slice(keep);
    this.#add(type, whole.slice(0, keep));
  }

  #add(type: 'text' | 'reasoning' | 'arguments', text: string): void {
    if (text === '') return;
    this.#last = type;
    const last = this.#parts.at(-1);
    if (last !== undefined && last.type !== 'call' && last.type === type) last.text += text;
    else this.#parts.push({ type, text });
  }
}

/** A parser of text that arrives in pieces. It yields when it needs more text. */
export type Parsing<T> = Generator<undefined, T, undefined>;

/** The text is not a call, or ends inside of one. */
export class MalformedCall extends Error {}

/** At least the length of the longest opening, in UTF-16 code units. */
const MAX_OPENING = 64;

/** Maximum length of the text of a call before its arguments, in UTF-16 code units. */
const MAX_MARKED = 8192;

/** Maximum length of the name of a function or an argument, in UTF-16 code units. */
const MAX_NAME = 256;

/** Reads text that arrives in pieces. Methods that need text throw `MalformedCall` at the end of the text. */
export class PieceReader {
  #text = '';
  #at = 0;
  #mark: number | null = null;
  #ended = false;
  /** The latest control tokens. `from`: the position in `#text`, which can be negative. */
  #controls: { from: number; text: string }[] = [];
  /** Texts that count only as control tokens, from the first control token that begins one of them on. */
  marks: readonly string[] = [];
  #hasMarks = false;

  push(text: string, isControl = false): void {
    const from = this.#mark ?? this.#at;
    this.#text = this.#text.slice(from);
    this.#at -= from;
    if (this.#mark !== null) this.#mark = 0;
    this.#controls = this.#controls
      .map((control) => ({ ...control, from: control.from - from }))
      .filter((control) => control.from > -MAX_OPENING);
    if (isControl) {
      this.#controls.push({ from: this.#text.length, text });
      this.#hasMarks ||= this.marks.some((mark) => mark.startsWith(text));
    }
    this.#text += text;
  }

  end(): void {
    this.#ended = true;
  }

  /** Whether no more text arrives. */
  get ended(): boolean {
    return this.#ended;
  }

  /** The text that arrived and was not read. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  skip(units: number): void {
    this.#at += units;
  }

  /** Whether a text that was just read is not only the text of one of the `marks`. */
  isMark(text: string): boolean {
    if (!this.#hasMarks || !this.marks.includes(text)) return true;
    const from = this.#at - text.length;
    return this.#controls.some((control) => control.from === from && text.startsWith(control.text));
  }

  /** Keeps the text from here on, for `unmark`. */
  mark(): void {
    this.#mark = this.#at;
  }

  /** The text since the mark, including what was not read. */
  get marked(): string {
    return this.#text.slice(this.#mark ?? this.#at);
  }

  /**
   * Returns the text since the mark, after `before`, the text that was read before the mark. Omits control tokens.
   * Removes the mark.
   */
  unmark(before = ''): string {
    const mark = this.#mark ?? this.#at;
    const whole = before + this.#text.slice(mark, this.#at);
    this.#mark = null;
    let text = '';
    let end = 0;
    for (const control of this.#controls) {
      const from = control.from - mark + before.length;
      if (from < end || from >= whole.length) continue;
      text += whole.slice(end, from);
      end = from + control.text.length;
    }
    return text + whole.slice(end);
  }

  /** Waits for at least one code unit. Returns false at the end of the text. */
  *more(): Parsing<boolean> {
    if (this.#mark !== null && this.#at - this.#mark > MAX_MARKED) throw new MalformedCall();
    while (this.#at === this.#text.length) {
      if (this.#ended) return false;
      yield;
    }
    return true;
  }

  /** Returns the next code unit without reading it. */
  *peek(): Parsing<string> {
    if (!(yield* this.more())) throw new MalformedCall();
    return this.#text.charAt(this.#at);
  }

  /** Throws `MalformedCall` if the next code unit is not `character`. Does not read it. */
  *expect(character: string): Parsing<void> {
    if ((yield* this.peek()) !== character) throw new MalformedCall();
  }

  /** Reads white space. */
  *space(): Parsing<void> {
    while (isSpace(yield* this.peek())) this.#at += 1;
  }

  /** Reads `text` if it is next. */
  *optional(text: string): Parsing<boolean> {
    return (yield* this.firstOf([text])) !== null;
  }

  /** Reads `text`. Throws `MalformedCall` if other text is next. */
  *literal(text: string): Parsing<void> {
    if (!(yield* this.optional(text))) throw new MalformedCall();
  }

  /** Reads the longest of these texts that is next. Throws `MalformedCall` if none is. */
  *oneOf<T extends string>(texts: readonly T[]): Parsing<T> {
    const found = yield* this.firstOf(texts);
    if (found === null) throw new MalformedCall();
    return found;
  }

  /** Reads the longest of these texts that is next. Returns null if none is, or if there is no more text. */
  *firstOf<T extends string>(texts: readonly T[]): Parsing<T | null> {
    for (;;) {
      const rest = this.#text.slice(this.#at, this.#at + longest(texts));
      const waits = texts.some((text) => text.length > rest.length && text.startsWith(rest));
      if (waits && !this.#ended) {
        yield;
        continue;
      }
      const found = texts.filter((text) => rest.startsWith(text));
      if (found.length === 0) return null;
      const best = found.reduce((a, b) => (b.length > a.length ? b : a));
      this.#at += best.length;
      return best;
    }
  }

  /** Reads a name that ends before one of these characters. Trims white space. */
  *name(ends: string): Parsing<string> {
    let name = '';
    for (let next = yield* this.peek(); !ends.includes(next); next = yield* this.peek()) {
      name += next;
      this.#at += 1;
      if (name.length > MAX_NAME) throw new MalformedCall();
    }
    name = name.trim();
    if (name === '') throw new MalformedCall();
    return name;
  }

  /**
   * Reads until one of these sequences ends. Passes the text before it to `sink` and returns the sequence. If the text
   * ends first, omits what may be the start of a sequence.
   */
  *until<T extends string>(sequences: readonly T[], sink: (text: string) => void): Parsing<T> {
    const matcher = new SequenceMatcher(sequences);
    while (yield* this.more()) {
      const { text, match, end } = matcher.push(this.rest);
      this.skip(end);
      if (text !== '') sink(text);
      if (match !== null) return match as T;
    }
    throw new MalformedCall();
  }
}

export function isSpace(character: string): boolean {
  return character === ' ' || character === '\n' || character === '\t' || character === '\r';
}

function longest(texts: readonly string[]): number {
  return texts.reduce((length, text) => Math.max(length, text.length), 0);
}

/** Receives the calls of a parser. */
export class CallWriter {
  /** Calls that have ended. */
  completed = 0;
  readonly #parts: PartCollector;
  readonly #reader: PieceReader;
  readonly #types: ArgumentTypes;
  #name: string | null = null;
  #members = 0;

  constructor(parts: PartCollector, reader: PieceReader, tools: readonly Tool[]) {
    this.#parts = parts;
    this.#reader = reader;
    this.#types = new ArgumentTypes(tools);
  }

  /** Whether a call has begun and not ended. */
  get isOpen(): boolean {
    return this.#name !== null;
  }

  /**
   * Starts a call. From here on, the text read so far is not returned as text, even if the call turns out to be
   * malformed.
   */
  begin(name: string): void {
    this.#reader.unmark();
    this.#name = name;
    this.#members = 0;
    this.#parts.call(name);
  }

  /** Adds JSON text to the arguments. */
  json(text: string): void {
    this.#parts.arguments(text);
  }

  /** Adds a member to the arguments. Its value must follow. */
  key(name: string): void {
    this.json(`${this.#members === 0 ? '{' : ', '}${JSON.stringify(name)}: `);
    this.#members += 1;
  }

  /** Whether the schema of a tool lists an argument. */
  hasArgument(tool: string, argument: string): boolean {
    return this.#types.has(tool, argument);
  }

  /** Returns the types of an argument of the current call, by the tool's schema. */
  typesOf(argument: string): ValueTypes {
    return this.#types.of(this.#name ?? '', argument);
  }

  /** Ends arguments that were added with `key`. */
  closeArguments(): void {
    this.json(this.#members === 0 ? '{}' : '}');
  }

  /** Ends the call. The output after it is returned as text unless it is another call. */
  end(): void {
    this.#name = null;
    this.completed += 1;
    this.#reader.mark();
  }

  /** Ends the call if it is open. The call can be complete, malformed or cut off. */
  abandon(): void {
    if (this.isOpen) this.end();
  }
}
