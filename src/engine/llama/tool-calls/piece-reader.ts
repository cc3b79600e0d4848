import { SequenceMatcher } from '../sequence-matcher.ts';

/** A parser of text that arrives in pieces. It yields when it needs more text. */
export type Parsing<T> = Generator<undefined, T, undefined>;

/** The text is not a call, or ends inside of one. */
export class MalformedCall extends Error {}

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

  push(text: string): void {
    const from = this.#mark ?? this.#at;
    this.#text = this.#text.slice(from) + text;
    this.#at -= from;
    if (this.#mark !== null) this.#mark = 0;
  }

  end(): void {
    this.#ended = true;
  }

  /** The text that arrived and was not read. */
  get rest(): string {
    return this.#text.slice(this.#at);
  }

  skip(units: number): void {
    this.#at += units;
  }

  /** Keeps the text from here on, for `unmark`. */
  mark(): void {
    this.#mark = this.#at;
  }

  /** Returns the text since the mark and removes the mark. */
  unmark(): string {
    const text = this.#mark === null ? '' : this.#text.slice(this.#mark, this.#at);
    this.#mark = null;
    return text;
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

  /** Reads until one of these sequences ends. Passes the text before it to `sink` and returns the sequence. */
  *until<T extends string>(sequences: readonly T[], sink: (text: string) => void): Parsing<T> {
    const matcher = new SequenceMatcher(sequences);
    while (yield* this.more()) {
      const { text, match, end } = matcher.push(this.rest);
      this.skip(end);
      if (text !== '') sink(text);
      if (match !== null) return match as T;
    }
    const rest = matcher.flush();
    if (rest !== '') sink(rest);
    throw new MalformedCall();
  }
}

export function isSpace(character: string): boolean {
  return character === ' ' || character === '\n' || character === '\t' || character === '\r';
}

function longest(texts: readonly string[]): number {
  return texts.reduce((length, text) => Math.max(length, text.length), 0);
}
