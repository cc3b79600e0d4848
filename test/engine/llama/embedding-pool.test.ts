import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { NativeEmbeddingContext } from '../../../src/engine/llama/native/context.ts';
import { EmbeddingPool } from '../../../src/engine/llama/embeddings/embedding-pool.ts';

const LONG = 3000;
const SHORT = 10;

/** An input that is being computed. */
interface Running {
  length: number;
  threads: number;
  /** Ends a batch, of which this may be the last. */
  batch(isLast: boolean): void;
}

/** A pool whose inputs end when the test says so. */
function poolOf(threads: number): { pool: EmbeddingPool; running: Running[] } {
  const running: Running[] = [];
  const context = {
    embed(tokens: Uint32Array, given: number, onBatch: () => void): Promise<Float64Array> {
      const { promise, resolve, reject } = Promise.withResolvers<Float64Array>();
      const entry: Running = {
        length: tokens.length,
        threads: given,
        batch(isLast) {
          try {
            onBatch();
            if (!isLast) return;
            resolve(new Float64Array(1));
          } catch (error) {
            reject(error);
          }
          running.splice(running.indexOf(entry), 1);
        },
      };
      running.push(entry);
      return promise;
    },
    dispose: () => Promise.resolve(),
  };
  // The pool uses no other methods.
  const contexts = Array.from({ length: threads }, () => context as unknown as NativeEmbeddingContext);
  return { pool: new EmbeddingPool(contexts, { threads, batchTokens: 512 }), running };
}

const { signal } = new AbortController();
const shapes = (running: readonly Running[]) => running.map(({ length, threads }) => [length, threads]);

test('a short input gets all threads, and several share them', async () => {
  const { pool, running } = poolOf(4);
  void pool.compute(new Uint32Array(SHORT), signal);
  await nextTurn();
  assert.deepEqual(shapes(running), [[SHORT, 4]]);
  running[0]?.batch(true);
  for (let i = 0; i < 2; i++) void pool.compute(new Uint32Array(SHORT), signal);
  await nextTurn();
  assert.deepEqual(shapes(running), [
    [SHORT, 2],
    [SHORT, 2],
  ]);
});

test('a long input leaves a thread to others, which overtake later long ones', async () => {
  const { pool, running } = poolOf(2);
  for (const length of [LONG, LONG, SHORT]) void pool.compute(new Uint32Array(length), signal);
  await nextTurn();
  assert.deepEqual(shapes(running), [
    [LONG, 1],
    [SHORT, 1],
  ]);
  running[1]?.batch(true);
  await nextTurn();
  assert.deepEqual(shapes(running), [[LONG, 1]]);
  running[0]?.batch(true);
  await nextTurn();
  assert.deepEqual(shapes(running), [[LONG, 1]], 'the second one');
});

test('a single thread computes long inputs too', async () => {
  const { pool, running } = poolOf(1);
  void pool.compute(new Uint32Array(LONG), signal);
  await nextTurn();
  assert.deepEqual(shapes(running), [[LONG, 1]]);
});

test('an input that is aborted ends after its current batch', async () => {
  const { pool, running } = poolOf(2);
  const aborted = new AbortController();
  const reason = new Error('the client disconnected');
  const ended = assert.rejects(pool.compute(new Uint32Array(LONG), aborted.signal), reason);
  await nextTurn();
  running[0]?.batch(false);
  aborted.abort(reason);
  running[0]?.batch(false);
  await ended;
  await nextTurn();
  assert.equal(pool.slotsInUse, 0);
});
