/** Returns the cosine of two vectors of the same length, from -1 to 1; 0 if all numbers of one are 0. */
export function cosine(one: readonly number[], other: readonly number[]): number {
  let product = 0;
  for (const [index, value] of one.entries()) product += value * (other[index] ?? 0);
  const lengths = Math.hypot(...one) * Math.hypot(...other);
  // Rounding can lead to numbers slightly above 1.
  return lengths === 0 ? 0 : Math.min(1, Math.max(-1, product / lengths));
}
