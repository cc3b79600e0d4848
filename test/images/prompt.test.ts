import assert from 'node:assert/strict';
import { test } from 'node:test';
import { canContinue } from '../../src/replicas/continuation.ts';
import { estimatedPromptTokens, promptTexts, type ChatRequest } from '../../src/core/generation.ts';
import { promptTokenBounds } from '../../src/core/prompt-bound.ts';
import { promptBlocks } from '../../src/routing/prefix-index.ts';
import { chat } from '../protocols/openai/samples.ts';
import { dataUri, png } from './samples.ts';

/** Returns a chat with this text around an image of this size. */
function asking(width: number, text = 'x'.repeat(600)): ChatRequest {
  const image = { type: 'image_url', image_url: { url: dataUri(png(width, 1)) } };
  const content = [{ type: 'text', text }, image, { type: 'text', text }];
  return { ...chat({ messages: [{ role: 'user', content }] }).request, cacheScope: 'account' };
}

test('the digest of an image takes its place in prefixes', () => {
  const [first, same, other] = [asking(1), asking(1), asking(2)].map(
    (request) => promptBlocks(request).hashes,
  );
  assert.deepEqual(first, same);
  // The blocks before the image are equal.
  assert.deepEqual(other?.slice(0, 2), first?.slice(0, 2));
  assert.notDeepEqual(other, first);
  assert.match(promptTexts(asking(1, 'A'))[0] ?? '', /^Apng \d+ [\da-f]+A$/);
});

test('estimates of prompt tokens contain those of images', () => {
  const request = asking(1, 'a');
  const [estimated, [most = 0]] = [estimatedPromptTokens(request), promptTokenBounds(request)];
  assert.deepEqual(promptTokenBounds({ ...request, imageTokens: 500 }), [most + 500]);
  // An estimate follows the size of the image, up to the maximum.
  assert.equal(estimatedPromptTokens({ ...request, imageTokens: 500 }), estimated + 1);
  const wide = { ...asking(7840, 'a'), imageTokens: 500 };
  assert.equal(estimatedPromptTokens(wide), estimated + 10);
  assert.equal(estimatedPromptTokens({ ...wide, imageTokens: 5 }), estimated + 5);
});

test('a response to an image is not continued', () => {
  const request = asking(1);
  const messages = [{ role: 'user', content: 'a' }] as const;
  for (const dialect of ['vllm', 'sglang', 'llama-server'] as const) {
    assert.ok(!canContinue(request, dialect), dialect);
    assert.ok(canContinue({ ...request, messages }, dialect), dialect);
  }
});
