import { ServiceError } from '../../errors.ts';
import type { ResponseFormat } from '../../generation.ts';
import type { NativeGrammar, NativeModel } from './binding.ts';
import { type ConstrainedFormat, grammarOf } from './grammar.ts';
import { TokenSample } from './grammar-work.ts';
import type { Vocabulary } from './vocabulary.ts';

/** Compiled grammars of late, so that a schema sent with every request is compiled once. */
export class GrammarCache {
  readonly #model: NativeModel;
  readonly #tokens: TokenSample;
  readonly #bySchema = new Map<string, NativeGrammar>();

  constructor(model: NativeModel, vocabulary: Vocabulary) {
    this.#model = model;
    this.#tokens = new TokenSample(vocabulary.size, (token) => vocabulary.tokenText(token));
  }

  /**
   * The format's grammar at its beginning, to be copied for each choice; null: anything may be written. Throws as
   * `grammarOf` does, and 400 `invalid_value` at `response_format` where llama.cpp refuses the grammar.
   */
  grammar(format: ResponseFormat): NativeGrammar | null {
    if (format.type === 'text') return null;
    const key = JSON.stringify(format.type === 'json_schema' ? format.schema : format.type);
    const grammar = this.#bySchema.get(key) ?? this.#compile(format);
    // A Map keeps its order of insertion, so the first is the one that was used least recently.
    this.#bySchema.delete(key);
    this.#bySchema.set(key, grammar);
    for (const oldest of this.#bySchema.keys()) {
      if (this.#bySchema.size <= MOST_CACHED) break;
      this.#bySchema.delete(oldest);
    }
    return grammar;
  }

  #compile(format: ConstrainedFormat): NativeGrammar {
    const grammar = this.#model.grammar(grammarOf(format, this.#tokens));
    if (grammar !== null) return grammar;
    throw new ServiceError(
      'invalid_value',
      '`response_format`: the schema is too large for constrained generation.',
      {
        param: 'response_format',
      },
    );
  }
}

const MOST_CACHED = 32;
