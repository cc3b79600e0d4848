import { ServiceError } from '../../errors.ts';
import type { ResponseFormat } from '../../generation.ts';
import type { NativeGrammar, NativeModel } from './binding.ts';
import { GrammarRules } from './grammar-rules.ts';
import { SchemaGrammar } from './grammar-schema.ts';
import { TokenSample } from './grammar-work.ts';
import type { Vocabulary } from './vocabulary.ts';

type ConstrainedFormat = Exclude<ResponseFormat, { type: 'text' }>;

/**
 * Returns a GBNF grammar (llama.cpp's notation, start rule `root`) for a response format.
 *
 * Every string of the grammar is JSON that satisfies the schema, but not vice versa: properties are in the order of the
 * schema; `properties` and `prefixItems` exclude others unless the schema mentions them; white space is bounded, because
 * small models would repeat it endlessly; numbers have at most 15 digits before and after the point.
 *
 * Throws 400 `unsupported_parameter` or `invalid_value` with the schema's path as `param` for unsupported schemas, and
 * for those whose grammar is too large (`grammar-rules.ts`) or too slow (`grammar-work.ts`).
 */
export function toGbnf(format: ConstrainedFormat, tokens: TokenSample): string {
  if (format.type === 'json_object') return new GrammarRules('response_format').render('object');
  const path = 'response_format.json_schema.schema';
  const rules = new GrammarRules(path);
  return rules.render(new SchemaGrammar(format.schema, path, rules, tokens).root());
}

const MAX_CACHED = 32;

/** Caches compiled grammars, so that a schema sent with every request is compiled once. */
export class GrammarCache {
  readonly #model: NativeModel;
  readonly #tokens: TokenSample;
  readonly #bySchema = new Map<string, NativeGrammar>();

  constructor(model: NativeModel, vocabulary: Vocabulary) {
    this.#model = model;
    this.#tokens = new TokenSample(vocabulary.size, (token) => vocabulary.tokenText(token));
  }

  /**
   * Returns the grammar in its initial state, to be copied for each choice; null: no constraint. Throws as `toGbnf`, and
   * 400 `invalid_value` at `response_format` if llama.cpp rejects the grammar.
   */
  grammar(format: ResponseFormat): NativeGrammar | null {
    if (format.type === 'text') return null;
    const key = JSON.stringify(format.type === 'json_schema' ? format.schema : format.type);
    const grammar = this.#bySchema.get(key) ?? this.#compile(format);
    // The first entry of the map is the least recently used one.
    this.#bySchema.delete(key);
    this.#bySchema.set(key, grammar);
    for (const oldest of this.#bySchema.keys()) {
      if (this.#bySchema.size <= MAX_CACHED) break;
      this.#bySchema.delete(oldest);
    }
    return grammar;
  }

  #compile(format: ConstrainedFormat): NativeGrammar {
    const grammar = this.#model.grammar(toGbnf(format, this.#tokens));
    if (grammar !== null) return grammar;
    throw new ServiceError(
      'invalid_value',
      '`response_format`: the schema is too large for constrained generation.',
      { param: 'response_format' },
    );
  }
}
