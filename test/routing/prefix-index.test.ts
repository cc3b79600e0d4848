import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { ChatRequest } from '../../src/core/generation.ts';
import { BLOCK_BYTES, PrefixIndex, promptBlocks, type PromptBlocks } from '../../src/routing/prefix-index.ts';
import { chat, text } from '../engine/requests.ts';

const SCOPE = { cacheScope: 'account' };

/** A prompt of blocks that each repeat one letter, and an incomplete block at the end. */
function lettersPrompt(letters: string, cacheScope: string | null = SCOPE.cacheScope): PromptBlocks {
  const blocks = letters.split('').map((letter) => letter.repeat(BLOCK_BYTES));
  return promptBlocks(text({}, { prompts: [`${blocks.join('')}rest`], cacheScope }));
}

/** The blocks of a chat with one user message per text. */
function chatBlocks(texts: readonly string[], more: Partial<ChatRequest> = {}): PromptBlocks {
  const messages = texts.map((content) => ({ role: 'user' as const, content }));
  return promptBlocks(chat({}, { ...SCOPE, messages, ...more }));
}

/** Returns the number of letters at the start that are equal. */
function commonPrefix(a: string, b: string): number {
  let length = 0;
  while (length < a.length && a[length] === b[length]) length++;
  return length;
}

/** Prompts with few different letters, so that many have a common prefix. */
const letters = fc.string({ unit: fc.constantFrom('a', 'b'), maxLength: 8 });

test('the estimate is the longest common prefix with a recorded prompt, in complete blocks', () => {
  fc.assert(
    fc.property(fc.array(letters, { maxLength: 20 }), letters, (recorded, asked) => {
      const index = new PrefixIndex(1000);
      for (const prompt of recorded) index.record(lettersPrompt(prompt));
      const longest = Math.max(0, ...recorded.map((prompt) => commonPrefix(prompt, asked)));
      assert.equal(index.cachedBytes(lettersPrompt(asked)), longest * BLOCK_BYTES);
    }),
  );
});

test('a prefix is known only in the scope in which it was recorded', () => {
  fc.assert(
    fc.property(fc.string({ minLength: 1 }), fc.string({ minLength: 1 }), (scope, other) => {
      fc.pre(scope !== other);
      const index = new PrefixIndex(1000);
      index.record(lettersPrompt('aaaa', scope));
      assert.equal(index.cachedBytes(lettersPrompt('aaaa', scope)), 4 * BLOCK_BYTES);
      assert.equal(index.cachedBytes(lettersPrompt('aaaa', other)), 0);
    }),
  );
});

test('a request without a scope has a length, but no blocks', () => {
  const { hashes, bytes } = lettersPrompt('ab', null);
  assert.deepEqual(hashes, []);
  assert.equal(bytes, lettersPrompt('ab').bytes);
});

const anyText = fc.string({ unit: 'binary', maxLength: 20 }).map((part) => part.repeat(20));

test('the length counts the bytes of every text and one separator each', () => {
  fc.assert(
    fc.property(fc.array(anyText, { minLength: 1, maxLength: 4 }), (texts) => {
      const { hashes, bytes } = chatBlocks(texts);
      assert.equal(
        bytes,
        texts.reduce((sum, content) => sum + Buffer.byteLength(content) + 1, 0),
      );
      assert.equal(hashes.length, Math.floor(bytes / BLOCK_BYTES));
    }),
  );
});

test('prompts of any length have the blocks of their prefixes', () => {
  const long = Array.from({ length: 40_000 }, (_, word) => `Wort ${word} größer 東京`).join(' ');
  const whole = promptBlocks(text({}, { prompts: [long], ...SCOPE }));
  assert.equal(whole.bytes, Buffer.byteLength(long) + 1);
  for (const length of [16_383, 16_384, 16_385, 65_536, 300_000]) {
    const prefix = promptBlocks(text({}, { prompts: [long.slice(0, length)], ...SCOPE }));
    const known = prefix.hashes.length - 1;
    assert.ok(known > 60);
    assert.deepEqual(prefix.hashes.slice(0, known), whole.hashes.slice(0, known));
  }
});

test('the same text divided differently into messages is a different prompt', () => {
  const [a, b] = ['a'.repeat(200), 'b'.repeat(200)];
  assert.notEqual(chatBlocks([a + b]).hashes[0], chatBlocks([a, b]).hashes[0]);
});

test('tools are at the start of the prompt, so that longer conversations have the same prefix', () => {
  const tool = {
    name: 'search',
    description: 'Finds pages. '.repeat(20),
    parameters: { type: 'object' },
    strict: false,
  };
  const turns = ['a'.repeat(300), 'b'.repeat(300)];
  const first = chatBlocks(turns.slice(0, 1), { tools: [tool] });
  const second = chatBlocks(turns, { tools: [tool] });
  assert.equal(first.hashes.length, 2);
  assert.deepEqual(second.hashes.slice(0, 2), first.hashes);
  assert.notEqual(chatBlocks(turns).hashes[0], second.hashes[0]);
});

test('the index never remembers more than its maximum', () => {
  const step = fc.oneof(fc.record({ record: fc.string({ maxLength: 12 }) }), fc.constant('clear' as const));
  fc.assert(
    fc.property(fc.integer({ min: 2, max: 30 }), fc.array(step, { maxLength: 60 }), (maxBlocks, steps) => {
      const index = new PrefixIndex(maxBlocks);
      for (const action of steps) {
        if (action === 'clear') index.clear();
        else index.record(lettersPrompt(action.record));
        assert.ok(index.size <= maxBlocks);
      }
    }),
  );
});

test('at least half of the maximum is remembered: the most recently used blocks', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(30), { maxLength: 80 }), (numbers) => {
      const index = new PrefixIndex(20);
      const prompts = numbers.map((number) => lettersPrompt(String.fromCodePoint(0x21 + number)));
      for (const prompt of prompts) index.record(prompt);
      const last = new Set(numbers.toReversed());
      for (const number of [...last].slice(0, 10)) {
        assert.equal(index.cachedBytes(lettersPrompt(String.fromCodePoint(0x21 + number))), BLOCK_BYTES);
      }
    }),
  );
});

test('the start of a prompt is remembered longer than its end', () => {
  const index = new PrefixIndex(8);
  index.record(lettersPrompt('abcdefghijkl'));
  assert.equal(index.cachedBytes(lettersPrompt('abcdefghijkl')), 8 * BLOCK_BYTES);
});

test('nothing is known after the replica was restarted', () => {
  const index = new PrefixIndex(100);
  index.record(lettersPrompt('abc'));
  index.clear();
  assert.equal(index.cachedBytes(lettersPrompt('abc')), 0);
  assert.equal(index.size, 0);
});
