import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { systemCode } from './pull-error.ts';

const POLL_MS = 200;

/**
 * Takes the lock of one model file, waiting for whoever has it, in this process or another; `onWait` is called
 * at each look. The lock is the operating system's, on an empty SQLite file: it is gone the moment its owner
 * ends, however it ends, so there is no heartbeat to miss and no dead owner to take over from.
 * Rejects with the signal's reason when aborted.
 */
export async function lockFile(path: string, signal: AbortSignal, onWait: () => void): Promise<Disposable> {
  for (;;) {
    signal.throwIfAborted();
    const lock = tryLock(path);
    if (lock !== null) return lock;
    onWait();
    await delay(POLL_MS, undefined, { signal });
  }
}

/** The lock, or null where someone else has it. */
export function tryLock(path: string): Disposable | null {
  const database = new DatabaseSync(path, { timeout: 0 });
  try {
    database.exec('BEGIN EXCLUSIVE');
  } catch (error) {
    database.close();
    if (isBusy(error)) return null;
    throw error;
  }
  return { [Symbol.dispose]: () => database.close() };
}

const SQLITE_BUSY = 5;

function isBusy(error: unknown): boolean {
  return (
    systemCode(error) === 'ERR_SQLITE_ERROR' &&
    error instanceof Error &&
    'errcode' in error &&
    error.errcode === SQLITE_BUSY
  );
}
