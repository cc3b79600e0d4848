import type { AuthenticatedKey } from '../accounts/keys.ts';

/** The running generations of this instance. They are aborted when the service stops or their key is revoked. */
export class RunningGenerations {
  readonly #running = new Map<AbortController, AuthenticatedKey | null>();
  #draining = false;
  /** Called when the service begins to stop. */
  onDraining: (() => void) | null = null;
  #onIdle: (() => void) | null = null;

  get running(): number {
    return this.#running.size;
  }

  /** Whether new requests are refused. */
  get draining(): boolean {
    return this.#draining;
  }

  drain(): void {
    this.#draining = true;
    this.onDraining?.();
  }

  begin(stop: AbortController, caller: AuthenticatedKey | null): void {
    this.#running.set(stop, caller);
  }

  end(stop: AbortController): void {
    this.#running.delete(stop);
    if (this.#running.size === 0) this.#onIdle?.();
  }

  /** Resolves when nothing is running. */
  idle(): Promise<void> {
    if (this.#running.size === 0) return Promise.resolve();
    return new Promise((resolve) => (this.#onIdle = resolve));
  }

  /** Aborts the running generations with this reason, except if `unless` returns true for their caller. */
  abort(reason: Error, unless: (caller: AuthenticatedKey) => boolean = () => false): void {
    for (const [stop, caller] of this.#running) {
      if (caller === null || !unless(caller)) stop.abort(reason);
    }
  }
}
