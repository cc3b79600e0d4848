import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CALLER, refuses, text } from './samples.ts';

test('a request has one prompt, or several with n choices each', () => {
  assert.deepEqual(text().request.prompts, ['Once']);
  assert.deepEqual(text({ prompt: ['a'] }).used, []);
  const { request, used } = text({ prompt: ['a', 'b'], n: 3 });
  assert.deepEqual([request.prompts, request.choices], [['a', 'b'], 3]);
  assert.deepEqual(used, ['n', 'prompt']);
});

test('prompts x n is at most maxChoices', () => {
  const options = { ...CALLER, maxChoices: 16 };
  assert.ok(text({ prompt: Array.from({ length: 8 }, () => 'a'), n: 2 }, options));
  refuses(
    () => text({ prompt: Array.from({ length: 9 }, () => 'a'), n: 2 }, options),
    'invalid_value',
    'prompt',
  );
  refuses(() => text({ prompt: Array.from({ length: 17 }, () => 'a') }, options), 'invalid_value', 'prompt');
});

test('token IDs and empty prompts are refused', () => {
  refuses(() => text({ prompt: [1, 2] }), 'unsupported_parameter', 'prompt');
  refuses(() => text({ prompt: [[1, 2]] }), 'unsupported_parameter', 'prompt');
  refuses(() => text({ prompt: '' }), 'invalid_value', 'prompt');
  refuses(() => text({ prompt: [] }), 'invalid_value', 'prompt');
  refuses(() => text({ prompt: ['a', ''] }), 'invalid_value', 'prompt[1]');
  refuses(() => text({ prompt: ['a', null] }), 'invalid_type', 'prompt[1]');
  refuses(() => text({ prompt: { a: 1 } }), 'invalid_type', 'prompt');
  refuses(() => text({ prompt: 'a\udc00' }), 'invalid_value', 'prompt');
});

test('logprobs is the number of alternatives', () => {
  assert.equal(text({ logprobs: 0 }).request.logprobs, 0);
  assert.deepEqual(text({ logprobs: 0 }).used, ['logprobs']);
  refuses(() => text({ logprobs: true }), 'invalid_type', 'logprobs');
});

test('echo cannot be combined with logprobs', () => {
  assert.equal(text({ echo: true }).request.echo, true);
  refuses(() => text({ echo: true, logprobs: 1 }), 'unsupported_parameter', 'echo');
});

test('best_of is accepted if it has no effect', () => {
  assert.ok(text({ best_of: 1 }));
  assert.ok(text({ best_of: 3, n: 3 }));
  refuses(() => text({ best_of: 3, n: 2 }), 'unsupported_parameter', 'best_of');
  refuses(() => text({ best_of: '1' }), 'unsupported_parameter', 'best_of');
});

test('fields that only chats have are refused', () => {
  refuses(() => text({ messages: [] }), 'unsupported_parameter', 'messages');
  refuses(() => text({ top_logprobs: 1 }), 'unsupported_parameter', 'top_logprobs');
});
