import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Measured } from './measure.ts';
import { ROOT } from './reached.ts';

/** How many of the slowest files a run lists. */
const LISTED = 15;

type Durations = Record<string, Pick<Measured, 'wallMs' | 'cpuMs'>>;

/** The durations of test files in earlier runs, kept in a file, and in this run. */
export class TestDurations {
  /** Where the processes of this run report (`measure.ts`). */
  readonly report: string;
  readonly #kept: string;
  readonly #earlier: Durations;

  constructor(kept: string) {
    this.#kept = kept;
    this.report = `${kept}.${process.pid}`;
    // Written by `keep`.
    this.#earlier = existsSync(kept) ? (JSON.parse(readFileSync(kept, 'utf8')) as Durations) : {};
  }

  /** Sorts processes by the durations of their files, longest first, so that no long one runs alone at the end. */
  longestFirst<Process extends { files: readonly string[] }>(processes: readonly Process[]): Process[] {
    // The size estimates a new file.
    const length = (file: string) => this.#earlier[file]?.wallMs ?? statSync(join(ROOT, file)).size;
    const total = ({ files }: Process) => files.reduce((sum, file) => sum + length(file), 0);
    return processes.toSorted((a, b) => total(b) - total(a));
  }

  /** Adds this run to the kept durations. Returns a table of its slowest files. */
  keep(): string {
    if (!existsSync(this.report)) return '';
    const lines = readFileSync(this.report, 'utf8').split('\n');
    // Written by `measure.ts`.
    const measured = lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Measured);
    rmSync(this.report);
    const now = measured.map(({ file, ...duration }) => [file, duration] as const);
    const all = Object.entries({ ...this.#earlier, ...Object.fromEntries(now) });
    const present = all.filter(([file]) => existsSync(join(ROOT, file)));
    // Another run may read the file at the same time.
    writeFileSync(`${this.report}.new`, JSON.stringify(Object.fromEntries(present), null, 1));
    renameSync(`${this.report}.new`, this.#kept);
    return table(measured);
  }
}

/** Returns the slowest files as text: seconds until a file ended, its CPU seconds, and its path. */
function table(measured: readonly Measured[]): string {
  const seconds = (ms: number | null) => (ms === null ? '—' : (ms / 1000).toFixed(1)).padStart(8);
  const slowest = measured.toSorted((a, b) => b.wallMs - a.wallMs).slice(0, LISTED);
  const cpuMs = measured.reduce((sum, each) => sum + (each.cpuMs ?? 0), 0);
  const rows = slowest.map(({ file, wallMs, cpuMs }) => `${seconds(wallMs)}${seconds(cpuMs)}  ${file}`);
  const head = `${'seconds'.padStart(8)}${'CPU'.padStart(8)}  slowest of ${measured.length} files, which used ${seconds(cpuMs).trim()} s of CPU time`;
  return [head, ...rows].join('\n');
}
