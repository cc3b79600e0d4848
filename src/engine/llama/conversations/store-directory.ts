import { createHash } from 'node:crypto';
import { rmSync } from 'node:fs';
import { lstat, mkdir, mkdtemp, open, readdir, readFile, realpath, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { tryLock, waitForLock } from '../../../support/file-lock.ts';
import type { Log } from '../../../support/log.ts';
import { availableMemory, isInMemory } from '../../../models/memory.ts';

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
  /** Maximum time of a save or load on a slow disk, in milliseconds, because no tokens are computed meanwhile. */
  maxPauseMs: number;
}

/** A directory that only this process uses, until it is disposed of. */
export interface StoreDirectory extends AsyncDisposable {
  readonly path: string;
  readonly maxBytes: number;
  /** Whether the files remain for the next process. */
  readonly keeps: boolean;
  readonly maxPauseMs: number;
  /** Memory buffers the files of a disk: both times are then those of the memory. */
  readonly writeMsPerByte: number;
  readonly readMsPerByte: number;
  /** Time until a written byte is on the disk; 0 on a RAM disk. */
  readonly flushMsPerByte: number;
}

/** Conversations that were not used for this time are deleted, in milliseconds. */
export const MAX_AGE_MS = 24 * 60 * 60 * 1000;

/** RAM disks of Linux. Other systems have none by default. */
const RAM_DISKS = ['/dev/shm'];

/** Less is not worth it, and is what the RAM disks of containers have by default. */
const MIN_BYTES = 64 * 1024 * 1024;

/** On a disk, more is not chosen without the operator. */
const MAX_DISK_BYTES = 4 * 1024 ** 3;

