import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import {
  AGENT_TOKENS,
  availableMemory,
  checkMemory,
  describeAgents,
  describePlan,
  type MemoryPlan,
  NotEnoughMemory,
  type PlannedMachine,
  type PlannedModel,
  planMemory,
  type PlanOptions,
  totalBytes,
} from '../../src/models/memory.ts';

const MB = 1024 * 1024;

/** Creates a temporary directory with these files. */
function withFiles(files: Record<string, string>, use: (root: string) => void): void {
  const root = mkdtempSync(join(tmpdir(), 'sluice-memory-'));
  try {
    for (const [path, text] of Object.entries(files)) {
      mkdirSync(dirname(join(root, path)), { recursive: true });
      writeFileSync(join(root, path), text);
    }
    use(root);
  } finally {
    rmSync(root, { recursive: true });
  }
}

const MEMINFO = `MemTotal:  8000000 kB\nMemAvailable:  ${4096 * 1024} kB\n`;

test('without a cgroup limit, the machine sets the limit', () => {
  const files = {
    'proc/meminfo': MEMINFO,
    'proc/self/cgroup': '0::/user.slice\n',
    'sys/fs/cgroup/user.slice/memory.max': 'max\n',
  };
  withFiles(files, (root) => {
    assert.deepEqual(availableMemory(root), { bytes: 4096 * MB, limit: 'machine' });
  });
});

test('a cgroup v2 limit applies to child groups, and the file cache of a group counts as free', () => {
  const files = {
    'proc/meminfo': MEMINFO,
    'proc/self/cgroup': '0::/pod/container\n',
    'sys/fs/cgroup/pod/memory.max': `${1000 * MB}\n`,
    'sys/fs/cgroup/pod/memory.current': `${700 * MB}\n`,
    'sys/fs/cgroup/pod/memory.stat': `anon 5\ninactive_file ${200 * MB}\n`,
    'sys/fs/cgroup/pod/container/memory.max': 'max\n',
  };
  withFiles(files, (root) => {
    assert.deepEqual(availableMemory(root), { bytes: 500 * MB, limit: 'cgroup' });
  });
});

test('a cgroup v1 limit is read from the memory controller', () => {
  const files = {
    'proc/meminfo': MEMINFO,
    'proc/self/cgroup': '9:cpu,cpuacct:/x\n4:memory:/docker/abc\n',
    'sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes': `${512 * MB}\n`,
    'sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes': `${100 * MB}\n`,
    'sys/fs/cgroup/memory/docker/abc/memory.stat': 'total_inactive_file 0\n',
    'sys/fs/cgroup/memory/memory.limit_in_bytes': '9223372036854771712\n',
  };
  withFiles(files, (root) => {
    assert.deepEqual(availableMemory(root), { bytes: 412 * MB, limit: 'cgroup' });
  });
});

const DEFAULT_MODEL = {
  sizeBytes: 98_362_432,
  contextTokens: 8192,
  kvBytesPerToken: 23_040,
  stateBytesPerSlot: 0,
  vocabularySize: 49_152,
  embeddingLength: 576,
  embedding: null,
};
const CHOOSE = { slots: null, contextTokens: null };
const LARGE = { availableBytes: 64 * 1024 * MB, gpu: false };

test('the default slots and context of the default model need less than 400 MiB', () => {
  const plan = planMemory(DEFAULT_MODEL, CHOOSE, LARGE);
  assert.deepEqual([plan.slots, plan.contextTokens], [4, 1536]);
  assert(totalBytes(plan) < 400 * MB);
  assert.equal(
    describePlan(plan),
    'weights 98 MB, KV cache 4 × 1,536 tokens 142 MB, compute 28 MB, process 131 MB; total 399 MB',
  );
});

/** Returns the plan as `slots × context`. */
function sizeOf(model: PlannedModel, options: PlanOptions, machine: PlannedMachine): string {
  const { slots, contextTokens } = planMemory(model, options, machine);
  return `${slots} × ${contextTokens}`;
}

