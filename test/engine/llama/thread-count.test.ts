import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ThreadCount } from '../../../src/engine/llama/native/thread-count.ts';

/** Returns the threads of each of `steps`, on a machine where other programs leave so many of its cores. */
function threadsOf(count: ThreadCount, cores: number, steps: number): number[] {
  return Array.from({ length: steps }, () => {
    const threads = count.current;
    count.observe(100, 100 * Math.min(threads, cores));
    return threads;
  });
}

test('a machine without other programs uses all threads', () => {
  assert.deepEqual(threadsOf(new ThreadCount(4), 4, 3), [4, 4, 4]);
  assert.deepEqual(threadsOf(new ThreadCount(4), 3.5, 3), [4, 4, 4], 'other programs that do little');
});

test('threads that other programs interrupt are stopped, and tried again less and less often', () => {
  const threads = threadsOf(new ThreadCount(2), 1.2, 200);
  const attempts = threads.flatMap((count, step) => (count === 2 ? [step] : []));
  assert.deepEqual(attempts.slice(0, 6), [0, 2, 5, 10, 19, 36]);
  assert(attempts.length < 20);
  assert.deepEqual(threadsOf(new ThreadCount(8), 5.3, 4), [8, 5, 6, 7]);
  assert.deepEqual(threadsOf(new ThreadCount(2), 0.2, 2), [2, 1]);
});

test('all threads are used again after the other programs have ended', () => {
  const count = new ThreadCount(4);
  threadsOf(count, 1, 100);
  const threads = threadsOf(count, 4, 30);
  assert.equal(threads.at(-1), 4);
  assert.deepEqual(threadsOf(count, 1.9, 3), [4, 1, 2]);
});
