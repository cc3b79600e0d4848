/** One change of one line that a test should notice. */
export interface Mutant {
  /** Path below the root of the repository. */
  file: string;
  /** Counted from 1. */
  line: number;
  operator: 'negate a condition' | 'drop a call' | 'change a bound' | 'swap a connective' | 'change a sum';
  before: string;
  after: string;
}

/** A rewrite of one line; null where the line has no place for it. */
type Operator = (line: string) => string | null;

/** Calls whose absence no caller can observe: the log, timers that only let the process end, garbage collection. */
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

/** Every mutant of a source file, in order. Types, imports, comments and lines with text are left alone. */
export function mutantsOf(file: string, source: string): Mutant[] {
  const lines = source.split('\n');
  return lines.flatMap((before, index) => {
    if (isInert(before)) return [];
    return Object.entries(OPERATORS).flatMap(([operator, rewrite]) => {
      const after = rewrite(before);
      if (after === null || after === before) return [];
      // The keys of the table are its operators.
      return [{ file, line: index + 1, operator: operator as Mutant['operator'], before, after }];
    });
  });
}

/** The source with this mutant's line in place of the original. */
export function mutate(source: string, { line, after }: Mutant): string {
  return source
    .split('\n')
    .with(line - 1, after)
    .join('\n');
}

/** Whether a line holds no code that runs, or text in which an operator would only change words. */
function isInert(line: string): boolean {
  const code = line.trim();
  return (
    code === '' ||
    /^(?:\/\/|\/?\*|import |export (?:type|interface) |type |interface |readonly |declare )/.test(code) ||
    /['"`]/.test(code.replaceAll(/'[a-z_-]*'/g, ''))
  );
}

/** Index of the parenthesis that closes the one before `from`; -1 when it is on another line. */
function closing(line: string, from: number): number {
  let depth = 1;
  for (let index = from; index < line.length; index++) {
    if (line[index] === '(') depth++;
    else if (line[index] === ')' && --depth === 0) return index;
  }
  return -1;
}

/** The line with the first match's group exchanged; null where there is no match, or it belongs to a type. */
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