const onMachine = (megabytes: number): PlannedMachine => ({ availableBytes: megabytes * MB, gpu: false });

/** As Qwen3-0.6B in Q8_0. */
const SMALL_MODEL = {
  ...DEFAULT_MODEL,
  sizeBytes: 640_000_000,
  contextTokens: 40_960,
  kvBytesPerToken: 114_688,
  vocabularySize: 151_936,
};
/** As Llama 3.1 8B in Q8_0. */
const LARGE_MODEL = {
  ...SMALL_MODEL,
  sizeBytes: 8_540_000_000,
  contextTokens: 131_072,
  kvBytesPerToken: 131_072,
};
const TINY_CACHE = { ...SMALL_MODEL, contextTokens: 131_072, kvBytesPerToken: 4096 };

test('a slot has room for agents if its KV cache fits into half of the remaining memory', () => {
  const sizes = [6, 14, 24, 256].map((gigabytes) => sizeOf(SMALL_MODEL, CHOOSE, onMachine(1000 * gigabytes)));
  assert.deepEqual(sizes, ['4 × 2048', '1 × 32768', '2 × 32768', '2 × 32768']);
});

test('more than two slots are planned only while the KV cache is small, or small in relation to the weights', () => {
  assert.equal(sizeOf({ ...SMALL_MODEL, kvBytesPerToken: 32_768 }, CHOOSE, LARGE), '4 × 32768', '4 GiB');
  assert.equal(sizeOf({ ...LARGE_MODEL, sizeBytes: 2 * LARGE_MODEL.sizeBytes }, CHOOSE, LARGE), '5 × 32768');
});

test("with 8 slots, the context grows to the model's own", () => {
  assert.equal(sizeOf(TINY_CACHE, CHOOSE, LARGE), '8 × 131072');
  assert.equal(sizeOf({ ...TINY_CACHE, kvBytesPerToken: 8192 }, CHOOSE, LARGE), '8 × 65536');
  const short = { ...TINY_CACHE, contextTokens: 20_000 };
  assert.equal(sizeOf(short, CHOOSE, LARGE), '8 × 20000', 'the first prompts of agents fit');
  assert.equal(sizeOf({ ...TINY_CACHE, contextTokens: 16_000 }, CHOOSE, LARGE), '8 × 16000');
});

test('without room for agents, the KV cache is at most 1.5 times as large as the weights', () => {
  const model = { ...DEFAULT_MODEL, sizeBytes: 2000 * MB, contextTokens: 32_768, kvBytesPerToken: 32_768 };
  const sizes = [4400, 4096, 3072, 2500, 2200, 100].map((megabytes) =>
    sizeOf(model, CHOOSE, onMachine(megabytes)),
  );
  assert.deepEqual(sizes, ['1 × 32768', '8 × 2048', '4 × 2048', '2 × 1536', '1 × 512', '1 × 512']);
  assert.equal(sizeOf({ ...LARGE_MODEL, contextTokens: 8192 }, CHOOSE, LARGE), '8 × 8192');
});

test('on a GPU, a second slot is planned only if all layers stay there', () => {
  const withGpu = (gigabytes: number): PlannedMachine => {
    const vramBytes = gigabytes * 1e9;
    return { availableBytes: 64e9 + vramBytes, gpu: true, vramBytes };
  };
  const sizes = [8, 24, 32, 80].map((gigabytes) => sizeOf(LARGE_MODEL, CHOOSE, withGpu(gigabytes)));
  assert.deepEqual(sizes, ['1 × 32768', '1 × 32768', '2 × 32768', '8 × 32768']);
  assert.equal(sizeOf(LARGE_MODEL, { ...CHOOSE, slots: 8 }, withGpu(12)), '8 × 4096');
  assert.equal(sizeOf(LARGE_MODEL, { ...CHOOSE, slots: 8 }, withGpu(32)), '8 × 8192');
  for (const gigabytes of [32, 80]) {
    const plan = planMemory(LARGE_MODEL, CHOOSE, withGpu(gigabytes));
    assert(totalBytes(plan) < gigabytes * 1e9);
  }
});

