import { readFileSync } from 'node:fs';
import { TokenSample } from '../../../src/engine/llama/grammar/grammar-work.ts';

/** A text that is never edited, because estimates of work depend on the tokens. */
const DOCUMENT = readFileSync(new URL('../../../LICENSE', import.meta.url), 'utf8');
const PIECE = / ?[a-zA-Z]{1,9}|\d{1,2}| ?[^\sa-zA-Z\d]{1,3}|\s+/g;

/** The tokens of a small model: words, parts of words, numbers and punctuation. */
export const TOKENS: readonly string[] = [...new Set(DOCUMENT.match(PIECE) ?? [])];

/** A vocabulary of 50,000 tokens. */
export const VOCABULARY: TokenSample = new TokenSample(
  50_000,
  (token) => TOKENS[token % TOKENS.length] ?? '',
);
