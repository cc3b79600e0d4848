import assert from 'node:assert/strict';
import { test } from 'node:test';
import { explainCacheMiss } from '../../../src/http/api/cache-miss.ts';

function explain(at: string | null, tokens = 8900, afterMs = 12_000): string | null {
  return explainCacheMiss({ cache_miss: at, cache_miss_tokens: tokens, cache_miss_after_ms: afterMs });
}

test('a cache miss is explained in a sentence with its place, its tokens and the time', () => {
  const lost = 'so 8,900 prompt tokens were computed again.';
  for (const [at, start] of [
    ['tools', 'The tools differ from those of'],
    ['system', 'The system message differs from that of'],
    [
      'options',
      'The template variables, reasoning effort, tool choice or response format differ from those of',
    ],
    ['user 3', 'User message 3 differs from that of'],
    ['assistant 1', 'Assistant message 1 differs from that of'],
    ['tool 12', 'Tool result 12 differs from that of'],
    ['system 2', 'System message 2 differs from that of'],
  ])
    assert.equal(explain(at ?? ''), `${start} the request 12 s before, ${lost}`);
  assert.equal(
    explain('other_replica'),
    `The request begins like the one 12 s before, which another replica processed, ${lost}`,
  );
  assert.match(
    explain('replica') ?? '',
    /^The request begins like the one 12 s before, but the replica .*8,900/,
  );
  assert.equal(explain(null), null);
});

test('the time is told in a unit that suits it', () => {
  for (const [afterMs, text] of [
    [0, 'less than a second'],
    [999, 'less than a second'],
    [1000, '1 s'],
    [119_999, '119 s'],
    [120_000, '2 min'],
    [7_199_999, '119 min'],
    [7_200_000, '2 h'],
  ] as const)
    assert.ok(explain('tools', 200, afterMs)?.includes(`the request ${text} before`), text);
});