test('agents fit wherever one slot for them fits, and the KV cache never uses more than half of what remains', () => {
  const models = fc.record({
    sizeBytes: fc.integer({ min: 1e6, max: 50e9 }),
    contextTokens: fc.integer({ min: 128, max: 1_048_576 }),
    kvBytesPerToken: fc.integer({ min: 0, max: 500_000 }),
  });
  const machines = fc.record({
    availableBytes: fc.integer({ min: 1e8, max: 200e9 }),
    gpu: fc.boolean(),
    vramBytes: fc.option(fc.integer({ min: 0, max: 80e9 })),
  });
  fc.assert(
    fc.property(models, machines, (properties, machine) => {
      const model = { ...DEFAULT_MODEL, ...properties };
      const isRoomy = (plan: MemoryPlan): boolean =>
        plan.kvBytes <= (machine.availableBytes - totalBytes(plan) + plan.kvBytes) / 2;
      const needed = planMemory(model, { slots: 1, contextTokens: AGENT_TOKENS }, machine);
      const plan = planMemory(model, CHOOSE, machine);
      const agents = model.contextTokens >= AGENT_TOKENS && isRoomy(needed);
      assert.equal(plan.contextTokens >= AGENT_TOKENS, agents);
      assert(isRoomy(plan) || (plan.slots === 1 && plan.contextTokens <= 512));
      assert(plan.slots <= 8 && plan.contextTokens <= model.contextTokens);
    }),
    { examples: [[SMALL_MODEL, { availableBytes: 16e9, gpu: false, vramBytes: null }]] },
  );
});

test('a KV cache in q8_0 takes 34 bytes for 32 numbers, so that more fits', () => {
  const quantized = { ...CHOOSE, kvCache: 'q8_0' } as const;
  assert.equal(sizeOf(SMALL_MODEL, quantized, onMachine(6000)), '1 × 32768');
  assert.equal(planMemory(SMALL_MODEL, quantized, onMachine(6000)).kvBytes, 32_768 * 114_688 * (34 / 64));
  const recurrent = { ...SMALL_MODEL, kvBytesPerToken: 0, stateBytesPerSlot: MB };
  const plan = planMemory(recurrent, { ...quantized, slots: 2 }, LARGE);
  assert.equal(plan.kvBytes, 2 * MB);
  const { processBytes } = planMemory(SMALL_MODEL, { ...quantized, slots: 2 }, LARGE);
  assert.equal(plan.processBytes - processBytes, 2 * 3 * MB, 'three checkpoints of each slot');
});

test('the description of the slots names the settings with which agents fit', () => {
  const described = (model: PlannedModel, options: PlanOptions, machine: PlannedMachine): string =>
    describeAgents(planMemory(model, options, machine), model, machine);
  assert.deepEqual(
    [24_000, 5000, 3500, 1500].map((megabytes) => described(SMALL_MODEL, CHOOSE, onMachine(megabytes))),
    [
      '2 slots of 32,768 tokens: agents fit',
      '4 slots of 2,048 tokens: too short for agents, which need 32,768 tokens; to make them fit, set slots to 1 and contextTokens to 32768',
      '4 slots of 2,048 tokens: too short for agents, which need 32,768 tokens; to make them fit, set slots to 1, contextTokens to 32768 and kvCache to q8_0',
      '2 slots of 1,536 tokens: too short for agents, which need 32,768 tokens; there is not enough memory for this',
    ],
  );
  assert.equal(
    described(DEFAULT_MODEL, CHOOSE, LARGE),
    '4 slots of 1,536 tokens: too short for agents, which need 32,768 tokens; the model supports at most 8,192 tokens',
  );
});

