import type { ResponseFormat } from '../../generation.ts';
import { GrammarRules } from './grammar-rules.ts';
import { SchemaGrammar } from './grammar-schema.ts';
import type { TokenSample } from './grammar-work.ts';

/** A format that a text can fail to have. */
export type ConstrainedFormat = Exclude<ResponseFormat, { type: 'text' }>;

/**
 * The GBNF grammar (llama.cpp's notation, start rule `root`) of an answer in this format, for a model with this
 * vocabulary.
 *
 * Every string of the grammar is JSON and satisfies the schema, but not every instance is a string of it:
 * properties come in the order of the schema; where `properties` or `prefixItems` are given and their extras are
 * not mentioned, there are none; white space is bounded, because small models would go on in blanks for ever;
 * numbers have at most 15 digits before and 15 after the point.
 *
 * Throws 400 `unsupported_parameter` or `invalid_value` with the schema's path as `param` for what no grammar here
 * can hold, and for a schema whose grammar would be too large (see `grammar-rules.ts`) or take too long to follow (see
 * `grammar-work.ts`).
 */
export function grammarOf(format: ConstrainedFormat, tokens: TokenSample): string {
  if (format.type === 'json_object') return new GrammarRules('response_format').render('object');
  const path = 'response_format.json_schema.schema';
  const rules = new GrammarRules(path);
  return rules.render(new SchemaGrammar(format.schema, path, rules, tokens).root());
}
