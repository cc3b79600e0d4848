import type { EngineHealth } from './engine.ts';

/** Details of a replica for operators; null: not reported, or not ready. */
export interface ReplicaReport {
  health: EngineHealth | null;
  /** Generation speed of the last seconds. */
  tokensPerSecond: number | null;
  /** Restarts of an embedded engine's process; null: a remote replica, or never started. */
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

/** Minimum period over which speed is measured, in milliseconds. */
const WINDOW_MS = 5000;

interface Sample {
  /** Milliseconds on the monotonic clock. */
  atMs: number;
  health: EngineHealth;
}

/** The latest health of a replica. */
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

  /** Removes all samples, when the replica is down. */
  clear(): void {
    this.#samples = [];
  }

  /** Null: fewer than two samples, or the count is not reported. */
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
