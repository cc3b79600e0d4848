import type { GenerationEvent, Usage } from '../generation.ts';
import type { GenerationKind } from './field.ts';

type TokenEvent = Extract<GenerationEvent, { type: 'token' }>;

/** How often a stream may show a new shape before every chunk of it is parsed: choices in turn do so each time. */
const MAX_LESSONS = 4;

/** Counts that grow with each chunk, where usage is on every chunk. */
const COUNTS = /"(completion_tokens|total_tokens)":(\d+)/g;

const QUOTE = '"';

/**
 * The shape that the token chunks of a stream share: all of a chunk but its text, and the counts of its usage, is
 * the same from one to the next. A chunk of the shape that was learned is read by comparing its two constant parts;
 * parsing each as JSON would cost several times as much, once a token of every stream. Whatever does not fit to the
 * letter is parsed.
 */
export class ChunkTemplate {
  readonly #textKey: string;
  #lessons = 0;
  /** Up to and including the quote that opens the text; '' before the first lesson. */
  #before = '';
  /** From the quote that closes the text, cut at the counts: one part without usage, three with. */
  #after: string[] = [];
  /** Which of the two counts is the completion's. */
  #completionAt = 0;
  #choice = 0;
  #usage: Usage | null = null;

  constructor(kind: GenerationKind) {
    this.#textKey = kind === 'chat' ? '"content":"' : '"text":"';
  }

  /** Usage as of the last chunk read here; null where the chunks tell none. */
  get usage(): Usage | null {
    return this.#usage;
  }

  /** Learns from a chunk that was parsed to this one token and no more. */
  learn(data: string, token: TokenEvent, usage: Usage | null): void {
    if (this.#lessons >= MAX_LESSONS || token.logprobs !== null) return;
    this.#lessons++;
    const at = data.indexOf(this.#textKey) + this.#textKey.length;
    const literal = JSON.stringify(token.text).slice(1);
    // A key of that name may stand elsewhere, and a server may escape otherwise: then nothing is learned.
    if (at < this.#textKey.length || !data.startsWith(literal, at)) return;
    const rest = data.slice(at + literal.length - 1);
    const counts = usage === null ? [] : [...rest.matchAll(COUNTS)];
    if (usage !== null && (counts.length !== 2 || counts[0]?.[1] === counts[1]?.[1])) return;
    this.#after = [];
    let from = 0;
    for (const [index, count] of counts.entries()) {
      const digits = count.index + count[0].length - (count[2] ?? '').length;
      this.#after.push(rest.slice(from, digits));
      from = count.index + count[0].length;
      if (count[1] === 'completion_tokens') this.#completionAt = index;
    }
    this.#after.push(rest.slice(from));
    this.#before = data.slice(0, at);
    this.#choice = token.choice;
    this.#usage = usage;
  }

  /** The token of a chunk of the learned shape; null for every other. */
  read(data: string): TokenEvent | null {
    const before = this.#before;
    if (before === '' || !data.startsWith(before)) return null;
    const end = data.indexOf(QUOTE, before.length);
    const text = data.slice(before.length, end);
    // An escape is the parser's business, and so is a text of nothing.
    if (end <= before.length || text.includes('\\')) return null;
    const completionTokens = this.#readCounts(data, end);
    if (completionTokens === undefined) return null;
    return { type: 'token', choice: this.#choice, text, completionTokens, logprobs: null };
  }

  /** The completion's count behind the text, null where chunks have none; undefined: it is of another shape. */
  #readCounts(data: string, end: number): number | null | undefined {
    const [first = '', second, third] = this.#after;
    if (!data.startsWith(first, end)) return undefined;
    let at = end + first.length;
    if (second === undefined || third === undefined) return at === data.length ? null : undefined;
    const firstEnd = digitsEnd(data, at);
    const one = data.slice(at, firstEnd);
    if (one === '' || !data.startsWith(second, firstEnd)) return undefined;
    at = firstEnd + second.length;
    const secondEnd = digitsEnd(data, at);
    const two = data.slice(at, secondEnd);
    if (two === '' || !data.startsWith(third, secondEnd) || secondEnd + third.length !== data.length) {
      return undefined;
    }
    const completionTokens = Number(this.#completionAt === 0 ? one : two);
    if (!Number.isSafeInteger(completionTokens) || this.#usage === null) return undefined;
    this.#usage = { ...this.#usage, completionTokens };
    return completionTokens;
  }
}

function digitsEnd(data: string, from: number): number {
  let at = from;
  for (let code = data.charCodeAt(at); code >= 48 && code <= 57; code = data.charCodeAt(at)) at++;
  return at;
}
