/** Fewest characters that the service takes. */
const LEAST = 10;

/** How hard a password is to guess, as far as its looks tell. */
export interface Strength {
  /** How many of four bars are filled. */
  level: 0 | 1 | 2 | 3 | 4;
  word: string;
}

/** Rows of a keyboard and of the alphabet, which people take for passwords. */
const RUNS = ['abcdefghijklmnopqrstuvwxyz', '01234567890', 'qwertyuiop', 'asdfghjkl', 'zxcvbnm', 'password'];

/**
 * Judges a password that is to be: length is what counts, unless it is built from what others know (`known`: name and
 * e-mail address), from a run of keys, or from very few characters.
 */
export function strengthOf(password: string, known: readonly string[] = []): Strength {
  const length = password.length;
  if (length === 0) return { level: 0, word: `At least ${LEAST} characters` };
  if (length < LEAST) {
    const missing = LEAST - length;
    return { level: 0, word: `${missing} more ${missing === 1 ? 'character' : 'characters'}` };
  }
  const own = known.flatMap((words) => words.toLowerCase().split(/[^\p{L}\p{N}]+/u));
  const rest = [...own, ...RUNS]
    .filter((part) => part.length >= 3)
    .reduce((text, part) => text.replaceAll(part, ''), shortened(password.toLowerCase()));
  if (rest.length < 5 || new Set(rest).size < 4) return { level: 1, word: 'Easy to guess' };
  const kinds = [/\p{Ll}/u, /\p{Lu}/u, /\p{N}/u, /[^\p{L}\p{N}]/u].filter((kind) =>
    kind.test(password),
  ).length;
  const score = rest.length + (kinds > 2 ? 3 : 0);
  if (score < 13) return { level: 2, word: 'Fair; longer is stronger' };
  return score < 18 ? { level: 3, word: 'Strong' } : { level: 4, word: 'Very strong' };
}

/** With runs of four or more keys, upwards or repeated, cut to nothing: they add next to nothing. */
function shortened(text: string): string {
  const repeated = text.replaceAll(/(.)\1{3,}/gu, '');
  let cut = repeated;
  for (const run of RUNS) {
    for (let size = run.length; size >= 4; size--) {
      for (let from = 0; from + size <= run.length; from++)
        cut = cut.replaceAll(run.slice(from, from + size), '');
    }
  }
  return cut;
}
