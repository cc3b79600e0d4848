import type { AuthenticatedKey } from '../accounts/keys.ts';

interface Running {
  readonly caller: AuthenticatedKey;
  /** Null: not known yet. */
  model: string | null;
}

/** The running generations of this instance. They are aborted when the service stops, or their key may no longer be used for them. */
export class RunningGenerations {
  readonly #running = new Map<AbortController, Running>();
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

  begin(stop: AbortController, caller: AuthenticatedKey): void {
    this.#running.set(stop, { caller, model: null });
  }

  /** Records the model of a generation that has begun, when its request was parsed. */
  useModel(stop: AbortController, model: string): void {
    const running = this.#running.get(stop);
    if (running) running.model = model;
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

  /** Aborts the running generations for which `reasonOf` returns a reason. The model is null if it is not known yet. */
  abort(reasonOf: (caller: AuthenticatedKey, model: string | null) => Error | null): void {
    for (const [stop, { caller, model }] of this.#running) {
      const reason = reasonOf(caller, model);
      if (reason !== null) stop.abort(reason);
    }
  }
}
