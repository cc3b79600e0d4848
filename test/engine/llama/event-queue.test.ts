import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { Job } from '../../../src/engine/llama/decode/job.ts';
import { EventQueue } from '../../../src/engine/llama/output/event-queue.ts';
import type { TokenLogprob, EngineEvent } from '../../../src/core/generation.ts';

const token = (
  choice: number,
  text: string,
  completionTokens = 1,
  logprobs: TokenLogprob[] | null = null,
): EngineEvent => ({
  type: 'token',
  choice,
  text,
  completionTokens,
  logprobs,
});

test('a waiting reader receives each event immediately', async () => {
  const queue = new EventQueue();
  const first = queue.next();
  queue.push(token(0, 'a'));
  queue.push(token(0, 'b'));
  assert.deepEqual((await first).value, token(0, 'a'));
  assert.deepEqual((await queue.next()).value, token(0, 'b'));
});

test('a slow reader receives every event in order', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.boolean()), async (reads) => {
      const queue = new EventQueue();
      const received: unknown[] = [];
      let unread = 0;
      for (const [index, isRead] of reads.entries()) {
        queue.push(token(index % 3, 'x', index));
        unread++;
        if (!isRead) continue;
        received.push((await queue.next()).value);
        unread--;
      }
      queue.close();
      for await (const event of queue) received.push(event);
      assert(unread >= 0);
      assert.deepEqual(
        received,
        reads.map((_, index) => token(index % 3, 'x', index)),
      );
    }),
  );
});

test('a failure follows the unread events, and rejects a waiting reader', async () => {
  const queue = new EventQueue();
  queue.push(token(0, 'a'));
  queue.fail(new Error('gone'));
  queue.push(token(0, 'too late'));
  assert.deepEqual((await queue.next()).value, token(0, 'a'));
  await assert.rejects(queue.next(), /gone/);
  const waiting = new EventQueue();
  const next = waiting.next();
  waiting.fail(new Error('gone'));
  await assert.rejects(next, /gone/);
});

test('a reader that stops early cancels the request, and receives no more events', async () => {
  const queue = new EventQueue();
  let returned = 0;
  queue.onReturn = () => void returned++;
  queue.push(token(0, 'a'));
  queue.push(token(1, 'b'));
  for await (const event of queue) {
    assert.deepEqual(event, token(0, 'a'));
    break;
  }
  queue.push(token(0, 'c'));
  assert.deepEqual([(await queue.next()).done, returned], [true, 1]);
});

test('the progress of a prompt is reported at most once a second, and not after it has been computed', async () => {
  const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: false }, [
    new Uint32Array(1000),
  ]);
  job.cachedTokens = 100;
  job.start();
  const now = performance.now();
  for (const [tokens, atMs] of [
    [200, 500],
    [200, 1100],
    [200, 1900],
    [200, 2200],
    [100, 4000],
    [1, 9000],
  ] as const)
    job.promptComputed(tokens, now + atMs);
  job.events.close();
  const events: EngineEvent[] = [];
  for await (const event of job.events) events.push(event);
  assert.deepEqual(events, [
    { type: 'started', promptTokens: 1000, cachedTokens: 100 },
    { type: 'prefill', promptTokens: 1000, doneTokens: 500 },
    { type: 'prefill', promptTokens: 1000, doneTokens: 900 },
  ]);
});
