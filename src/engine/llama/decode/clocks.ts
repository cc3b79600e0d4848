/** Measures the time without progress while there is work. */
export class ProgressClock {
  #since: number | null = null;

  /** Starts the time that `ageMs` returns, if the engine was idle. */
  workStarted(now: number): void {
    this.#since ??= now;
  }

  /** Restarts the time that `ageMs` returns. */
  progressed(now: number): void {
    this.#since = now;
  }

  idle(): void {
    this.#since = null;
  }

  /** Time since the last step or other progress, or since work arrived, in milliseconds; null if the engine is idle. */
  ageMs(now: number): number | null {
    return this.#since === null ? null : now - this.#since;
  }
}

/**
 * Measures work as the smaller of elapsed time and CPU time. CPU time includes other threads that spin; elapsed time
 * includes time during which the process was suspended.
 */
export class WorkTimer {
  readonly #startedAt = performance.now();
  readonly #usage = process.cpuUsage();

  elapsedMs(): number {
    const { user, system } = process.cpuUsage(this.#usage);
    return Math.min(performance.now() - this.#startedAt, (user + system) / 1000);
  }
}
