import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Backend, loadBackend } from '../../src/engine/llama/native/backend.ts';
import { NativeModel } from '../../src/engine/llama/native/model.ts';
import type { NativeContext } from '../../src/engine/llama/native/context.ts';
import { loadModel } from '../../src/engine/llama/load-model.ts';
import { Supervisor } from '../../src/serving/supervisor.ts';
import { SILENT } from '../../src/support/log.ts';
import { temporaryFolder, until } from '../../test/harness.ts';
import { writeRandomModel } from '../../test/model/random-models.ts';

/** The default model, with a block for each of its 30 layers and the output layer. */
const FILE = process.env.SLUICE_TEST_MODEL ?? '';
const ALL_LAYERS = 31;

/**
 * The layers of a model of 2 blocks with random weights, which is fast on the CPU that computes as the GPU, for tests that
 * do not depend on the weights.
 */
const RANDOM_LAYERS = 3;

const ROOT = join(import.meta.dirname, '../..');
const SIZES = { slots: 3, slotTokens: 256, batchTokens: 64, threads: 1 };
const PROMPT = 'The capital of France is';
const LONGER = `${PROMPT} Paris. The capital of Italy is`;

/**
 * Maximum difference of a log probability between a GPU and a CPU, which round differently: llama.cpp's CPU kernels compute
 * with 8-bit activations. Measured: at most 0.4 for likely tokens.
 */
const TOLERANCE = 0.8;

/** Maximum difference if the same kernels compute the same tokens of the random model in other batches. Measured: 0. */
const SAME_DEVICE = 0.01;

/** Computes tokens from a position on, and returns the log probabilities of the next token. */
async function compute(
  { model, context }: Loaded,
  sequence: number,
  tokens: Uint32Array,
  from = 0,
): Promise<Float32Array> {
  const sampler = model.sampler({ temperature: 0, seed: 0 });
  const rest = tokens.subarray(from);
  context.begin(rest.length);
  const index = context.add(sequence, from, rest, 1);
  await context.decode();
  const logits = await context.logits(index, sampler);
  sampler.dispose();
  const max = logits.reduce((a, b) => Math.max(a, b));
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - max), 0);
  return logits.map((logit) => logit - max - Math.log(total));
}

/** Returns the largest difference between two distributions, among tokens that are likely in the first. */
function difference(a: Float32Array, b: Float32Array): number {
  return a.reduce(
    (max, value, token) => (value < -6 ? max : Math.max(max, Math.abs(value - (b[token] ?? 0)))),
    0,
  );
}

interface Loaded {
  model: NativeModel;
  context: NativeContext;
}

async function dispose({ model, context }: Loaded): Promise<void> {
  await context.dispose();
  await model.dispose();
}

