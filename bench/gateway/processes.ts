import { readdirSync, readFileSync } from 'node:fs';

/** Ticks a second of the times in `/proc/<pid>/stat`; Linux has had 100 on every common architecture. */
const TICKS = 100;

/** User and system CPU of a process and its descendants, in microseconds, as the operating system counts it. */
export function cpuMicros(pid: number): number {
  return tree(pid).reduce((sum, each) => {
    const fields = stat(each);
    return sum + ((Number(fields?.[11]) + Number(fields?.[12])) * 1_000_000) / TICKS;
  }, 0);
}

/** Resident memory of a process and its descendants, in bytes. */
export function residentBytes(pid: number): number {
  return tree(pid).reduce((sum, each) => {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(read(`/proc/${each}/status`))?.[1] ?? '0';
    return sum + Number(kilobytes) * 1024;
  }, 0);
}

function tree(pid: number): number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: Number(stat(Number(name))?.[1]) }));
  const all = [pid];
  for (const root of all)
    all.push(...parents.filter(({ parent }) => parent === root).map((each) => each.pid));
  return all;
}

/** Fields of `/proc/<pid>/stat` after the program's name, which may have spaces: the first is the state. */
function stat(pid: number): string[] | undefined {
  const text = read(`/proc/${pid}/stat`);
  return text === '' ? undefined : text.slice(text.lastIndexOf(')') + 2).split(' ');
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
