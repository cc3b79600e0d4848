import type { Embeddings } from '../../api/embed.ts';

/** Maximum number of texts. The service takes more in a request. */
export const MAX_TEXTS = 10;
/** Minimum number of texts. */
export const MIN_TEXTS = 2;

/** The embeddings of texts by a model, and their cost. */
export interface Comparison extends Embeddings {
  model: string;
  texts: readonly string[];
  /** USD, a decimal string. */
  cost: string;
}

/**
 * Returns the cosine of the vectors of two texts, from -1 to 1. Null if the comparison does not have both texts, because
 * it is of another model or the texts were changed since.
 */
export function cosineOf(
  { model, texts, vectors }: Comparison,
  chosen: string,
  first: string,
  second: string,
): number | null {
  if (model !== chosen) return null;
  const one = vectors[texts.indexOf(first)];
  const other = vectors[texts.indexOf(second)];
  return one === undefined || other === undefined ? null : cosine(one, other);
}

/** Returns the cosine of two vectors of the same length; 0 if all numbers of one are 0. */
function cosine(one: readonly number[], other: readonly number[]): number {
  let product = 0;
  for (const [index, value] of one.entries()) product += value * (other[index] ?? 0);
  const lengths = Math.hypot(...one) * Math.hypot(...other);
  // Rounding can lead to numbers slightly above 1.
  return lengths === 0 ? 0 : Math.min(1, Math.max(-1, product / lengths));
}

/** Returns an error for each empty text, by the name of its field in the API. */
export function textErrors(texts: readonly string[]): Readonly<Record<string, string>> {
  return Object.fromEntries(
    texts.flatMap((text, index) => (text.trim() === '' ? [[fieldOf(index), 'Enter a text.']] : [])),
  );
}

/** Returns the name of the field of a text in the API, which errors refer to. */
export const fieldOf = (index: number): string => `input[${index}]`;
