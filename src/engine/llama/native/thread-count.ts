/** Cores that the threads got, in relation to their number, below which other programs use the same cores. */
const MIN_SHARE = 0.8;

/** Maximum number of steps between two attempts with one more thread. */
const MAX_PAUSE = 16;

/**
 * Chooses how many threads compute a step on a CPU. After each operation, llama.cpp's threads spin until the last one is
 * done. If other programs use the same cores, that one may not even be running, so fewer threads compute faster. Such
 * threads get less CPU time than the step lasted: alone, they compute or spin all the time.
 */
export class ThreadCount {
  readonly #max: number;
  #current: number;
  /** Steps between two attempts. Doubles each time an attempt fails. */
  #pause = 1;
  #stepsLeft = 0;

  constructor(max: number) {
    this.#max = max;
    this.#current = max;
  }

  get current(): number {
    return this.#current;
  }

  /** Call it after each step, with its duration and the CPU time of the process. */
  observe(elapsedMs: number, cpuMs: number): void {
    const cores = cpuMs / elapsedMs;
    if (this.#current > 1 && cores < MIN_SHARE * this.#current) {
      this.#current = Math.max(1, Math.floor(cores));
      this.#stepsLeft = this.#pause;
      this.#pause = Math.min(2 * this.#pause, MAX_PAUSE);
    } else if (this.#current === this.#max) {
      this.#pause = 1;
    } else if (--this.#stepsLeft <= 0) {
      this.#current++;
    }
  }
}
