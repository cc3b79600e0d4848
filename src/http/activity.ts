import type { AuthenticatedKey } from '../accounts/keys.ts';

/**
 * The generations that are running and whose they are: a stopping service lets them finish and ends those that do
 * not, and one whose key opens nothing any more is ended too.
 */
export class Activity {
  readonly #running = new Map<AbortController, AuthenticatedKey | null>();
  #draining = false;
  #idle: (() => void) | null = null;

  /** Whether new requests are refused. */
  get draining(): boolean {
    return this.#draining;
  }

  get running(): number {
    return this.#running.size;
  }

  begin(stop: AbortController, caller: AuthenticatedKey | null): void {
    this.#running.set(stop, caller);
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

  /** Ends what still runs, with this reason; of all callers, or of those that are not to go on. */
  abort(reason: Error, unless: (caller: AuthenticatedKey) => boolean = () => false): void {
    for (const [stop, caller] of this.#running) {
      if (caller === null || !unless(caller)) stop.abort(reason);
    }
  }
}
