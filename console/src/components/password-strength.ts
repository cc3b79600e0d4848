import { counted } from '../format/number.ts';

/** Minimum password length that the service accepts. */
const MIN_LENGTH = 10;

/** An estimate of how hard a password is to guess. */
export interface Strength {
  /** Number of filled bars, out of four. */
  level: 0 | 1 | 2 | 3 | 4;
  word: string;
}

/** Common sequences in passwords. */
const RUNS = ['abcdefghijklmnopqrstuvwxyz', '01234567890', 'qwertyuiop', 'asdfghjkl', 'zxcvbnm', 'password'];

/**
 * Estimates the strength of a new password. Length counts, except for characters from `known` (name and email address),
 * keyboard sequences and repetitions.
 */
export function strengthOf(password: string, known: readonly string[] = []): Strength {
  const length = password.length;
  if (length === 0) return { level: 0, word: `At least ${MIN_LENGTH} characters` };
  if (length < MIN_LENGTH) {
    const missing = MIN_LENGTH - length;
    return { level: 0, word: counted(missing, 'more character') };
  }
  const own = known.flatMap((words) => words.toLowerCase().split(/[^\p{L}\p{N}]+/u));
  const rest = [...own, ...RUNS]
    .filter((part) => part.length >= 3)
    .reduce((text, part) => text.replaceAll(part, ''), withoutRuns(password.toLowerCase()));
  if (rest.length < 5 || new Set(rest).size < 4) return { level: 1, word: 'Easy to guess' };
  const kinds = [/\p{Ll}/u, /\p{Lu}/u, /\p{N}/u, /[^\p{L}\p{N}]/u].filter((kind) =>
    kind.test(password),
  ).length;
  const score = rest.length + (kinds > 2 ? 3 : 0);
  if (score < 13) return { level: 2, word: 'Fair' };
  return score < 18 ? { level: 3, word: 'Strong' } : { level: 4, word: 'Very strong' };
}

/** Removes sequences and repetitions of four or more characters, which add almost no strength. */
function withoutRuns(text: string): string {
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
