import assert from 'node:assert/strict';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { SILENT } from '../../src/support/log.ts';
import { ModelStore } from '../../src/models/store.ts';
import { footprintOf } from '../../src/serving/memory-fit.ts';
import { runCli, startService, temporaryFolder } from '../harness.ts';
import { Management } from '../management.ts';
import { writeRandomModel } from '../model/random-models.ts';

/** More memory than any machine has: 64 slots with the whole context. */
const HUGE = { source: 'Qwen/Qwen3-4B', slots: 64, context_tokens: 40_960 };

test('a model that does not fit into memory is refused before its download, and the error lists models that fit', async () => {
  await using service = await startService();
  const management = await Management.of(service);
  const response = await fetch(`${management.url}/api/models`, {
    method: 'POST',
    headers: { authorization: `Bearer ${management.admin}` },
    body: JSON.stringify(HUGE),
  });
  const { error } = (await response.json()) as { error: { code: string; message: string } };
  assert.deepEqual([response.status, error.code], [409, 'not_enough_memory'], error.message);
  assert.match(error.message, /^`Qwen\/Qwen3-4B` needs [\d,]+ MB of memory; [\d,]+ MB are available\. /);
  assert.match(error.message, /Models of the catalog that fit now: `[^`]+`/);
  assert.equal(service.service.router.overview().length, 1);

  const options = ['--slots', String(HUGE.slots), '--context-tokens', String(HUGE.context_tokens)];
  const { code, stderr } = await runCli(['models', 'add', HUGE.source, ...options], service.env);
  assert.equal(code, 1);
  assert.match(stderr, /needs [\d,]+ MB of memory; [\d,]+ MB are available/);
  assert.equal((await runCli(['models', 'list', '--added', '--json'], service.env)).stdout, '[]\n');
});

test('a model whose file is on a RAM disk needs no more memory for it', async (t) => {
  const ramDisk = await mkdtemp('/dev/shm/sluice-test-').catch(() => null);
  if (ramDisk === null) return t.skip('this machine has no RAM disk');
  t.after(() => rm(ramDisk, { recursive: true }));
  await using folder = await temporaryFolder();
  const store = new ModelStore({ home: folder.path, log: SILENT, env: {} });
  const footprints = [];
  for (const path of [folder.path, ramDisk]) {
    const file = join(path, 'random.gguf');
    writeRandomModel('qwen3', file);
    const footprint = await footprintOf('test/model', { file, gpuLayers: 0 }, store);
    assert(footprint);
    footprints.push(footprint);
  }
  const [onDisk, inMemory] = footprints;
  const { size } = await stat(join(ramDisk, 'random.gguf'));
  assert.equal(onDisk!.minBytes - inMemory!.minBytes, size);
  assert.equal(onDisk!.usefulBytes - inMemory!.usefulBytes, size);
  const available = onDisk!.usefulBytes;
  assert.equal(inMemory!.planned(available - size).bytes, onDisk!.planned(available).bytes - size);
});
