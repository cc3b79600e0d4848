import { createHash } from 'node:crypto';
import { lstat, mkdir, mkdtemp, readdir, readFile, realpath, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLock, waitForLock } from '../../file-lock.ts';
import type { Log } from '../../log.ts';
import { availableMemory } from './memory.ts';

/** Where and how much an engine keeps of conversations that lost their slot. */
export interface StoreSettings {
  /** Maximum bytes. 0: nothing is kept. Null: a tenth of what is free. */
  bytes: number | null;
  /** Null: a RAM disk with room, or `diskDirectory`. */
  directory: string | null;
  /** Used if the machine has no RAM disk with room. */
  diskDirectory: string;
  /** Whether the next process uses them again. */
  keep: boolean;
}

/** A directory that only this process uses, until it is disposed of. */
export interface StoreDirectory extends AsyncDisposable {
  readonly path: string;
  readonly maxBytes: number;
  /** Whether the files remain for the next process. */
  readonly keeps: boolean;
  readonly writeMsPerByte: number;
  readonly readMsPerByte: number;
}

/** Conversations that were not used for this time are deleted, in milliseconds. */
export const MAX_AGE_MS = 24 * 60 * 60 * 1000;

/** RAM disks of Linux. Other systems have none by default. */
const RAM_DISKS = ['/dev/shm'];
const TMPFS = 0x0102_1994;

/** Less is not worth it, and is what the RAM disks of containers have by default. */
const MIN_BYTES = 64 * 1024 * 1024;

/** On a disk, more is not chosen without the operator. */
const MAX_DISK_BYTES = 4 * 1024 ** 3;

/**
 * Opens a directory for the conversations of one engine, below a directory that only this user can read. Returns null if
 * nothing should be kept or there is no room. Rejects if the directory cannot be used. `engine` identifies the engine
 * among those that share the directory.
 */
