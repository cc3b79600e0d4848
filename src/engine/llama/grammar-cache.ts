import { ServiceError } from '../../errors.ts';
import type { ResponseFormat } from '../../generation.ts';
import type { NativeGrammar, NativeModel } from './binding.ts';
import { grammarOf } from './grammar.ts';

/** Compiled grammars of late, so that a schema sent with every request is parsed once. */
export class GrammarCache {
  readonly #model: NativeModel;
  readonly #byText = new Map<string, NativeGrammar>();

  constructor(model: NativeModel) {
    this.#model = model;
  }

  /**
   * The format's grammar at its beginning, to be copied for each choice; null: anything may be written. 400
   * `invalid_value` at `response_format` where the schema makes a grammar that is too long or does not compile.
   */
  grammar(format: ResponseFormat): NativeGrammar | null {
    const gbnf = grammarOf(format);
    if (gbnf === null) return null;
    const known = this.#byText.get(gbnf);
    if (known !== undefined) this.#byText.delete(gbnf);
    const grammar = known ?? this.#compile(gbnf);
    this.#byText.set(gbnf, grammar);
    // A Map keeps its order of insertion, so the first is the one that was used least recently.
    for (const oldest of this.#byText.keys()) {
      if (this.#byText.size <= MOST_CACHED) break;
      this.#byText.delete(oldest);
    }
    return grammar;
  }

  #compile(gbnf: string): NativeGrammar {
    const grammar = gbnf.length > LONGEST ? null : this.#model.grammar(gbnf);
    if (grammar !== null) return grammar;
    throw new ServiceError('invalid_value', 'response_format: the schema is too large to generate by.', {
      param: 'response_format',
    });
  }
}

const MOST_CACHED = 32;

/** Characters of GBNF. Parsing is synchronous, some 10 ms for this much. */
const LONGEST = 262_144;
