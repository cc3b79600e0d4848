import { setTimeout as delay } from 'node:timers/promises';
import { tryLock } from '../file-lock.ts';

const POLL_MS = 200;

/**
 * Takes the lock of one model file, waiting for its owner, in this process or another. Calls `onWait` each time it
 * finds the lock taken. Rejects with the signal's reason when aborted.
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