describe('a model on a GPU', () => {
  let backend: Backend;
  let folder: Awaited<ReturnType<typeof temporaryFolder>>;
  let randomFile: string;
  let cpu: Loaded;
  let gpu: Loaded;

  const open = async (gpuLayers: number, file = FILE): Promise<Loaded> => {
    const model = await NativeModel.load(backend, file, { gpuLayers, onProgress() {} });
    return { model, context: await model.context(SIZES) };
  };

  before(async () => {
    folder = await temporaryFolder();
    randomFile = join(folder.path, 'random.gguf');
    writeRandomModel('qwen3', randomFile);
    backend = await loadBackend(SILENT);
    cpu = await open(0);
    gpu = await open(ALL_LAYERS);
  });

  after(async () => {
    await dispose(gpu);
    await dispose(cpu);
    await folder[Symbol.asyncDispose]();
  });

  const tokens = (text: string): Uint32Array => cpu.model.tokenize(text, false);

  test('the package for the GPU is chosen before that for the CPU, and knows the memory of the GPU', () => {
    assert.equal(backend.kind, 'vulkan');
    assert.equal(backend.package, '@node-llama-cpp/linux-x64-vulkan');
    const { total, used } = backend.addon.getGpuVramInfo();
    assert(total > 500e6 && used >= 0, `${used} of ${total}`);
  });

  test('it generates the same text as the CPU, apart from tokens that are about equally likely', async () => {
    let context = tokens(PROMPT);
    let computed = 0;
    for (let step = 0; step < 6; step++) {
      const onGpu = await compute(gpu, 0, context, computed);
      const onCpu = await compute(cpu, 0, context, computed);
      computed = context.length;
      assert(difference(onCpu, onGpu) < TOLERANCE, `step ${step}: ${difference(onCpu, onGpu)}`);
      const next = onGpu.indexOf(onGpu.reduce((a, b) => Math.max(a, b)));
      if (step === 0) assert.equal(gpu.model.detokenize(Uint32Array.of(next), false), ' Paris');
      context = Uint32Array.of(...context, next);
    }
    gpu.context.clear(0);
    cpu.context.clear(0);
  });

  describe('with random weights', () => {
    let random: Loaded;

    before(async () => {
      random = await open(RANDOM_LAYERS, randomFile);
    });

    after(() => dispose(random));

    test('a sequence on it can be trimmed, copied, saved and loaded', async () => {
      const { model, context } = random;
      const [short, long] = [model.tokenize(PROMPT, false), model.tokenize(LONGER, false)];
      const expected = await compute(random, 0, long);
      const assertSame = (actual: Float32Array, what: string): void =>
        assert(difference(expected, actual) < SAME_DEVICE, `${what}: ${difference(expected, actual)}`);
      const other = await compute(random, 1, long.toReversed());
      assert(difference(expected, other) > 10 * SAME_DEVICE, `another text: ${difference(expected, other)}`);
      context.clear(1);

      assert(context.trim(0, short.length));
      assertSame(await compute(random, 0, long, short.length), 'trimmed');

      await context.copy(1, 0);
      assert(context.trim(1, short.length));
      assertSame(await compute(random, 1, long, short.length), 'copied');

      const file = join(folder.path, 'sequence');
      await context.save(1, long, file);
      context.clear(0);
      context.clear(1);
      assert.deepEqual(await context.load(2, file), long);
      assert(context.trim(2, short.length));
      assertSame(await compute(random, 2, long, short.length), 'loaded');
      context.clear(2);
    });

    test('its sampler draws the same tokens for the same seed', async () => {
      const { model, context } = random;
      const draw = async (sequence: number): Promise<number[]> => {
        const sampler = model.sampler({ temperature: 1, topK: 40, seed: 7 });
        const drawn: number[] = [];
        let next = model.tokenize(PROMPT, false);
        for (let position = 0; drawn.length < 3; position += next.length) {
          if (drawn.length > 0) next = Uint32Array.of(drawn.at(-1) ?? 0);
          context.begin(next.length);
          const index = context.add(sequence, position, next, 1);
          await context.decode();
          drawn.push(await context.sample(index, sampler));
        }
        sampler.dispose();
        context.clear(sequence);
        return drawn;
      };
      assert.deepEqual(await draw(0), await draw(1));
    });

    for (const [gpuLayers, expected] of [
      ['auto', RANDOM_LAYERS],
      [2, 2],
      [0, 0],
    ] as const)
      test(`with \`gpuLayers: ${gpuLayers}\`, ${expected} layers are on the GPU`, async () => {
        const options = { file: randomFile, slots: 1, contextTokens: 256, threads: 1, gpuLayers };
        const loaded = await loadModel(options, { onProgress() {}, log: SILENT });
        assert.equal(loaded.backend, `vulkan, ${expected} layers`);
        assert.equal(loaded.context.slotTokens, 256);
        await dispose(loaded);
      });
  });

  test('it can have some layers on the GPU and the others on the CPU', async () => {
    const some = await open(3);
    const [onCpu, onBoth] = [await compute(cpu, 0, tokens(LONGER)), await compute(some, 0, tokens(LONGER))];
    assert(difference(onCpu, onBoth) < TOLERANCE, `${difference(onCpu, onBoth)}`);
    await dispose(some);
    cpu.context.clear(0);
  });

  test('its KV cache can be in q8_0', async () => {
    const { model } = gpu;
    const context = await model.context({ ...SIZES, slots: 1, kvCache: 'q8_0' });
    assert(context.allocatedBytes < gpu.context.allocatedBytes);
    const [onGpu, onCpu] = [
      await compute({ model, context }, 0, tokens(LONGER)),
      await compute(cpu, 0, tokens(LONGER)),
    ];
    assert(difference(onCpu, onGpu) < TOLERANCE, `${difference(onCpu, onGpu)}`);
    await context.dispose();
    cpu.context.clear(0);
  });
});

test('without a GPU, the package for the GPU uses the CPU', () => {
  const load = `import { loadBackend } from './src/engine/llama/native/backend.ts';
    import { SILENT } from './src/support/log.ts';
    const { kind, package: name } = await loadBackend(SILENT);
    console.log(kind, name);`;
  const { stdout } = spawnSync(process.execPath, ['--input-type=module-typescript', '--eval', load], {
    cwd: ROOT,
    // Without a selection, llama.cpp ignores devices that compute on the CPU.
    env: { ...process.env, GGML_VK_VISIBLE_DEVICES: undefined },
    encoding: 'utf8',
  });
  assert.equal(stdout, 'cpu @node-llama-cpp/linux-x64-vulkan\n');
});

/** A variable of llama.cpp's Vulkan library, in bytes. */
const MAX_BUFFER = 'GGML_VK_FORCE_MAX_BUFFER_SIZE';

/** Starts an engine whose GPU reports 2 GiB of free memory, but cannot allocate more than 12 MB at once. */
async function startWithFullGpu(gpuLayers: number | 'auto') {
  await using folder = await temporaryFolder();
  process.env[MAX_BUFFER] = '12000000';
  await using supervisor = new Supervisor({
    name: 'test/model',
    program: join(ROOT, 'src/engine/llama/main.ts'),
    argument: {
      socketPath: join(folder.path, 'engine'),
      modelId: 'test/model',
      maxChoices: 1,
      engine: { file: FILE, slots: 1, contextTokens: 256, threads: 1, gpuLayers },
      logLevel: 'silent',
    },
    stallMs: 60_000,
    loadStallMs: 120_000,
    log: SILENT,
  });
  supervisor.start();
  delete process.env[MAX_BUFFER];
  await until(() => supervisor.state.state !== 'loading');
  const { state, starts, report } = supervisor;
  return { state, starts, backend: report.backend };
}

test('if the GPU has less memory than it reported, fewer layers are there', async () => {
  const expected = { state: { state: 'ready' }, starts: 1, backend: 'vulkan, 3 layers' };
  assert.deepEqual(await startWithFullGpu('auto'), expected);
});

test('if the GPU has no memory for `gpuLayers`, the engine reports it and is not started again', async () => {
  const { state, starts } = await startWithFullGpu(ALL_LAYERS);
  assert(state.state === 'down' && state.retryInMs === null && starts === 1);
  assert.match(
    state.reason,
    /^Not enough memory on the GPU for 31 layers: .*failed to allocate Vulkan0 buffer of size \d+\. Set fewer gpuLayers, or `auto`\.$/,
  );
});
