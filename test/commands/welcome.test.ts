import assert from 'node:assert/strict';
import { test } from 'node:test';
import { betterModel, firstRequest } from '../../src/commands/welcome.ts';

const better = { id: 'acme/better', sizeBytes: 680_000_000, memoryBytes: 1_290_000_000 };

test('the welcome text recommends a better model with the command that adds it', () => {
  assert.deepEqual(betterModel(better), [
    'A better model fits this machine: acme/better (download 680 MB, memory 1.29 GB).',
    'To add it, run in another terminal:',
    '  npx sluice models add acme/better',
    '',
  ]);
  assert.deepEqual(betterModel(null), []);
});

test('the example request of the welcome text has only a message, because the service applies recommended sampling', () => {
  const curl = firstRequest('http://host:1', 'Qwen/Qwen3-0.6B', 'text')[2] ?? '';
  assert.match(curl, /"messages":\[\{"role":"user","content":"Hello"\}\]\}'$/);
});

test('the example request to an embedding model has a text for the endpoint of embeddings', () => {
  const curl = firstRequest('http://host:1', 'local/embedder', 'embedding')[2] ?? '';
  assert.match(curl, /http:\/\/host:1\/v1\/embeddings .*'\{"model":"local\/embedder","input":"Hello"\}'$/);
});