/** The field of the configuration, for the log. */
const SETTING = 'engine.conversationCache';

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
  await deleteAbandoned(settings);
  if (settings.bytes === 0) return null;
  const place = await choosePlace(settings, (disk, directory) =>
    freeBytesIn(disk, keptDirectory(directory, engine)),
  );
  if (place === null) {
    log.info('conversations are not saved: there is not enough room', { setting: SETTING });
    return null;
  }
  await createOwn(place.directory);
  // Otherwise, an engine could delete the directory of another one before that has locked it.
  using _ = await waitForLock(lockIn(place.directory), AbortSignal.timeout(LOCK_MS));
  const { path, lock, keeps } = await ownDirectory(place.directory, engine, settings.keep);
  // Also if the process exits early, for example because the service was killed. A kept directory has only whole records.
  const deleteAtExit = () => rmSync(path, { recursive: true, force: true });
  if (!keeps) process.once('exit', deleteAtExit);
  const dispose = async () => {
    // First, because Windows does not delete files that are open.
    lock[Symbol.dispose]();
    process.off('exit', deleteAtExit);
    // The next engine deletes what this one cannot.
    if (!keeps) await rm(path, { recursive: true, force: true }).catch(() => {});
  };
  try {
    const speed = await measureSpeed(path, place.inMemory);
    const { bytes: maxBytes } = place;
    const { maxPauseMs } = settings;
    log.info('conversations are saved, so that they continue without being computed again', {
      directory: path,
      maxBytes,
      setting: SETTING,
    });
    return { path, maxBytes, keeps, maxPauseMs, ...speed, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/**
 * Deletes what engines that were killed have left in all directories that the settings allow, whether conversations are
 * kept or not. Never rejects: the next call tries again.
 */
export async function deleteAbandoned({ directory, diskDirectory, keep }: StoreSettings): Promise<void> {
  const onRamDisks = RAM_DISKS.map(onRamDisk);
  for (const path of [...onRamDisks, diskDirectory, ...(directory === null ? [] : [directory])])
    try {
      const own = await realpath(path);
      if (onRamDisks.includes(path)) await checkOwn(path);
      if ((await readdir(own)).every((name) => !name.startsWith(PREFIX))) continue;
      using _ = await waitForLock(lockIn(own), AbortSignal.timeout(LOCK_MS));
      await deleteAbandonedIn(own, keep);
    } catch {
      // It does not exist, or cannot be used.
    }
}

const onRamDisk = (ramDisk: string): string => join(ramDisk, `sluice-${process.getuid?.() ?? 0}`);

const LOCK_MS = 10_000;

/**
 * Creates a directory, unless it exists. Rejects if it may lead to files that are not this user's: everybody can create
 * directories and symbolic links on a RAM disk.
 */
export async function createOwn(path: string): Promise<void> {
  await mkdir(path, { recursive: true, mode: 0o700 });
  await checkOwn(path);
}

async function checkOwn(path: string): Promise<void> {
  const found = await lstat(path);
  if (!found.isDirectory()) throw new Error(`${path} is not a directory`);
  if (found.uid !== (process.getuid?.() ?? found.uid)) throw new Error(`${path} belongs to another user`);
}

/**
 * Returns the directory and the maximum bytes; null if no directory has room. `freeBytes` returns what an engine can use in
 * a directory of a disk; null if the disk does not exist.
 */
export async function choosePlace(
  settings: StoreSettings,
  freeBytes: (disk: string, directory: string) => Promise<FreeBytes | null>,
): Promise<{ directory: string; bytes: number; inMemory: boolean } | null> {
  const { directory, diskDirectory, bytes } = settings;
  if (directory === null)
    for (const ramDisk of RAM_DISKS) {
      const free = await freeBytes(ramDisk, onRamDisk(ramDisk));
      if (free === null || !free.inMemory) continue;
      const chosen = bytes ?? Math.floor(Math.min(free.bytes, availableMemory().bytes) / 10);
      if (chosen >= Math.min(MIN_BYTES, bytes ?? Infinity) && chosen <= free.bytes)
        return { directory: onRamDisk(ramDisk), bytes: chosen, inMemory: true };
    }
  await mkdir(directory ?? diskDirectory, { recursive: true, mode: 0o700 });
  const chosen = await realpath(directory ?? diskDirectory);
  const free = await freeBytes(chosen, chosen);
  if (free === null) return null;
  const tenth = Math.floor(Math.min(free.bytes, free.inMemory ? availableMemory().bytes : Infinity) / 10);
  const limit = bytes === null ? Math.min(tenth, MAX_DISK_BYTES) : Math.min(bytes, free.bytes);
  if (bytes === null && limit < MIN_BYTES) return null;
  return { directory: chosen, bytes: limit, inMemory: free.inMemory };
}

interface FreeBytes {
  bytes: number;
  inMemory: boolean;
}

/** What the engine has kept counts as free: otherwise, it would have less room after each restart. */
async function freeBytesIn(disk: string, kept: string): Promise<FreeBytes | null> {
  try {
    const found = await statfs(disk);
    const bytes = found.bsize * found.bavail + (await sizeOf(kept));
    return { bytes, inMemory: isInMemory(found) };
  } catch {
    return null;
  }
}

/** Returns the bytes of the files in a directory; 0 if it does not exist. */
async function sizeOf(directory: string): Promise<number> {
  let bytes = 0;
  for (const name of await readdir(directory).catch(() => []))
    // Another engine of the same model may just be deleting it.
    bytes += (await lstat(join(directory, name)).catch(() => null))?.size ?? 0;
  return bytes;
}

/** Directories of engines: with this prefix, and with a lock while they are used. */
const PREFIX = 'engine-';

/** Deletes the directories of processes that have ended, except for those that are kept. */
async function deleteAbandonedIn(directory: string, keep: boolean): Promise<void> {
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
  const lock = tryLock(lockIn(path));
  if (lock === null) return;
  lock[Symbol.dispose]();
  if (!isKept || Date.now() - mtimeMs >= MAX_AGE_MS) await rm(path, { recursive: true, force: true });
}

const KEPT = `${PREFIX}kept-`;

const keptDirectory = (directory: string, engine: string): string =>
  join(directory, KEPT + createHash('sha256').update(engine).digest('hex').slice(0, 16));

async function ownDirectory(
  directory: string,
  engine: string,
  keep: boolean,
): Promise<{ path: string; lock: Disposable; keeps: boolean }> {
  if (keep) {
    const path = keptDirectory(directory, engine);
    await createOwn(path);
    const lock = tryLock(lockIn(path));
    if (lock !== null) return { path, lock, keeps: true };
    // Another engine with the same model has it.
  }
  const path = await mkdtemp(join(directory, PREFIX));
  const lock = tryLock(lockIn(path));
  if (lock === null) throw new Error(`${path} is in use`);
  return { path, lock, keeps: false };
}

const lockIn = (path: string): string => join(path, 'lock');

const PROBE_BYTES = 8 * 1024 * 1024;

/** Measures how fast files are written and read. Later saves and loads correct this. */
async function measureSpeed(
  path: string,
  inMemory: boolean,
): Promise<Pick<StoreDirectory, 'writeMsPerByte' | 'readMsPerByte' | 'flushMsPerByte'>> {
  const file = join(path, 'probe');
  // An engine that was killed may have left it in a directory that is kept.
  await rm(file, { force: true });
  const times = [performance.now()];
  await using handle = await open(file, 'wx', 0o600);
  await handle.write(Buffer.alloc(PROBE_BYTES, 1));
  times.push(performance.now());
  // Memory buffers what is written. It does not buffer gigabytes.
  await handle.sync();
  times.push(performance.now());
  await readFile(file);
  times.push(performance.now());
  await rm(file);
  const [start = 0, written = 0, flushed = 0, read = 0] = times.map((time) => time / PROBE_BYTES);
  return {
    writeMsPerByte: written - start,
    readMsPerByte: read - flushed,
    flushMsPerByte: inMemory ? 0 : flushed - start,
  };
}
