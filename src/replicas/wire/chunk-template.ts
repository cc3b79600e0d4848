import { isUtf8 } from 'node:buffer';
import { NO_USAGE, type TextEvent, type Usage, type GenerationKind } from '../../core/generation.ts';

/** Maximum template changes per stream. Streams that alternate between choices would change it every time. */
const MAX_CHANGES = 4;

/** The numbers in a chunk that change from chunk to chunk: the token counts, if every chunk has usage, and the token's ID. */
const NUMBERS = /"(completion_tokens|total_tokens|token_ids)":\[?(\d+)/g;
const NUMBERS_OF_REASONING = /"(completion_tokens|total_tokens|reasoning_tokens|token_ids)":\[?(\d+)/g;

/** Keys that precede the text in a chunk. */
const TEXT_KEYS: Readonly<Record<GenerationKind, readonly string[]>> = {
  chat: ['"content":"'],
  text: ['"text":"'],
  embedding: [],
  rerank: [],
};
const REASONING_KEYS = ['"reasoning_content":"', '"reasoning":"'];

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;
const ZERO = 0x30;
const NINE = 0x39;

/**
 * Reads token chunks without parsing them. The chunks of a stream differ only in their text, usage and token ID, so
 * comparing the other bytes with a template is several times faster than splitting, decoding and parsing. Chunks that
 * do not match exactly are left to the parser.
 */
export class ChunkTemplate {
  readonly #kind: GenerationKind;
  #changes = 0;
  /** Everything up to and including the opening quote of the text; null without a template. */
  #before: Buffer | null = null;
  /**
   * The rest of the chunk from the closing quote of the text, split at its numbers. A chunk without usage and token ID
   * has a single part.
   */
  #after: Buffer[] = [];
  /** Indexes of `completion_tokens`, `reasoning_tokens` and `token_ids` among the numbers; -1: none. */
  #completionIndex = -1;
  #reasoningIndex = -1;
  #idIndex = -1;
  /** The token ID in the last chunk that was read. */
  #tokenId = 0;
  #type: TextEvent['type'] = 'token';
  #choice = 0;
  #usage: Usage | null = null;

  constructor(kind: GenerationKind) {
    this.#kind = kind;
  }

  /** Usage in the last chunk that was read; null if chunks have none. */
  get usage(): Usage | null {
    return this.#usage;
  }

  /** Creates the template from the data of an event that contains only this token. */
  learn(data: string, token: TextEvent, usage: Usage | null): void {
    if (this.#changes >= MAX_CHANGES || token.logprobs !== null) return;
    this.#changes++;
    const at = this.#textStart(data, token.type);
    const literal = JSON.stringify(token.text).slice(1);
    // The key may also occur elsewhere, and servers may escape differently.
    if (at < 0 || !data.startsWith(literal, at)) return;
    const rest = `${data.slice(at + literal.length - 1)}\n\n`;
    const pattern = token.type === 'reasoning' ? NUMBERS_OF_REASONING : NUMBERS;
    const numbers = [...rest.matchAll(pattern)].filter(([, name]) => name === 'token_ids' || usage !== null);
    const names = numbers.map(([, name]) => name);
    if (usage !== null && !names.includes('completion_tokens')) return;
    if (new Set(names).size < names.length) return;
    this.#completionIndex = names.indexOf('completion_tokens');
    this.#reasoningIndex = names.indexOf('reasoning_tokens');
    this.#idIndex = names.indexOf('token_ids');
    this.#after = [];
    let from = 0;
    for (const number of numbers) {
      const digits = number.index + number[0].length - (number[2] ?? '').length;
      this.#after.push(Buffer.from(rest.slice(from, digits)));
      from = number.index + number[0].length;
    }
    this.#after.push(Buffer.from(rest.slice(from)));
    this.#before = Buffer.from(`data: ${data.slice(0, at)}`);
    this.#type = token.type;
    this.#choice = token.choice;
    this.#usage = usage;
  }

  /**
   * Reads a chunk that is exactly one event and matches the template; otherwise returns null. `completionTokens` is 0 if
   * chunks have no usage.
   */
  read(bytes: Buffer): TextEvent | null {
    const before = this.#before;
    if (before === null || !matchesAt(bytes, before, 0)) return null;
    let end = before.length;
    let ascii = true;
    for (; bytes[end] !== QUOTE; end++) {
      const byte = bytes[end];
      // Leave escapes and invalid characters to the parser.
      if (byte === undefined || byte === BACKSLASH || byte < SPACE) return null;
      if (byte > 0x7f) ascii = false;
    }
    // An empty text is not a token.
    if (end === before.length) return null;
    if (!ascii && !isUtf8(bytes.subarray(before.length, end))) return null;
    if (!this.#readNumbers(bytes, end)) return null;
    const text = bytes.toString(ascii ? 'latin1' : 'utf8', before.length, end);
    const event: TextEvent = {
      type: this.#type,
      choice: this.#choice,
      text,
      completionTokens: this.#usage?.completionTokens ?? 0,
      logprobs: null,
    };
    if (this.#idIndex >= 0) event.tokenIds = [this.#tokenId];
    return event;
  }

  /** Returns the index after the opening quote of the text, or -1. */
  #textStart(data: string, type: TextEvent['type']): number {
    const keys = type === 'reasoning' ? REASONING_KEYS : TEXT_KEYS[this.#kind];
    for (const key of keys) {
      const at = data.indexOf(key);
      if (at >= 0) return at + key.length;
    }
    return -1;
  }

  /** Reads the usage and the token ID after the text. Returns whether the bytes match. */
  #readNumbers(bytes: Buffer, textEnd: number): boolean {
    let at = textEnd;
    let { completionTokens, reasoningTokens } = this.#usage ?? NO_USAGE;
    const last = this.#after.length - 1;
    for (let index = 0; index <= last; index++) {
      const part = this.#after[index] as Buffer; // The index is within the list.
      if (!matchesAt(bytes, part, at)) return false;
      at += part.length;
      if (index === last) break;
      const from = at;
      for (let byte = bytes[at]; byte !== undefined && byte >= ZERO && byte <= NINE; byte = bytes[at]) at++;
      // Longer numbers may not be exact.
      if (at === from || at - from > 15) return false;
      if (index === this.#completionIndex) completionTokens = Number(bytes.toString('latin1', from, at));
      else if (index === this.#reasoningIndex) reasoningTokens = Number(bytes.toString('latin1', from, at));
      else if (index === this.#idIndex) this.#tokenId = Number(bytes.toString('latin1', from, at));
    }
    if (at !== bytes.length) return false;
    if (this.#usage !== null) this.#usage = { ...this.#usage, completionTokens, reasoningTokens };
    return true;
  }
}

function matchesAt(bytes: Buffer, part: Buffer, at: number): boolean {
  const end = at + part.length;
  return end <= bytes.length && bytes.compare(part, 0, part.length, at, end) === 0;
}
