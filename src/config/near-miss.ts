/**
 * The known name that was probably meant: the same but for case and separators, or at most two typing errors away
 * (one, where the name is short). Null: none is near.
 */
export function nearMiss(name: string, known: readonly string[]): string | null {
  const flat = flatten(name);
  let best: string | null = null;
  let bestDistance = name.length < 5 ? 2 : 3;
  for (const candidate of known) {
    const distance = flatten(candidate) === flat ? 0 : editDistance(name, candidate);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

const flatten = (name: string): string => name.toLowerCase().replaceAll(/[-_]/g, '');

/** Longest name compared: the work grows with the product of the lengths, and an error message has a bound. */
const MAX_LENGTH = 64;

/** Insertions, deletions, substitutions and exchanges of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  if (a.length > MAX_LENGTH || b.length > MAX_LENGTH) return Infinity;
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Infinity;
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j += 1) {
      const same = a[i - 1] === b[j - 1];
      const exchanged = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      row.push(
        Math.min(
          at(i - 1, j) + 1,
          at(i, j - 1) + 1,
          at(i - 1, j - 1) + (same ? 0 : 1),
          exchanged ? at(i - 2, j - 2) + 1 : Infinity,
        ),
      );
    }
  }
  return at(a.length, b.length);
}
