import { isUtf8 } from 'node:buffer';
import type { GenerationEvent, Usage } from '../generation.ts';
import type { GenerationKind } from './field.ts';

type TextEvent = Extract<GenerationEvent, { type: 'token' | 'reasoning' }>;

/** How often a stream may show a new shape before every chunk of it is parsed: choices in turn do so each time. */
const MAX_LESSONS = 4;

/** Counts that grow with each chunk, where usage is on every chunk. */
const COUNTS = /"(completion_tokens|total_tokens)":(\d+)/g;

/** What opens the text in a chunk. */
const CHAT_KEYS = ['"content":"'];
const TEXT_KEYS = ['"text":"'];
const REASONING_KEYS = ['"reasoning_content":"', '"reasoning":"'];

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
const ZERO = 0x30;
const NINE = 0x39;

/**
 * The bytes that the token chunks of a stream share: all of an event but its text, and the counts of its usage, is
 * the same from one to the next. A read that is one event of the shape that was learned costs a comparison of its
 * constant parts; splitting, decoding and parsing it would cost several times as much, once a token of every
 * stream. Whatever does not fit to the byte is left to the parser.
 */
export class ChunkTemplate {
  readonly #kind: GenerationKind;
  #lessons = 0;
  /** Up to and including the quote that opens the text; null before the first lesson. */
  #before: Buffer | null = null;
  /** From the quote that closes the text, cut at the counts: one part without usage, three with. */
  #after: Buffer[] = [];
  /** Which of the two counts is the completion's. */
  #completionAt = 0;
  #type: TextEvent['type'] = 'token';
  #choice = 0;
  #usage: Usage | null = null;

  constructor(kind: GenerationKind) {
    this.#kind = kind;
  }

  /** Usage as of the last chunk read here; null where the chunks tell none. */
  get usage(): Usage | null {
    return this.#usage;
  }

  /** Learns from the data of an event that was parsed to this one token and no more. */
  learn(data: string, token: TextEvent, usage: Usage | null): void {
    if (this.#lessons >= MAX_LESSONS || token.logprobs !== null) return;
    this.#lessons++;
    const at = this.#textAt(data, token.type);
    const literal = JSON.stringify(token.text).slice(1);
    // The key may also be elsewhere, and a server may escape differently: then nothing is learned.
    if (at < 0 || !data.startsWith(literal, at)) return;
    const rest = `${data.slice(at + literal.length - 1)}\n\n`;
    const counts = usage === null ? [] : [...rest.matchAll(COUNTS)];
    if (usage !== null && (counts.length !== 2 || counts[0]?.[1] === counts[1]?.[1])) return;
    this.#after = [];
    let from = 0;
    for (const [index, count] of counts.entries()) {
      const digits = count.index + count[0].length - (count[2] ?? '').length;
      this.#after.push(Buffer.from(rest.slice(from, digits)));
      from = count.index + count[0].length;
      if (count[1] === 'completion_tokens') this.#completionAt = index;
    }
    this.#after.push(Buffer.from(rest.slice(from)));
    this.#before = Buffer.from(`data: ${data.slice(0, at)}`);
    this.#type = token.type;
    this.#choice = token.choice;
    this.#usage = usage;
  }

  /**
   * The token of a read that is one whole event of the learned shape; null for every other. Its count is that of
   * `usage`, and 0 where chunks have none.
   */
  read(bytes: Buffer): TextEvent | null {
    const before = this.#before;
    if (before === null || !hasAt(bytes, before, 0)) return null;
    let end = before.length;
    let ascii = true;
    for (; bytes[end] !== QUOTE; end++) {
      const byte = bytes[end];
      // An escape is the parser's business, and so is what no JSON text may hold.
      if (byte === undefined || byte === BACKSLASH || byte < SPACE) return null;
      if (byte > 0x7f) ascii = false;
    }
    // A text of nothing is no token.
    if (end === before.length) return null;
    if (!ascii && !isUtf8(bytes.subarray(before.length, end))) return null;
    const completionTokens = this.#readCounts(bytes, end);
    if (completionTokens === undefined) return null;
    const text = bytes.toString(ascii ? 'latin1' : 'utf8', before.length, end);
    return {
      type: this.#type,
      choice: this.#choice,
      text,
      completionTokens: completionTokens ?? 0,
      logprobs: null,
    };
  }

  /** Where the text begins, behind its quote; -1 where there is no such key. */
  #textAt(data: string, type: TextEvent['type']): number {
    const keys = type === 'reasoning' ? REASONING_KEYS : this.#kind === 'chat' ? CHAT_KEYS : TEXT_KEYS;
    for (const key of keys) {
      const at = data.indexOf(key);
      if (at >= 0) return at + key.length;
    }
    return -1;
  }

  /** The completion's count behind the text, null where chunks have none; undefined: it is of another shape. */
  #readCounts(bytes: Buffer, textEnd: number): number | null | undefined {
    let at = textEnd;
    let completionTokens: number | null = null;
    const last = this.#after.length - 1;
    for (let index = 0; index <= last; index++) {
      const part = this.#after[index] as Buffer; // The index is within the list.
      if (!hasAt(bytes, part, at)) return undefined;
      at += part.length;
      if (index === last) break;
      const from = at;
      for (let byte = bytes[at]; byte !== undefined && byte >= ZERO && byte <= NINE; byte = bytes[at]) at++;
      // More digits than these would be no count, and might not be exact.
      if (at === from || at - from > 15) return undefined;
      if (index === this.#completionAt) completionTokens = Number(bytes.toString('latin1', from, at));
    }
    if (at !== bytes.length) return undefined;
    if (completionTokens !== null && this.#usage !== null) this.#usage = { ...this.#usage, completionTokens };
    return completionTokens;
  }
}

/** Whether these bytes stand at that place. */
function hasAt(bytes: Buffer, part: Buffer, at: number): boolean {
  const end = at + part.length;
  return end <= bytes.length && bytes.compare(part, 0, part.length, at, end) === 0;
}
