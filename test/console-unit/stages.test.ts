import assert from 'node:assert/strict';
import { test } from 'node:test';
import { stagesOf } from '../../console/src/pages/models/stages.ts';

test('the median of each stage leaves out requests that did not go through all', () => {
  const at = (ms: number) => new Date(ms).toISOString();
  const request = (queue: number, prefill: number, decode: number) => ({
    started_at: at(0),
    slot_at: at(queue),
    first_token_at: at(queue + prefill),
    ended_at: at(queue + prefill + decode),
  });
  const running = { ...request(500, 500, 500), ended_at: null };
  assert.deepEqual(stagesOf([request(1, 40, 100), request(9, 20, 300), running, request(5, 30, 200)]), {
    count: 3,
    queue: 5,
    prefill: 30,
    decode: 200,
  });
  assert.equal(stagesOf([running]).count, 0);
});
