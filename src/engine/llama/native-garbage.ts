import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/**
 * Has native objects collected before those let go of are many. Each holds up to some megabytes that only the garbage
 * collector frees; V8 knows of a few bytes in a small heap, and would wait for thousands of them.
 */
export class NativeGarbage {
  #objects = 0;

  /** One more has no user. */
  add(): void {
    if (++this.#objects < MOST_OBJECTS) return;
    this.#objects = 0;
    // As a task of its own, some milliseconds long: the next decode is on its way by then.
    void collect({ type: 'major', execution: 'async' });
  }
}

/** A sampler has 12 bytes a token of the vocabulary (0.6 to 3 MB), a grammar up to 2 MB. */
const MOST_OBJECTS = 32;

// V8 gives its collector to contexts that are made after this flag was set.
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as NodeJS.GCFunction;
