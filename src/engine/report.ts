import type { EngineHealth } from './engine.ts';

/** What operators are told of a replica beside its state; null where it does not tell, or is not ready. */
export interface ReplicaReport {
  health: EngineHealth | null;
  /** Generated a second, of the last seconds. */
  tokensPerSecond: number | null;
  /** How often its process ended and was started again; null: somebody else's, or never started. */
  restarts: number | null;
  /** Since when it is ready, Unix milliseconds; null: somebody else's. */
  startedAt: number | null;
  /** What it computes with. */
  backend: string | null;
}

/** Of a replica that has told nothing yet. */
export const NOTHING_TOLD: ReplicaReport = {
  health: null,
  tokensPerSecond: null,
  restarts: null,
  startedAt: null,
  backend: null,
};

/** Time over which a speed is told, in milliseconds; or since the answer before the last, where those are rarer. */
const WINDOW_MS = 5000;

interface Sample {
  /** On the clock that never runs backwards. */
  atMs: number;
  health: EngineHealth;
}

/** A replica's last answers to the question how it is. */
export class HealthHistory {
  #samples: Sample[] = [];

  /** The last answer; null: there is none since the replica was down. */
  get last(): EngineHealth | null {
    return this.#samples.at(-1)?.health ?? null;
  }

  note(health: EngineHealth, atMs = performance.now()): void {
    // The newest of those that are old enough is where the window begins.
    const begin = this.#samples.findLastIndex((sample) => atMs - sample.atMs >= WINDOW_MS);
    this.#samples = [...this.#samples.slice(Math.max(0, begin)), { atMs, health }];
  }

  /** The replica is down: what it said of itself is over. */
  forget(): void {
    this.#samples = [];
  }

  /** Null: it does not tell how many it has generated, or has answered once. */
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
