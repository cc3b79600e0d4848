import type { OnProgress, PullProgress } from './progress.ts';

type Work<T> = (signal: AbortSignal, onProgress: OnProgress) => Promise<T>;

interface Pull<T> {
  result: Promise<T>;
  abort: AbortController;
  relay: ProgressRelay;
}

interface ProgressRelay {
  /** One per caller. */
  listeners: Set<OnProgress>;
  last: PullProgress | null;
}

/**
 * Combines concurrent pulls of the same key in this process: all callers get the progress and the result. The pull is
 * aborted when all callers have aborted.
 */
export class SharedPulls<T> {
  readonly #running = new Map<string, Pull<T>>();

  /** Joins the pull of `key`, or starts it with `work`. Rejects with the signal's reason when aborted. */
  async join(
    key: string,
    signal: AbortSignal,
    onProgress: OnProgress | undefined,
    work: Work<T>,
  ): Promise<T> {
    signal.throwIfAborted();
    const pull = this.#running.get(key) ?? this.#start(key, work);
    const listener: OnProgress = (progress) => onProgress?.(progress);
    const { listeners, last } = pull.relay;
    listeners.add(listener);
    if (last !== null) listener(last);
    try {
      return await untilAborted(pull.result, signal, async () => {
        // Immediately, because one signal may abort all callers at once.
        listeners.delete(listener);
        if (listeners.size > 0) return;
        // The last caller waits until part files are closed and child processes have ended.
        this.#running.delete(key);
        pull.abort.abort(signal.reason);
        await pull.result.catch(() => {});
      });
    } finally {
      listeners.delete(listener);
    }
  }

  #start(key: string, work: Work<T>): Pull<T> {
    const abort = new AbortController();
    const relay: ProgressRelay = { listeners: new Set(), last: null };
    const result = work(abort.signal, (progress) => {
      relay.last = progress;
      for (const listener of relay.listeners) listener(progress);
    });
    const pull: Pull<T> = { result, abort, relay };
    this.#running.set(key, pull);
    const remove = (): void => {
      if (this.#running.get(key) === pull) this.#running.delete(key);
    };
    result.then(remove, remove);
    return pull;
  }
}

async function untilAborted<T>(
  result: Promise<T>,
  signal: AbortSignal,
  cleanUp: () => Promise<void>,
): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => {
    cleanUp().then(() => reject(signal.reason), reject);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([result, promise]);
  } catch (error) {
    // An aborted pull may fail with another error.
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
