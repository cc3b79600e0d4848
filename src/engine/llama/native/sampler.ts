import assert from 'node:assert/strict';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import type { AddonGrammarState, AddonSampler, SamplerConfig } from './addon.ts';

/** A parsed grammar and its state. */
export interface NativeGrammar {
  readonly state: AddonGrammarState;
}

export class NativeSampler {
  readonly #native: AddonSampler;
  readonly #config: SamplerConfig;
  /** The tokens that penalties count; null without penalties. */
  readonly #history: number[] | null;
  #disposed = false;

  constructor(native: AddonSampler, config: SamplerConfig) {
    this.#native = native;
    this.#config = config;
    this.#history = config.repeatPenaltyTokens === undefined ? null : [...config.repeatPenaltyTokens];
  }

  /**
   * Constrains the next tokens to a grammar; null removes the constraint. Keeps the state of penalties and random
   * numbers.
   */
  constrain(grammar: NativeGrammar | null): void {
    this.native.applyConfig({
      ...this.#config,
      // The addon keeps the state of the penalties only if these tokens are the same as its own.
      ...(this.#history !== null && { repeatPenaltyTokens: Uint32Array.from(this.#history) }),
      ...(grammar !== null && { grammarEvaluationState: grammar.state }),
    });
  }

  /** For `NativeContext` only. Call it with each token that the sampler has returned. */
  accept(token: number): void {
    this.#history?.push(token);
  }

  /** For `NativeContext` only. */
  get native(): AddonSampler {
    assert(!this.#disposed, 'the sampler is disposed');
    return this.#native;
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#native.dispose();
  }
}

/**
 * Starts a garbage collection after every 32 samplers and copies of grammars, because V8 does not account for native
 * memory: a sampler uses 12 bytes per token of the vocabulary, and a grammar up to 2 MB. Neither is freed when it is
 * disposed of.
 */
export class GarbageTrigger {
  #objects = 0;

  allocated(): void {
    if (++this.#objects < 32) return;
    this.#objects = 0;
    // The collection takes a few milliseconds, but runs as a separate task, after the next decode has started.
    void collectGarbage({ type: 'major', execution: 'async' });
  }
}

// Only V8 contexts that are created after this flag is set have `gc`.
setFlagsFromString('--expose-gc');

const collectGarbage = runInNewContext('gc') as NodeJS.GCFunction;
