import assert from 'node:assert/strict';
import { test } from 'node:test';
import { betterModel } from '../../src/commands/welcome.ts';

const better = { id: 'acme/better', sizeBytes: 680_000_000, memoryBytes: 1_290_000_000 };

test('the welcome text recommends a better model with the command that serves it', () => {
  assert.deepEqual(betterModel(better), [
    'A better model fits this machine: acme/better (download 680 MB, memory 1.29 GB).',
    'To use it, stop Sluice and run:',
    '  npx sluice run acme/better',
    '',
  ]);
  assert.deepEqual(betterModel(null), []);
});
