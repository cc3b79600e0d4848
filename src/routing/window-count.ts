/** Parts of a window. Events are forgotten in parts, not one by one. */
const PARTS = 6;

/** Counts events of the last `windowMs` milliseconds, accurate to a sixth of the window. */
export class WindowCount {
  readonly #partMs: number;
  readonly #counts = Array.from({ length: PARTS }, () => 0);
  /** Number of the newest part, from the start of the clock. */
  #newest = 0;
  #sum = 0;

  constructor(windowMs: number) {
    this.#partMs = windowMs / PARTS;
  }

  /** Counts an event. `nowMs` must not decrease. */
  add(nowMs: number): void {
    this.#advance(nowMs);
    this.#counts[this.#newest % PARTS] = (this.#counts[this.#newest % PARTS] ?? 0) + 1;
    this.#sum++;
  }

  /** Returns the events in the window. */
  total(nowMs: number): number {
    this.#advance(nowMs);
    return this.#sum;
  }

  clear(): void {
    this.#counts.fill(0);
    this.#sum = 0;
  }

  #advance(nowMs: number): void {
    const part = Math.floor(nowMs / this.#partMs);
    if (part - this.#newest >= PARTS) this.clear();
    else {
      for (let old = this.#newest + 1; old <= part; old++) {
        this.#sum -= this.#counts[old % PARTS] ?? 0;
        this.#counts[old % PARTS] = 0;
      }
    }
    this.#newest = Math.max(part, this.#newest);
  }
}
