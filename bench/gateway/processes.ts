import { readdirSync, readFileSync } from 'node:fs';

/** Ticks per second of the times in `/proc/<pid>/stat`: 100 on all common architectures. */
const TICKS = 100;

/** Returns the user and system CPU time of a process and its descendants, in microseconds. */
export function cpuMicros(pid: number): number {
  return processTree(pid).reduce((sum, member) => {
    const fields = stat(member);
    return sum + ((Number(fields?.[11]) + Number(fields?.[12])) * 1_000_000) / TICKS;
  }, 0);
}

/** Returns the resident memory of a process and its descendants, in bytes. */
export function residentBytes(pid: number): number {
  return processTree(pid).reduce((sum, member) => {
    const kilobytes = /^VmRSS:\s+(\d+)/m.exec(read(`/proc/${member}/status`))?.[1] ?? '0';
    return sum + Number(kilobytes) * 1024;
  }, 0);
}

function processTree(pid: number): number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), parent: Number(stat(Number(name))?.[1]) }));
  const members = [pid];
  // The loop also visits processes that it adds.
  for (const member of members)
    members.push(...parents.filter(({ parent }) => parent === member).map((child) => child.pid));
  return members;
}

/** Returns the fields of `/proc/<pid>/stat` after the program name, which can contain spaces. */
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
