/** Number of tokens that must recur before the tokens after them are predicted. */
const KEY_TOKENS = 3;

/** Entries that are searched for a key. Prompts can be written so that their keys would fill long runs of entries. */
const MAX_PROBES = 32;

/** Sizes of a draft, with the token before it. Kernels of llama.cpp compute tokens in groups of these sizes. */
export const MIN_DRAFT = 4;
const MAX_DRAFT = 16;

/**
 * Predicts the next tokens of a text that repeats itself: those that followed the latest earlier occurrence of its last
 * three tokens. Predictions cost nothing until they are computed, so all are checked against the tokens that follow, and
 * a draft is half as long as the text that the predictions have matched. After a wrong prediction, there is no draft
 * until as many were right again.
 */
export class Drafter {
  readonly #tokens: Uint32Array;
  /** Hash table with open addressing: for the key that ends before a position, this position. 0 if empty. */
  readonly #positions: Uint32Array;
  /** Keys that end before this position are in the table. */
  #indexed = KEY_TOKENS - 1;
  /** Position of the earlier token that predicts the next one; 0 if there is none. */
  #source = 0;
  /** Number of latest tokens that are the same as those before the source. */
  #matched = 0;

  /** The prompt is the first `length` of `tokens`. The completion and its drafts are added to the others. */
  constructor(tokens: Uint32Array, length: number) {
    this.#tokens = tokens;
    this.#positions = new Uint32Array(2 ** Math.ceil(Math.log2(2 * tokens.length)));
    while (this.#indexed < length) this.#index();
  }

  /**
   * Writes a draft after the first `length` tokens and returns its length, at most `max`. Call it after tokens were
   * added; those that it knows must not change.
   */
  draft(length: number, max: number): number {
    while (this.#indexed < length) this.#follow();
    const size = Math.min(this.#matched >> 1, max + 1, MAX_DRAFT);
    if (size < MIN_DRAFT) return 0;
    const drafted = 2 ** Math.floor(Math.log2(size)) - 1;
    // One at a time: if the text repeats within the draft, the source continues in it.
    for (let i = 0; i < drafted; i++) this.#tokens[length + i] = this.#tokens[this.#source + i] as number;
    return drafted;
  }

  /** Compares the next token with the prediction, and predicts the one after it. */
  #follow(): void {
    const isPredicted = this.#source > 0 && this.#tokens[this.#source] === this.#tokens[this.#indexed];
    const occurrence = this.#index();
    if (isPredicted) {
      this.#source++;
      this.#matched++;
    } else {
      this.#source = occurrence;
      this.#matched = occurrence === 0 ? 0 : KEY_TOKENS;
    }
  }

  /** Adds the key that ends with the next token. Returns the position after its latest earlier occurrence, or 0. */
  #index(): number {
    const end = this.#indexed++;
    const entry = this.#entry(end);
    const occurrence = this.#positions[entry] as number;
    this.#positions[entry] = end + 1;
    return occurrence;
  }

  /** Returns the entry of the key that ends with the token at `end`. If none is free, empties one. */
  #entry(end: number): number {
    const tokens = this.#tokens;
    const first = tokens[end - 2] as number;
    const second = tokens[end - 1] as number;
    const third = tokens[end] as number;
    const mask = this.#positions.length - 1;
    let entry = hashOf(first, second, third) & mask;
    for (let probes = 1; probes < MAX_PROBES; probes++) {
      const position = this.#positions[entry] as number;
      if (position === 0) return entry;
      if (tokens[position - 1] === third && tokens[position - 2] === second && tokens[position - 3] === first)
        return entry;
      entry = (entry + 1) & mask;
    }
    this.#positions[entry] = 0;
    return entry;
  }
}

/** Exported for tests. */
export function hashOf(first: number, second: number, third: number): number {
  let hash = Math.imul(first, 0x9e3779b1) ^ second;
  hash = Math.imul(hash, 0x85ebca6b) ^ third;
  hash = Math.imul(hash ^ (hash >>> 15), 0xc2b2ae35);
  return hash ^ (hash >>> 13);
}
