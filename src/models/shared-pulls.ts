import type { OnProgress, PullProgress } from './progress.ts';

type Work<T> = (signal: AbortSignal, onProgress: OnProgress) => Promise<T>;

interface Pull<T> {
  result: Promise<T>;
  abort: AbortController;
  shown: Shown;
  callers: number;
}

interface Shown {
  listeners: Set<OnProgress>;
  last: PullProgress | null;
}

/**
 * Makes one pull of several for the same key in this process: all see its progress and its outcome. A caller that
 * aborts leaves the others their pull; when the last one leaves, the pull itself is aborted.
 */
export class SharedPulls<T> {
  readonly #running = new Map<string, Pull<T>>();

  /** Joins the pull of `key`, or starts it with `work`. Rejects with the signal's reason once it is aborted. */
  async join(
    key: string,
    signal: AbortSignal,
    onProgress: OnProgress | undefined,
    work: Work<T>,
  ): Promise<T> {
    signal.throwIfAborted();
    const pull = this.#running.get(key) ?? this.#start(key, work);
    const listener: OnProgress = (progress) => onProgress?.(progress);
    pull.shown.listeners.add(listener);
    pull.callers++;
    if (pull.shown.last !== null) listener(pull.shown.last);
    try {
      return await untilAborted(pull.result, signal, async () => {
        if (pull.callers > 1) return;
        // The last caller waits until everything is put away: part files closed, children dead.
        this.#running.delete(key);
        pull.abort.abort(signal.reason);
        await pull.result.catch(() => {});
      });
    } finally {
      pull.shown.listeners.delete(listener);
      pull.callers--;
    }
  }

  #start(key: string, work: Work<T>): Pull<T> {
    const abort = new AbortController();
    const shown: Shown = { listeners: new Set(), last: null };
    const result = work(abort.signal, (progress) => {
      shown.last = progress;
      for (const listener of shown.listeners) listener(progress);
    });
    const pull: Pull<T> = { result, abort, shown, callers: 0 };
    this.#running.set(key, pull);
    const forget = (): void => {
      if (this.#running.get(key) === pull) this.#running.delete(key);
    };
    result.then(forget, forget);
    return pull;
  }
}

async function untilAborted<T>(
  result: Promise<T>,
  signal: AbortSignal,
  leave: () => Promise<void>,
): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => {
    leave().then(() => reject(signal.reason), reject);
  };
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([result, promise]);
  } catch (error) {
    // An aborted pull may fail with the error of what it was doing; the caller gets its own reason.
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}
