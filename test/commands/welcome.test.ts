import assert from 'node:assert/strict';
import { test } from 'node:test';
import { betterModel } from '../../src/commands/welcome.ts';

const better = { id: 'acme/better', sizeBytes: 680_000_000, memoryBytes: 1_290_000_000 };

test('the welcome text recommends a better model with the commands that serve it', () => {
  assert.deepEqual(betterModel(better, null), [
    'A better model fits this machine: acme/better (download 680 MB, memory 1.29 GB).',
    'To use it, stop Sluice and run:',
    "  echo 'models: [{id: acme/better}]' > sluice.yaml",
    '  SLUICE_CONFIG=sluice.yaml npx sluice serve',
    '',
  ]);
});

test('the recommendation names the configuration file, if any, and is omitted without a better model', () => {
  const lines = betterModel(better, '/etc/sluice.yaml');
  assert.match(lines[1] ?? '', /`models: \[\{id: acme\/better\}\]` in \/etc\/sluice\.yaml and restart/);
  assert.deepEqual(betterModel(null, null), []);
});
