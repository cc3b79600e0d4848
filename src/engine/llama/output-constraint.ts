import type { NativeGrammar, NativeModel, NativeSampler } from './binding.ts';
import type { ChatOutput } from './chat-output.ts';

export interface OutputGrammars {
  /** Constrains the whole answer after the reasoning; null: it is free. */
  answer: NativeGrammar | null;
  /**
   * Returns the grammar of a call in a free answer, which starts with the text `before` its opening; null: calls are
   * free.
   */
  call: ((before: string) => NativeGrammar) | null;
}

/** Selects the grammar for the next token of a choice: of the whole answer, or of the call that it is in. */
export class OutputConstraint {
  readonly #model: NativeModel;
  readonly #grammars: OutputGrammars;
  /** The last tokens, in which a call may begin. */
  #recent: { token: number; text: string }[] = [];
  #active: boolean;

  constructor(model: NativeModel, grammars: OutputGrammars, output: ChatOutput) {
    this.#model = model;
    this.#grammars = grammars;
    this.#active = grammars.answer !== null && output.state !== 'reasoning';
  }

  /** Whether a grammar constrains the next token. */
  get active(): boolean {
    return this.#active;
  }

  /** The grammar for the first token; null: none. */
  initial(): NativeGrammar | null {
    const { answer } = this.#grammars;
    return this.#active && answer !== null ? this.#model.copyGrammar(answer) : null;
  }

  /** Updates the sampler after a token, which `output` has received. */
  update(token: number, text: string, output: ChatOutput, sampler: NativeSampler): void {
    const { answer, call } = this.#grammars;
    if (answer !== null) {
      if (this.#active || output.state === 'reasoning') return;
      this.#constrain(sampler, this.#model.copyGrammar(answer));
    } else if (call !== null) {
      this.#recent.push({ token, text });
      if (this.#recent.length > MAX_OPENING_TOKENS) this.#recent.shift();
      const { callText } = output;
      if (callText !== null) this.#constrain(sampler, this.#callGrammar(call, callText));
      else if (this.#active && output.state !== 'call') this.#constrain(sampler, null);
    }
  }

  #constrain(sampler: NativeSampler, grammar: NativeGrammar | null): void {
    sampler.constrain(grammar);
    this.#active = grammar !== null;
  }

  /** Returns the grammar after the tokens that have begun a call; null: it does not allow them. */
  #callGrammar(call: (before: string) => NativeGrammar, callText: string): NativeGrammar | null {
    let from = this.#recent.length;
    let text = '';
    while (text.length < callText.length && from > 0) text = (this.#recent[--from]?.text ?? '') + text;
    if (!text.endsWith(callText)) return null;
    // The first token can begin before the opening.
    const grammar = this.#model.copyGrammar(call(text.slice(0, text.length - callText.length)));
    const allowed = this.#recent.slice(from).every(({ token }) => this.#model.advance(grammar, token));
    return allowed ? grammar : null;
  }
}

/** Maximum tokens of an opening, and of the text of a call in its last token. */
const MAX_OPENING_TOKENS = 64;