test('a context is not longer than the model was trained with, unless the operator sets it', () => {
  const short = { ...DEFAULT_MODEL, contextTokens: 512 };
  assert.equal(planMemory(short, CHOOSE, LARGE).contextTokens, 512);
  assert.equal(planMemory(short, { ...CHOOSE, contextTokens: 1024 }, LARGE).contextTokens, 1024);
});

test('if the operator sets only the slots or only the context length, the other is chosen automatically', () => {
  const planned = (options: { slots: number | null; contextTokens: number | null }) => {
    const { slots, contextTokens } = planMemory(DEFAULT_MODEL, options, LARGE);
    return [slots, contextTokens];
  };
  assert.deepEqual(planned({ slots: 64, contextTokens: 8192 }), [64, 8192]);
  assert.deepEqual(planned({ slots: 16, contextTokens: null }), [16, 8192]);
  assert.deepEqual(planned({ slots: null, contextTokens: 2048 }), [8, 2048]);
});

const EMBEDDINGS = {
  sizeBytes: 640 * MB,
  contextTokens: 32_768,
  kvBytesPerToken: 114_688,
  stateBytesPerSlot: 0,
  vocabularySize: 151_669,
  embeddingLength: 1024,
  embedding: { pooling: 'last', causal: true },
} as const;
const BIDIRECTIONAL = {
  ...EMBEDDINGS,
  contextTokens: 512,
  kvBytesPerToken: 0,
  embedding: { pooling: 'mean', causal: false },
} as const;

test('embeddings have a slot per thread, in which an input may use the whole context of the model', () => {
  const plan = planMemory(BIDIRECTIONAL, { ...CHOOSE, threads: 6 }, LARGE);
  assert.deepEqual([plan.slots, plan.contextTokens, plan.batchTokens, plan.kvBytes], [6, 512, 512, 0]);
  const longer = planMemory(BIDIRECTIONAL, { slots: 8, contextTokens: 1024, threads: 6 }, LARGE);
  assert.deepEqual(
    [longer.slots, longer.contextTokens],
    [6, 512],
    'neither fewer threads nor more positions',
  );
});

test('embeddings on a GPU, or of a model with a large KV cache, have one slot with all threads', () => {
  const onGpu = planMemory(BIDIRECTIONAL, { ...CHOOSE, threads: 6 }, { ...LARGE, gpu: true });
  assert.deepEqual([onGpu.slots, onGpu.contextTokens], [1, 512]);
  const causal = planMemory(EMBEDDINGS, { ...CHOOSE, threads: 6 }, LARGE);
  assert.deepEqual([causal.slots, causal.contextTokens, causal.batchTokens], [1, 8192, 512]);
});

test('a model that does not fit is refused with the figures', () => {
  const plan = planMemory(DEFAULT_MODEL, { slots: 8, contextTokens: 1000 }, LARGE);
  assert.equal(plan.kvBytes, 8 * 1024 * 23_040, 'a slot is rounded up to 256 tokens');
  checkMemory(plan, { bytes: totalBytes(plan), limit: 'machine' });
  assert.throws(
    () => checkMemory(plan, { bytes: 200_000_000, limit: 'cgroup' }),
    (error: unknown) =>
      error instanceof NotEnoughMemory &&
      error.message.includes(`needs ${Math.round(totalBytes(plan) / 1e6)} MB`) &&
      error.message.includes('weights 98 MB') &&
      error.message.includes('200 MB') &&
      error.message.includes('cgroup'),
  );
});

function batchOf(slots: number, contextTokens: number, gpu: boolean): number {
  return planMemory(DEFAULT_MODEL, { slots, contextTokens }, { ...LARGE, gpu }).batchTokens;
}

test('a batch on a CPU grows with the slots and in long contexts, up to the size of a batch on a GPU', () => {
  assert.deepEqual(
    [1, 4, 8, 16, 32].map((slots) => batchOf(slots, 256, false)),
    [128, 128, 256, 512, 512],
  );
  assert.equal(batchOf(1, 8192, false), 512);
  assert.equal(batchOf(1, 256, true), 512);
});
