/** The generations that are running, so that a stopping service can let them finish, and end those that do not. */
export class Activity {
  readonly #running = new Set<AbortController>();
  #draining = false;
  #idle: (() => void) | null = null;

  /** Whether new requests are refused. */
  get draining(): boolean {
    return this.#draining;
  }

  get running(): number {
    return this.#running.size;
  }

  begin(stop: AbortController): void {
    this.#running.add(stop);
  }

  end(stop: AbortController): void {
    this.#running.delete(stop);
    if (this.#running.size === 0) this.#idle?.();
  }

  /** Refuses new requests from now on. */
  drain(): void {
    this.#draining = true;
  }

  /** Resolves when nothing runs. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#idle = resolve));
  }

  /** Ends what still runs, with this reason. */
  abort(reason: Error): void {
    for (const stop of this.#running) stop.abort(reason);
  }
}
