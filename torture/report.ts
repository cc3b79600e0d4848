import type { Bombs } from './bombs.ts';
import type { Difference } from './compare.ts';
import type { Outcome, Progress } from './run.ts';

/** How often progress is told, in milliseconds, and differences that are written out in full. */
const TELL_MS = 15_000;
const WRITTEN_OUT = 50;

const KINDS = ['lost', 'doubled', 'wrong', 'open', 'unserved'] as const;

/** Prints how far a run of so many faults is: now and then a line, with what has been done to it so far. */
export function tell(faults: number): (progress: Progress) => void {
  let toldAt = performance.now();
  return (progress) => {
    if (performance.now() - toldAt < TELL_MS) return;
    toldAt = performance.now();
    console.log(`\n${progress.struck} of ${faults} faults, ${progress.books.entries.length} requests`);
    console.log(tableOf(progress));
  };
}

/** One line, and one for each fault. */
export function reportOfBombs({ sent, refused, longestPauseMs, longestDuring, faults }: Bombs): string {
  const pause = `${Math.round(longestPauseMs)} ms without a token for the other caller at most (${longestDuring})`;
  return [`bombs: ${sent} schemas, ${refused} refused, ${pause}`, ...faults].join('\n');
}

/** The table of a whole run, and below it every difference with its rows. */
export function report(outcome: Outcome): string {
  const { struck, books, rows, differences, folder } = outcome;
  const counts = KINDS.map((kind) => `${count(differences, kind)} ${kind}`).join(', ');
  const lines = [
    '',
    tableOf(outcome),
    '',
    ...[...books.models].map(([model, { asked, whole }]) => `${model}: ${whole} of ${asked} responses whole`),
    '',
    ...differences.slice(0, WRITTEN_OUT).map(written),
    `${struck} faults, ${books.entries.length} requests, ${rows} rows: ${counts}`,
  ];
  if (differences.length > WRITTEN_OUT) lines.push(`${differences.length - WRITTEN_OUT} more are not shown.`);
  if (folder !== null) lines.push(`The logs of all processes are in ${folder}`);
  return lines.join('\n');
}

function count(differences: readonly Difference[], kind: Difference['kind']): number {
  return differences.filter((difference) => difference.kind === kind).length;
}

/** Kinds of faults on the left, endings of requests on the right. */
function tableOf({ faults, books }: Progress): string {
  const left = [...faults].sort(([, a], [, b]) => b - a).map(line);
  const right = books.counts.map(line);
  const width = Math.max(0, ...left.map(({ length }) => length)) + 4;
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) =>
    `  ${(left[index] ?? '').padEnd(width)}${right[index] ?? ''}`.trimEnd(),
  ).join('\n');
}

function line([name, times]: [string, number]): string {
  return `${String(times).padStart(6)}  ${name}`;
}

/** One difference with all that is known of it; never the key of the caller. */
function written({ kind, what, entry, rows = [] }: Difference): string {
  const lines = [`${kind.toUpperCase()}: ${what}`];
  if (entry) {
    const { wish, ...seen } = entry;
    const { caller, ...wished } = wish;
    lines.push(`  caller ${JSON.stringify(seen)}`);
    lines.push(`  wish   ${JSON.stringify({ ...wished, account: caller.account, keyId: caller.keyId })}`);
  }
  for (const row of rows)
    lines.push(
      `  row    ${JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? String(value) : value))}`,
    );
  return `${lines.join('\n')}\n`;
}
