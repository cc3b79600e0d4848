import type { NativeGrammar, NativeSampler } from '../native/sampler.ts';
import type { NativeModel } from '../native/model.ts';
import type { ChoiceOutput } from './choice-output.ts';
import type { Vocabulary } from '../prompt/vocabulary.ts';

export interface OutputGrammars {
  /** Like `answer`, but also allows reasoning before it if the model may reason. Null if `answer` is null. */
  first: NativeGrammar | null;
  /** Constrains the whole answer after the reasoning. Null if the answer is not constrained as a whole. */
  answer: NativeGrammar | null;
  /**
   * Returns the grammar of a call in an answer that is not constrained as a whole. The grammar starts with the text
   * `before` the opening of the call. Null if calls are not constrained.
   */
  call: ((before: string) => NativeGrammar) | null;
}

/** Selects the grammar for the next token of a choice: the one for the whole answer or for the current call. */
export class OutputConstraint {
  readonly #model: NativeModel;
  readonly #grammars: OutputGrammars;
  readonly #vocabulary: Vocabulary;
  /** The latest tokens, because the opening of a call can consist of several. */
  #recent: number[] = [];
  #active: boolean;
  /** The grammar for the rest of the call that began with the latest token. */
  #begun: NativeGrammar | null = null;
  /** The current grammar of a choice that is replayed: no sampler has it yet. */
  #replayed: NativeGrammar | null = null;

  /** `insideReasoning`: see `OutputParserOptions`. */
  constructor(
    model: NativeModel,
    vocabulary: Vocabulary,
    grammars: OutputGrammars,
    insideReasoning: boolean,
  ) {
    this.#model = model;
    this.#vocabulary = vocabulary;
    this.#grammars = grammars;
    this.#active = grammars.answer !== null && !insideReasoning;
  }

  /** Whether a grammar constrains the next token. */
  get active(): boolean {
    return this.#active;
  }

  /** Whether an answer must follow the reasoning. */
  get requiresAnswer(): boolean {
    return this.#grammars.answer !== null;
  }

  /** Returns the grammar for the first token to be sampled, or null if the token is not constrained. */
  initial(): NativeGrammar | null {
    if (this.#replayed !== null) return this.#replayed;
    const { first } = this.#grammars;
    return this.#active && first !== null ? this.#model.copyGrammar(first) : null;
  }

  /**
   * Advances by a token that another engine has sampled. Returns false if the token is not allowed. Call it before
   * `output` receives the token, and then `update` without a sampler.
   */
  advance(token: number): boolean {
    if (!this.#active) return true;
    this.#replayed = this.initial();
    return this.#replayed === null || this.#model.advance(this.#replayed, token);
  }

  /** Adds a sampled token. Call it before `output` receives the token. */
  push(token: number): void {
    if (this.#grammars.call === null) return;
    this.#recent.push(token);
    if (this.#recent.length > MAX_OPENING_TOKENS) this.#recent.shift();
  }

  /**
   * Returns whether the grammar of a call, if there is one, allows the text of a call that the output has begun. The
   * grammar then constrains the rest of the call.
   */
  acceptCall(text: string): boolean {
    const { call } = this.#grammars;
    if (call === null) return true;
    this.#begun = this.#callGrammar(call, text);
    return this.#begun !== null;
  }

  /**
   * Selects the grammar for the token after the latest one. `sampler` is null if the token is replayed. Call it after
   * `output` has received the token.
   */
  update(output: ChoiceOutput, sampler: NativeSampler | null): void {
    const { answer } = this.#grammars;
    if (answer !== null) {
      const free = output.state === 'reasoning';
      if (this.#active !== free) return;
      this.#constrain(sampler, free ? null : this.#model.copyGrammar(answer));
    } else if (this.#begun !== null) {
      this.#constrain(sampler, this.#begun);
      this.#begun = null;
    } else if (this.#active && output.state !== 'call') this.#constrain(sampler, null);
  }

  #constrain(sampler: NativeSampler | null, grammar: NativeGrammar | null): void {
    if (sampler === null) this.#replayed = grammar;
    else sampler.constrain(grammar);
    this.#active = grammar !== null;
  }

  /**
   * Returns the grammar of a call, advanced by the tokens that began the call. Null if the grammar does not allow these
   * tokens.
   */
  #callGrammar(call: (before: string) => NativeGrammar, callText: string): NativeGrammar | null {
    const recent = Uint32Array.from(this.#recent);
    let from = recent.length;
    let text = '';
    // Decode the tokens together: each may have only a part of a character, which becomes U+FFFD.
    while ((!text.endsWith(callText) || text.startsWith('\uFFFD')) && from > 0)
      text = this.#vocabulary.textWithControls(recent.subarray(--from));
    if (!text.endsWith(callText)) return null;
    // The first of these tokens can contain text before the opening.
    const grammar = this.#model.copyGrammar(call(text.slice(0, text.length - callText.length)));
    const allowed = this.#recent.slice(from).every((token) => this.#model.advance(grammar, token));
    return allowed ? grammar : null;
  }
}

/** Maximum number of tokens from the opening of a call to the end of the name in it. */
const MAX_OPENING_TOKENS = 256;
