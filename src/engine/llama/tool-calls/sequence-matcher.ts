/**
 * Searches a text that arrives in pieces for several sequences. Finds the match that ends first, and the longest if
 * several end there. Uses a Knuth-Morris-Pratt automaton per sequence, so the time is linear however the text is split.
 */
export class SequenceMatcher {
  readonly #automata: readonly Automaton[];
  /** The longest suffix of the text that is the start of a sequence. */
  #heldBack = '';

  /** The sequences must not be empty. */
  constructor(sequences: readonly string[]) {
    this.#automata = sequences.map((sequence) => ({
      sequence,
      fallback: fallbackTable(sequence),
      length: 0,
    }));
  }

  /** Searches `text` up to the end of the first match. Pass the text after the match to the next call. */
  push(text: string): SearchResult {
    if (this.#automata.length === 0) return { text, match: null, end: text.length };
    for (let at = 0; at < text.length; at += 1) {
      const match = this.#advance(text.charCodeAt(at));
      if (match === null) continue;
      const whole = this.#heldBack + text.slice(0, at + 1);
      this.#heldBack = '';
      for (const automaton of this.#automata) automaton.length = 0;
      return { text: whole.slice(0, whole.length - match.length), match, end: at + 1 };
    }
    let heldLength = 0;
    for (const { length } of this.#automata) heldLength = Math.max(heldLength, length);
    const whole = this.#heldBack + text;
    this.#heldBack = whole.slice(whole.length - heldLength);
    return { text: whole.slice(0, whole.length - heldLength), match: null, end: text.length };
  }

  /** Returns the text that was held back, which is not searched again. */
  flush(): string {
    const heldBack = this.#heldBack;
    this.#heldBack = '';
    for (const automaton of this.#automata) automaton.length = 0;
    return heldBack;
  }

  /** Advances every automaton. Returns the longest completed sequence, or null if none is complete. */
  #advance(unit: number): string | null {
    let match: string | null = null;
    for (const automaton of this.#automata) {
      const { sequence, fallback } = automaton;
      let { length } = automaton;
      while (length > 0 && sequence.charCodeAt(length) !== unit) length = fallback[length - 1] ?? 0;
      if (sequence.charCodeAt(length) === unit) length += 1;
      automaton.length = length;
      if (length === sequence.length && length > (match?.length ?? 0)) match = sequence;
    }
    return match;
  }
}

export interface SearchResult {
  /** The text before the match, or the text that cannot be part of one. */
  text: string;
  /** The sequence that was found; null if there is none so far. */
  match: string | null;
  /**
   * Length of the searched text up to the end of the match, in UTF-16 code units. The whole length if there is no
   * match.
   */
  end: number;
}

interface Automaton {
  sequence: string;
  /** For each prefix, the length of its longest proper prefix that is also its suffix. */
  fallback: Uint32Array;
  /** Code units matched so far. */
  length: number;
}

/** Returns, for each prefix, the length of its longest proper prefix that is also its suffix. */
export function fallbackTable(sequence: string): Uint32Array {
  const table = new Uint32Array(sequence.length);
  let length = 0;
  for (let at = 1; at < sequence.length; at += 1) {
    const unit = sequence.charCodeAt(at);
    while (length > 0 && sequence.charCodeAt(length) !== unit) length = table[length - 1] ?? 0;
    if (sequence.charCodeAt(length) === unit) length += 1;
    table[at] = length;
  }
  return table;
}
