import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Takes an exclusive lock on a file, which is created if it does not exist. Returns null if the lock is held by this or
 * another process. The operating system releases the lock when the process ends, so locks are never stale. Throws other
 * errors of `node:sqlite`.
 */
export function tryLock(path: string): Disposable | null {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (codeOf(error) === SQLITE_BUSY) return null;
    throw error;
  }
  return { [Symbol.dispose]: () => database.close() };
}

const POLL_MS = 200;

/**
 * Waits for a lock like that of `tryLock`. Calls `onWait` before each pause. Rejects with the signal's reason when aborted.
 */
export async function waitForLock(
  path: string,
  signal: AbortSignal,
  onWait: () => void = () => {},
): Promise<Disposable> {
  for (;;) {
    signal.throwIfAborted();
    const lock = tryLock(path);
    if (lock !== null) return lock;
    onWait();
    await delay(POLL_MS, undefined, { signal });
  }
}

/** Returns whether the lock is held. A concurrent `tryLock` may fail because of this call. */
export function isLocked(path: string): boolean {
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(path, { readOnly: true, timeout: 0 });
    database.exec('SELECT 1 FROM sqlite_master');
    return false;
  } catch (error) {
    if (codeOf(error) === SQLITE_CANTOPEN) return false;
    if (codeOf(error) === SQLITE_BUSY) return true;
    throw error;
  } finally {
    database?.close();
  }
}

/** Primary result codes: https://sqlite.org/rescode.html */
const SQLITE_BUSY = 5;
const SQLITE_CANTOPEN = 14;

function codeOf(error: unknown): number | null {
  if (!(error instanceof Error && 'errcode' in error && typeof error.errcode === 'number')) return null;
  return error.errcode & 0xff;
}
