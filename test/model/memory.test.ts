import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { type LlamaOptions, loadModel } from '../../src/engine/llama/load-model.ts';
import { planMemory } from '../../src/engine/llama/memory.ts';
import { Supervisor } from '../../src/engine/supervisor.ts';
import { SILENT } from '../../src/log.ts';
import { temporaryFolder, until } from '../harness.ts';
import { CACHE_MODELS } from './cache-models.ts';

const file = process.env.SLUICE_TEST_MODEL;
const skip =
  process.platform === 'linux' ? file === undefined && 'SLUICE_TEST_MODEL is not set' : 'reads /proc';

test(
  'with the default settings, the process of the default model takes less than 600 MB, and its cache and buffers less than 200 MB',
  { skip },
  async () => {
    await using folder = await temporaryFolder();
    const engine = { file, slots: null, contextTokens: null, threads: null, gpuLayers: 0 };
    const argument = { socketPath: join(folder.path, 'engine'), modelId: 'test/model', maxChoices: 16 };
    await using supervisor = new Supervisor({
      name: 'test/model',
      program: join(import.meta.dirname, '../../src/engine/llama/main.ts'),
      argument: { ...argument, engine, logLevel: 'silent' },
      stallMs: 60_000,
      loadStallMs: 300_000,
      log: SILENT,
    });
    supervisor.start();
    await until(() => supervisor.state.state !== 'loading');
    assert.equal(supervisor.state.state, 'ready');
    const memory = await readFile(`/proc/${supervisor.pid}/smaps_rollup`, 'utf8');
    const residentBytes = Number(/^Rss: +(\d+) kB/m.exec(memory)?.[1]) * 1024;
    // Some CPUs need a copy of the weights in their own layout, and some systems use large pages: 360 to 490 MB.
    assert(residentBytes < 600e6, memory);
    const options: LlamaOptions = {
      file: file!,
      slots: null,
      contextTokens: null,
      threads: null,
      gpuLayers: 0,
    };
    const { model, context } = await loadModel(options, { onProgress() {}, log: SILENT });
    const { allocatedBytes } = context;
    await context.dispose();
    await model.dispose();
    assert(allocatedBytes < 200e6, `${allocatedBytes} bytes`);
  },
);

for (const model of CACHE_MODELS)
  test(`the plan counts the memory that a slot of ${model.name} takes`, model.options, async () => {
    await using folder = await temporaryFolder();
    const file = model.file(folder.path);
    /** With both numbers of slots, a step has the same maximum of tokens, so its buffers have the same size. */
    const measure = async (slots: number): Promise<{ allocated: number; planned: number }> => {
      const options: LlamaOptions = { file, slots, contextTokens: 512, threads: 1, gpuLayers: 0 };
      const { model: native, context, info } = await loadModel(options, { onProgress() {}, log: SILENT });
      const plan = planMemory(info, options, { availableBytes: 0, gpu: false });
      const allocated = context.allocatedBytes;
      await context.dispose();
      await native.dispose();
      return { allocated, planned: plan.kvBytes + plan.computeBytes };
    };
    const [few, many] = [await measure(16), await measure(32)];
    const [planned, allocated] = [many.planned - few.planned, many.allocated - few.allocated];
    assert(planned > 0 && planned <= allocated, `planned ${planned}, allocated ${allocated}`);
    assert(allocated < planned * model.maxOverhead, `planned ${planned}, allocated ${allocated}`);
  });
