/**
 * Returns the known name that was probably meant, or null if no name is near. A name is near if it is equal except for
 * case and separators, contains the given name, or differs from it by at most two typing errors (one if the given name
 * has fewer than five characters).
 */
export function nearest(name: string, known: Iterable<string>): string | null {
  return rankNames(name, known).near;
}

/** Returns ` Did you mean …?` to append to a sentence; empty if no name is near. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const near = nearest(name, known);
  return near === null ? '' : ` Did you mean \`${near}\`?`;
}

/**
 * Returns the known name that differs from a name only by case, separators or one typing error; null: there is none. Names
 * of fields of other systems often contain a known name or differ from one by two letters.
 */
export function misspelled(name: string, known: Iterable<string>): string | null {
  const given = flatten(name);
  let near: string | null = null;
  for (const text of known) {
    const candidate = flatten(text);
    if (given === candidate) return text;
    const isSimilar = given.length >= SHORTEST && Math.abs(given.length - candidate.length) <= 1;
    if (isSimilar && near === null && editDistance(given, candidate) === 1) near = text;
  }
  return near;
}

/** Returns the ID of the model with this name. Ignores case, and what precedes the slash if only one model is left. */
export function modelNamed(name: string, ids: Iterable<string>): string | null {
  const wanted = name.toLowerCase();
  const known = [...ids];
  const exact = known.find((id) => id === name) ?? known.find((id) => id.toLowerCase() === wanted);
  if (exact !== undefined) return exact;
  const [match, ...others] = known.filter((id) => id.toLowerCase().split('/').at(-1) === wanted);
  return match !== undefined && others.length === 0 ? match : null;
}

/** Returns the known names, nearest first, and the one that `nearest` returns. */
export function rankNames(name: string, known: Iterable<string>): { near: string | null; ranked: string[] } {
  const given = flatten(name);
  const candidates = Array.from(known, (text) => ({ text, distance: distance(given, flatten(text)) }));
  const [best] = candidates.sort((a, b) => a.distance - b.distance);
  const near = best !== undefined && best.distance <= (name.length < 5 ? 1 : 2) ? best.text : null;
  return { near, ranked: candidates.map(({ text }) => text) };
}

/**
 * Minimum length of a name that can be an abbreviation or a typing error, in characters. Shorter names must be equal.
 */
const SHORTEST = 3;
/** Maximum number of characters that are compared, because the work grows with the product of the lengths. */
const COMPARED = 64;

const flatten = (name: string): string => name.toLowerCase().replaceAll(/[-_]/g, '').slice(0, COMPARED);

function distance(given: string, candidate: string): number {
  if (given === candidate) return 0;
  if (given.length < SHORTEST) return Infinity;
  // Names that contain the given one come first, shorter ones before longer ones. Names with typing errors follow.
  if (candidate.includes(given)) return 1 - 1 / candidate.length;
  const edits = editDistance(given, candidate);
  const name = afterSlash(candidate);
  // A wrong namespace counts as one additional error, a missing one does not.
  if (given.includes('/')) return Math.min(edits, 1 + distance(afterSlash(given), name));
  return name === candidate ? edits : Math.min(edits, distance(given, name));
}

const afterSlash = (name: string): string => name.slice(name.indexOf('/') + 1);

/** Counts insertions, deletions, substitutions and transpositions of adjacent characters (optimal string alignment). */
function editDistance(a: string, b: string): number {
  const width = b.length + 1;
  // Cell (i, j) is the distance between the first i characters of `a` and the first j of `b`.
  const cells = new Uint8Array((a.length + 1) * width);
  const at = (i: number, j: number): number => cells[i * width + j] ?? 0;
  for (let i = 0; i <= a.length; i += 1) {
    for (let j = 0; j <= b.length; j += 1) {
      let least = i === 0 || j === 0 ? i + j : Math.min(at(i - 1, j), at(i, j - 1)) + 1;
      if (i > 0 && j > 0) least = Math.min(least, at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        least = Math.min(least, at(i - 2, j - 2) + 1);
      }
      cells[i * width + j] = least;
    }
  }
  return at(a.length, b.length);
}
