/**
 * Tokens in, text out: whole characters only, never part of a stop sequence, and nothing held longer than
 * these two rules ask. One object a choice; it lives as long as the choice is generated.
 */
export class TextStream {
  readonly #characters: CharacterAssembler;
  readonly #stop: StopMatcher;

  /**
   * `detokenize` gives the text of tokens as it stands in the middle of a text (see `midText`). `stop` are the
   * sequences that end the text; they are not part of it. An empty one is ignored, and so is one with half a
   * surrogate pair, which no text can hold.
   */
  constructor(options: { detokenize: Detokenize; stop: readonly string[] }) {
    this.#characters = new CharacterAssembler(options.detokenize);
    this.#stop = new StopMatcher(options.stop.filter((stop) => stop !== '' && stop.isWellFormed()));
  }

  /** Whether a stop sequence has matched. From then on nothing comes out any more. */
  get stopped(): boolean {
    return this.#stop.matched;
  }

  /** Takes the next token and returns the text that may leave now, often empty. */
  push(token: number): string {
    if (this.stopped) return '';
    return this.#stop.push(this.#characters.push(token));
  }

  /** Returns what was held back. Call it once, when no token follows. */
  flush(): string {
    if (this.stopped) return '';
    return this.#stop.push(this.#characters.flush()) + this.#stop.flush();
  }
}

export type Detokenize = (tokens: Uint32Array) => string;

/**
 * Makes a detokenizer position-independent. SentencePiece vocabularies drop the space before the first token of
 * a call, so each call starts with `anchor`, a token with whole characters or no text (BOS serves, control
 * tokens have none), and its text is cut off again.
 */
export function midText(detokenize: Detokenize, anchor: number): Detokenize {
  const anchorLength = detokenize(Uint32Array.of(anchor)).length;
  return (tokens) => {
    const anchored = new Uint32Array(tokens.length + 1);
    anchored[0] = anchor;
    anchored.set(tokens, 1);
    return detokenize(anchored).slice(anchorLength);
  };
}

/** What a decoder of UTF-8 puts where bytes make no character, or not yet. */
const REPLACEMENT = '\uFFFD';

/** An unfinished character has at most 3 bytes, so at most the last 3 tokens with bytes belong to it. */
const UNFINISHED_TOKENS = 3;

/**
 * Joins tokens that end in the middle of a character. Bytes that end unfinished decode to one replacement
 * character at the end of the text; that one is held, all before it is final. Usually a token is whole and
 * costs one call with one token.
 */
class CharacterAssembler {
  readonly #detokenize: Detokenize;
  readonly #one = new Uint32Array(1);
  #pending: number[] = [];
  /** Code units of the pending tokens' text that have left already. */
  #released = 0;

  constructor(detokenize: Detokenize) {
    this.#detokenize = detokenize;
  }

  push(token: number): string {
    let text: string;
    if (this.#pending.length === 0) {
      this.#one[0] = token;
      text = this.#detokenize(this.#one);
      if (!text.endsWith(REPLACEMENT)) return text;
    } else {
      text = this.#text([...this.#pending, token]);
    }
    const fresh = text.slice(this.#released);
    if (!text.endsWith(REPLACEMENT)) {
      this.#pending = [];
      this.#released = 0;
      return fresh;
    }
    this.#pending.push(token);
    this.#released = Math.max(this.#released, text.length - 1);
    if (this.#pending.length > UNFINISHED_TOKENS) return fresh.slice(0, -1) + this.#forgetOldest();
    return fresh.slice(0, -1);
  }

  /** The end of the text: what is unfinished now stays so. */
  flush(): string {
    if (this.#pending.length === 0) return '';
    const text = this.#text(this.#pending).slice(this.#released);
    this.#pending = [];
    this.#released = 0;
    return text;
  }

  /** Keeps `#pending` bounded. Returns what the tokens that stay do not explain, so that it can leave. */
  #forgetOldest(): string {
    const kept = this.#pending.slice(-UNFINISHED_TOKENS);
    const text = this.#text(kept);
    if (!text.endsWith(REPLACEMENT)) return this.flush();
    this.#pending = kept;
    this.#released = text.length - 1;
    return '';
  }

  #text(tokens: readonly number[]): string {
    return this.#detokenize(Uint32Array.from(tokens));
  }
}

/**
 * Finds the stop sequence that is complete first (of several complete at once the longest) and cuts the text
 * before it. Each sequence is a Knuth-Morris-Pratt automaton, so the cost is linear in the text whatever the
 * sequences are, and the result does not depend on how the text comes in pieces.
 */
class StopMatcher {
  matched = false;
  readonly #automata: readonly Automaton[];
  /** The longest suffix of the text so far that is the beginning of a stop sequence. */
  #held = '';

  constructor(stop: readonly string[]) {
    this.#automata = stop.map((sequence) => ({ sequence, fallback: fallbackTable(sequence), length: 0 }));
  }

  push(text: string): string {
    if (this.#automata.length === 0) return text;
    for (let at = 0; at < text.length; at += 1) {
      const complete = this.#advance(text.charCodeAt(at));
      if (complete > 0) {
        this.matched = true;
        const whole = this.#held + text.slice(0, at + 1);
        this.#held = '';
        return whole.slice(0, whole.length - complete);
      }
    }
    let begun = 0;
    for (const { length } of this.#automata) begun = Math.max(begun, length);
    const whole = this.#held + text;
    this.#held = whole.slice(whole.length - begun);
    return whole.slice(0, whole.length - begun);
  }

  flush(): string {
    const held = this.#held;
    this.#held = '';
    return held;
  }

  /** Feeds one code unit to every automaton; returns the length of the longest sequence it completes, or 0. */
  #advance(unit: number): number {
    let complete = 0;
    for (const automaton of this.#automata) {
      const { sequence, fallback } = automaton;
      let { length } = automaton;
      while (length > 0 && sequence.charCodeAt(length) !== unit) length = fallback[length - 1] ?? 0;
      if (sequence.charCodeAt(length) === unit) length += 1;
      automaton.length = length;
      if (length === sequence.length) complete = Math.max(complete, length);
    }
    return complete;
  }
}

interface Automaton {
  sequence: string;
  /** For each prefix, the length of its longest proper prefix that is also its suffix. */
  fallback: Uint32Array;
  /** Code units matched so far. */
  length: number;
}

function fallbackTable(sequence: string): Uint32Array {
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
