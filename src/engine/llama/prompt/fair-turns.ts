/** Gives turns to tasks, one at a time: each scope in turn, and the tasks of a scope in their order. */
export class FairTurns {
  /** The waiting tasks. The first scope is the next one. */
  readonly #waiting = new Map<string | null, (() => void)[]>();
  #isTaken = false;

  /** Waits for a turn, which lasts until it is disposed. Rejects with the reason of the signal. */
  async take(scope: string | null, signal: AbortSignal): Promise<Disposable> {
    signal.throwIfAborted();
    if (this.#isTaken) await this.#wait(scope, signal);
    this.#isTaken = true;
    return { [Symbol.dispose]: () => this.#next() };
  }

  async #wait(scope: string | null, signal: AbortSignal): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const line = this.#waiting.get(scope) ?? [];
    line.push(resolve);
    this.#waiting.set(scope, line);
    const onAbort = (): void => {
      const others = (this.#waiting.get(scope) ?? []).filter((each) => each !== resolve);
      if (others.length === 0) this.#waiting.delete(scope);
      else this.#waiting.set(scope, others);
      reject(signal.reason as Error);
    };
    signal.addEventListener('abort', onAbort);
    await promise.finally(() => signal.removeEventListener('abort', onAbort));
  }

  #next(): void {
    for (const [scope, [first, ...others]] of this.#waiting) {
      this.#waiting.delete(scope);
      if (others.length > 0) this.#waiting.set(scope, others);
      return first?.();
    }
    this.#isTaken = false;
  }
}
