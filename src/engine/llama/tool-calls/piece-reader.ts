import { SequenceMatcher } from './sequence-matcher.ts';

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
