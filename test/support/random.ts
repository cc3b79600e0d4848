/** A seeded random number generator (mulberry32). */
export class Random {
  readonly #seed: number;
  #state: number;

  constructor(seed: number) {
    this.#seed = seed;
    this.#state = seed;
  }

  /** Creates a generator for one part of a run, independent of the numbers that other parts use. */
  fork(part: string): Random {
    let state = this.#seed ^ 0x811c9dc5;
    for (const character of part) state = Math.imul(state ^ (character.codePointAt(0) ?? 0), 0x01000193);
    return new Random(state >>> 0);
  }

  /** Returns a number from 0 to 1, excluding 1. */
  fraction(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** Returns an integer, including both bounds. */
  between(least: number, most: number): number {
    return least + Math.floor(this.fraction() * (most - least + 1));
  }

  /** Returns true with this probability. */
  chance(share: number): boolean {
    return this.fraction() < share;
  }

  /** Returns an item of a list, with a probability proportional to its weight. Throws if the list is empty. */
  weighted<T extends { weight: number }>(list: readonly T[]): T {
    let left = this.fraction() * list.reduce((sum, { weight }) => sum + weight, 0);
    const found = list.find(({ weight }) => (left -= weight) < 0) ?? list.at(-1);
    if (found === undefined) throw new RangeError('the list is empty');
    return found;
  }

  pick<T>(list: readonly T[]): T {
    return this.weighted(list.map((value) => ({ value, weight: 1 }))).value;
  }
}
