import type { SchemaResults } from './stalling-schemas.ts';
import type { Difference } from './compare.ts';
import type { TortureResult, Progress } from './run.ts';

/** Interval of progress reports, in milliseconds. */
const PROGRESS_MS = 15_000;

/** Maximum number of differences shown. */
const MAX_DIFFERENCES = 50;

const KINDS = ['lost', 'doubled', 'wrong', 'open', 'unserved'] as const;

/** Returns a function that prints the progress of a run, at most once per interval. */
export function printProgress(faults: number): (progress: Progress) => void {
  let printedAt = performance.now();
  return (progress) => {
    if (performance.now() - printedAt < PROGRESS_MS) return;
    printedAt = performance.now();
    console.log(`\n${progress.injected} of ${faults} faults, ${progress.callerLog.records.length} requests`);
    console.log(tableOf(progress));
  };
}

/** Formats a summary line and one line per error. */
export function formatSchemaResults(results: SchemaResults): string {
  const { sent, refused, longestPauseMs, longestDuring, errors } = results;
  const pause = `longest time without a token ${Math.round(longestPauseMs)} ms (${longestDuring})`;
  return [`schemas: ${sent} sent, ${refused} refused, ${pause}`, ...errors].join('\n');
}

/** Formats the table of a run, the differences with their rows, and the counts. */
export function formatResult(result: TortureResult): string {
  const { injected, callerLog, rows, webhooks, differences, folder } = result;
  const counts = KINDS.map((kind) => `${count(differences, kind)} ${kind}`).join(', ');
  const lines = [
    '',
    tableOf(result),
    '',
    ...[...callerLog.models].map(
      ([model, { requests, complete }]) => `${model}: ${complete} of ${requests} responses complete`,
    ),
    '',
    ...differences.slice(0, MAX_DIFFERENCES).map(formatDifference),
    `${injected} faults, ${callerLog.records.length} requests, ${rows} rows, ${webhooks} webhooks: ${counts}`,
  ];
  if (differences.length > MAX_DIFFERENCES) {
    lines.push(`${differences.length - MAX_DIFFERENCES} more differences are not shown.`);
  }
  if (folder !== null) lines.push(`The logs of all processes are in ${folder}`);
  return lines.join('\n');
}

function count(differences: readonly Difference[], kind: Difference['kind']): number {
  return differences.filter((difference) => difference.kind === kind).length;
}

/** Formats the faults on the left and the outcomes of requests on the right. */
function tableOf({ faults, callerLog }: Progress): string {
  const left = [...faults].sort(([, a], [, b]) => b - a).map(line);
  const right = callerLog.counts.map(line);
  const width = Math.max(0, ...left.map(({ length }) => length)) + 4;
  return Array.from({ length: Math.max(left.length, right.length) }, (_, index) =>
    `  ${(left[index] ?? '').padEnd(width)}${right[index] ?? ''}`.trimEnd(),
  ).join('\n');
}

function line([name, occurrences]: [string, number]): string {
  return `${String(occurrences).padStart(6)}  ${name}`;
}

/** Formats a difference with its record, without the caller's key, and its rows. */
function formatDifference({ kind, what, record, rows = [] }: Difference): string {
  const lines = [`${kind.toUpperCase()}: ${what}`];
  if (record) {
    const { request, ...response } = record;
    const { caller, ...sent } = request;
    lines.push(`  response ${JSON.stringify(response)}`);
    lines.push(`  request  ${JSON.stringify({ ...sent, account: caller.account, keyId: caller.keyId })}`);
  }
  for (const row of rows)
    lines.push(
      `  row      ${JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? String(value) : value))}`,
    );
  return `${lines.join('\n')}\n`;
}
