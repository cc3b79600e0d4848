import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FinishReason } from '../../src/core/generation.ts';
import { ToolCallCounts } from '../../src/inference/record.ts';
import { chat } from '../engine/requests.ts';

const tool = (name: string) => ({ name, description: null, parameters: {}, strict: false });
const REQUEST = chat({}, { tools: [tool('f'), tool('g')] });

/** Counts the calls of one choice, each with its arguments in two parts. */
function count(
  calls: readonly (readonly [name: string, text: string])[],
  reason: FinishReason = 'tool_calls',
) {
  const counts = new ToolCallCounts(REQUEST);
  for (const [call, [name, text]] of calls.entries()) {
    const shared = { choice: 0, call, completionTokens: 1 };
    counts.add({ ...shared, type: 'tool-call', id: 'c', name });
    counts.add({ ...shared, type: 'tool-arguments', text: text.slice(0, 3) });
    counts.add({ ...shared, type: 'tool-arguments', text: text.slice(3) });
  }
  counts.finish(0, reason);
  return [counts.total, counts.invalid];
}

test('calls of offered functions with a JSON object are valid', () => {
  assert.deepEqual(count([]), [0, 0]);
  assert.deepEqual(count([['f', '{"a":1}']]), [1, 0]);
  assert.deepEqual(
    count([
      ['f', '{}'],
      ['g', ' {"a": {"b": []}}\n'],
    ]),
    [2, 0],
  );
});

test('calls of other functions, or with other arguments, are invalid', () => {
  for (const text of ['', '{"a":', '{a: 1}', 'null', '[1]', '"{}"', '1']) {
    assert.deepEqual(
      count([
        ['f', text],
        ['g', '{}'],
      ]),
      [2, 1],
      text,
    );
  }
  assert.deepEqual(
    count([
      ['h', '{}'],
      ['h', '{'],
      ['f', '{}'],
    ]),
    [3, 2],
  );
});

test('the last call of a response that was cut off is not checked', () => {
  const calls = [
    ['f', '{'],
    ['f', '{'],
  ] as const;
  assert.deepEqual(count(calls, 'length'), [2, 1]);
  assert.deepEqual(count(calls, 'content_filter'), [2, 1]);
});
