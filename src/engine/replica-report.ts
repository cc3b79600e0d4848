import type { EngineHealth } from './engine.ts';

/** Details of a replica for operators. Fields are null if they are not reported or if the replica is not ready. */
export interface ReplicaReport {
  health: EngineHealth | null;
  /** Generation speed in the last seconds. */
  tokensPerSecond: number | null;
  /** Restarts of an embedded engine's process; null for a remote replica, or if the process was never started. */
  restarts: number | null;
  /** When an embedded engine became ready, in Unix milliseconds. */
  startedAt: number | null;
  /** The hardware that an embedded engine uses. */
  backend: string | null;
}

export const EMPTY_REPORT: ReplicaReport = {
  health: null,
  tokensPerSecond: null,
  restarts: null,
  startedAt: null,
  backend: null,
};

/** Approximate period over which speed is measured, in milliseconds. */
const WINDOW_MS = 5000;

interface Sample {
  /** Milliseconds on the monotonic clock. */
  atMs: number;
  health: EngineHealth;
}

/** The health of a replica in the last seconds. */
export class HealthHistory {
  #samples: Sample[] = [];

  get last(): EngineHealth | null {
    return this.#samples.at(-1)?.health ?? null;
  }

  add(health: EngineHealth, atMs = performance.now()): void {
    // The window starts at the newest sample that is old enough.
    const start = this.#samples.findLastIndex((sample) => atMs - sample.atMs >= WINDOW_MS);
    this.#samples = [...this.#samples.slice(Math.max(0, start)), { atMs, health }];
  }

  /** Removes all samples. Called when the replica is down. */
  clear(): void {
    this.#samples = [];
  }

  /** Null if there are fewer than two samples, or if the replica does not report token counts. */
  get tokensPerSecond(): number | null {
    const first = this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined || first === last) return null;
    const { completionTokens: from } = first.health;
    const { completionTokens: to } = last.health;
    if (from === null || to === null) return null;
    return (Math.max(0, to - from) * 1000) / (last.atMs - first.atMs);
  }
}