export async function openStoreDirectory(
  settings: StoreSettings,
  engine: string,
  log: Log,
): Promise<StoreDirectory | null> {
  if (settings.bytes === 0) return null;
  const place = await choosePlace(settings);
  if (place === null) {
    log.info('conversations that lose their slot are not kept: there is no room');
    return null;
  }
  await createOwn(place.directory);
  // Otherwise, an engine could delete the directory of another one before that has locked it.
  using _ = await waitForLock(join(place.directory, 'lock'), AbortSignal.timeout(LOCK_MS));
  await deleteAbandoned(place.directory, settings.keep);
  const { path, lock, keeps } = await ownDirectory(place.directory, engine, settings.keep);
  const dispose = async () => {
    // First, because Windows does not delete files that are open.
    lock[Symbol.dispose]();
    // The next engine deletes what this one cannot.
    if (!keeps) await rm(path, { recursive: true, force: true }).catch(() => {});
  };
  try {
    const speed = await measureSpeed(path);
    log.info('conversations that lose their slot are kept', { directory: path, maxBytes: place.bytes });
    return { path, maxBytes: place.bytes, keeps, ...speed, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

const LOCK_MS = 10_000;

/**
 * Creates a directory, unless it exists. Rejects if it may lead to files that are not this user's: everybody can create
 * directories and symbolic links on a RAM disk.
 */
export async function createOwn(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  const found = await lstat(path);
  if (!found.isDirectory()) throw new Error(`${path} is not a directory`);
  if (found.uid !== (process.getuid?.() ?? found.uid)) throw new Error(`${path} belongs to another user`);
}

/** Returns the directory and the maximum bytes; null if no directory has room. `freeBytes` is for tests. */
export async function choosePlace(
  settings: StoreSettings,
  freeBytes = freeBytesIn,
): Promise<{ directory: string; bytes: number } | null> {
  const { directory, diskDirectory, bytes } = settings;
  if (directory === null)
    for (const ramDisk of RAM_DISKS) {
      const free = await freeBytes(ramDisk);
      if (free === null || !free.inMemory) continue;
      const chosen = bytes ?? Math.floor(Math.min(free.bytes, availableMemory().bytes) / 10);
      if (chosen >= Math.min(MIN_BYTES, bytes ?? Infinity) && chosen <= free.bytes)
        return { directory: join(ramDisk, `sluice-${process.getuid?.() ?? 0}`), bytes: chosen };
    }
  await mkdir(directory ?? diskDirectory, { recursive: true, mode: 0o700 });
  const chosen = await realpath(directory ?? diskDirectory);
  const free = await freeBytes(chosen);
  if (free === null) return null;
  const tenth = Math.floor(Math.min(free.bytes, free.inMemory ? availableMemory().bytes : Infinity) / 10);
  const limit = bytes === null ? Math.min(tenth, MAX_DISK_BYTES) : Math.min(bytes, free.bytes);
  return bytes === null && limit < MIN_BYTES ? null : { directory: chosen, bytes: limit };
}

/** Returns null if the directory does not exist. */
async function freeBytesIn(directory: string): Promise<{ bytes: number; inMemory: boolean } | null> {
  try {
    const { type, bsize, bavail } = await statfs(directory);
    return { bytes: bsize * bavail, inMemory: type === TMPFS };
  } catch {
    return null;
  }
}

/** Directories of engines: with this prefix, and with a lock while they are used. */
const PREFIX = 'engine-';

/** Deletes the directories of processes that have ended, except for those that are kept. */
async function deleteAbandoned(directory: string, keep: boolean): Promise<void> {
  for (const name of await readdir(directory)) {
    if (!name.startsWith(PREFIX)) continue;
    try {
      await deleteIfAbandoned(join(directory, name), keep && name.startsWith(KEPT));
    } catch {
      // For example, its engine is just deleting it. It does not concern the directory of this engine.
    }
  }
}

async function deleteIfAbandoned(path: string, isKept: boolean): Promise<void> {
  const { uid, mtimeMs } = await lstat(path);
  // A directory of the operator may have files of other users, and of this one with such a name.
  if (uid !== (process.getuid?.() ?? uid) || !(await lstat(lockIn(path))).isFile()) return;
  const lock = tryLockIn(path);
  if (lock === null) return;
  lock[Symbol.dispose]();
  if (!isKept || Date.now() - mtimeMs >= MAX_AGE_MS) await rm(path, { recursive: true, force: true });
}

const KEPT = `${PREFIX}kept-`;

async function ownDirectory(
  directory: string,
  engine: string,
  keep: boolean,
): Promise<{ path: string; lock: Disposable; keeps: boolean }> {
  if (keep) {
    const path = join(directory, KEPT + createHash('sha256').update(engine).digest('hex').slice(0, 16));
    await createOwn(path);
    const lock = tryLockIn(path);
    if (lock !== null) return { path, lock, keeps: true };
    // Another engine with the same model has it.
  }
  const path = await mkdtemp(join(directory, PREFIX));
  const lock = tryLockIn(path);
  if (lock === null) throw new Error(`${path} is in use`);
  return { path, lock, keeps: false };
}

const lockIn = (path: string): string => join(path, 'lock');

function tryLockIn(path: string): Disposable | null {
  return tryLock(lockIn(path));
}

const PROBE_BYTES = 8 * 1024 * 1024;

/** Measures how fast files are written and read. Later saves and loads correct this. */
async function measureSpeed(path: string): Promise<{ writeMsPerByte: number; readMsPerByte: number }> {
  const file = join(path, 'probe');
  const startedAt = performance.now();
  await writeFile(file, Buffer.alloc(PROBE_BYTES, 1), { mode: 0o600 });
  const writtenAt = performance.now();
  await readFile(file);
  const readAt = performance.now();
  await rm(file);
  return {
    writeMsPerByte: (writtenAt - startedAt) / PROBE_BYTES,
    readMsPerByte: (readAt - writtenAt) / PROBE_BYTES,
  };
}
