/** A change to one line that a test should catch. */
export interface Mutant {
  /** Relative to the root of the repository. */
  file: string;
  /** Counted from 1. */
  line: number;
  operator: 'negate a condition' | 'drop a call' | 'change a bound' | 'swap a connective' | 'change a sum';
  before: string;
  after: string;
}

/** Changes a line; null: not applicable to it. */
type Operator = (line: string) => string | null;

/** Calls without an effect that tests could observe, such as logging. */
const UNOBSERVABLE = /\blog\b|\.log\.|\.unref\(\)|clearTimeout|clearInterval|super\(|performance\.|console\./;

const OPERATORS: Readonly<Record<Mutant['operator'], Operator>> = {
  'negate a condition': (line) => {
    const start = /\b(?:if|while) \(/.exec(line);
    if (start === null) return null;
    const from = start.index + start[0].length;
    const to = closing(line, from);
    return to === -1 ? null : `${line.slice(0, from)}!(${line.slice(from, to)})${line.slice(to)}`;
  },
  'drop a call': (line) => {
    const call = /^(\s*)(?:else )?(?:await |void )?(?:this\.|[a-z])[\w.#?!]*\(.*\);$/.exec(line);
    return call === null || UNOBSERVABLE.test(line) ? null : `${call[1]};`;
  },
  'change a bound': (line) => replaceOnce(line, / (<=|>=|<|>) (?=[\w(#-])/, SWAPPED_BOUND),
  'swap a connective': (line) => replaceOnce(line, / (&&|\|\|) /, { '&&': '||', '||': '&&' }),
  'change a sum': (line) => replaceOnce(line, / (\+=|-=|\+|-) (?=[\w(#])/, SWAPPED_SIGN),
};

const SWAPPED_BOUND = { '<': '<=', '<=': '<', '>': '>=', '>=': '>' };
const SWAPPED_SIGN = { '+': '-', '-': '+', '+=': '-=', '-=': '+=' };

/** Returns all mutants of a source file, in order. Skips types, imports, comments and lines with strings. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const lines = source.split('\n');
  return lines.flatMap((before, index) => {
    if (isInert(before)) return [];
    return Object.entries(OPERATORS).flatMap(([operator, rewrite]) => {
      const after = rewrite(before);
      if (after === null || after === before) return [];
      // The keys of `OPERATORS`.
      return [{ file, line: index + 1, operator: operator as Mutant['operator'], before, after }];
    });
  });
}

/** Applies a mutant to its source. */
export function mutate(source: string, { line, after }: Mutant): string {
  return source
    .split('\n')
    .with(line - 1, after)
    .join('\n');
}

/** Returns whether a line has no code that runs, or has a string, in which an operator would change only text. */
function isInert(line: string): boolean {
  const code = line.trim();
  return (
    code === '' ||
    /^(?:\/\/|\/?\*|import |export (?:type|interface) |type |interface |readonly |declare )/.test(code) ||
    /['"`]/.test(code.replaceAll(/'[a-z_-]*'/g, ''))
  );
}

/** Returns the index of the parenthesis that closes the one before `from`; -1: it is on another line. */
function closing(line: string, from: number): number {
  let depth = 1;
  for (let index = from; index < line.length; index++) {
    if (line[index] === '(') depth++;
    else if (line[index] === ')' && --depth === 0) return index;
  }
  return -1;
}

/** Replaces the group of the first match; null: there is no match, or the line contains a type. */
function replaceOnce(
  line: string,
  pattern: RegExp,
  exchange: Readonly<Record<string, string>>,
): string | null {
  const found = pattern.exec(line);
  const operator = found?.[1];
  if (found === null || operator === undefined || / (?:extends|keyof) /.test(line)) return null;
  const at = found.index + 1;
  return `${line.slice(0, at)}${exchange[operator]}${line.slice(at + operator.length)}`;
}
