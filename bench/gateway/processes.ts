import { readdirSync, readFileSync } from 'node:fs';

/** Returns the CPU time of a process and its descendants, in microseconds. Threads that have ended are not included. */
export function cpuMicros(pid: number): number {
  return threadMicros(pid)
    .values()
    .reduce((sum, micros) => sum + micros, 0);
}

/**
 * Returns the CPU time of a process and its descendants by the names of their threads, in microseconds. Threads with the
 * same name are added up.
 */
export function threadMicros(pid: number): Map<string, number> {
  const times = new Map<string, number>();
  for (const task of processTree(pid).flatMap(threads)) {
    const nanoseconds = Number(read(`${task}/schedstat`).split(' ')[0]);
    const name = read(`${task}/comm`)
      .trim()
      .replace(/^node-/, '');
    times.set(name, (times.get(name) ?? 0) + nanoseconds / 1000);
  }
  return times;
}

/** Returns the folders of the threads of a process. */
function threads(pid: number): string[] {
  const folder = `/proc/${pid}/task`;
  try {
    return readdirSync(folder).map((thread) => `${folder}/${thread}`);
  } catch {
    return [];
  }
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
