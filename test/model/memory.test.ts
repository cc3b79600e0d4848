import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { Supervisor } from '../../src/engine/supervisor.ts';
import { SILENT } from '../../src/log.ts';
import { temporaryFolder, until } from '../harness.ts';

const file = process.env.SLUICE_TEST_MODEL;
const skip =
  process.platform === 'linux' ? file === undefined && 'SLUICE_TEST_MODEL is not set' : 'reads /proc';

test(
  'the process of the default model takes less than 400 MB with the default settings',
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
    assert(residentBytes < 400e6, `${residentBytes} bytes`);
  },
);
