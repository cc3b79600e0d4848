import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import {
  availableMemory,
  checkMemory,
  describePlan,
  NotEnoughMemory,
  planMemory,
  totalBytes,
} from '../../../src/engine/llama/memory.ts';

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

test('the KV cache is at most 1.5 times as large as the weights, and uses at most half of the remaining memory', () => {
  const model = { ...DEFAULT_MODEL, sizeBytes: 2000 * MB, contextTokens: 32_768, kvBytesPerToken: 32_768 };
  const sizes = [64 * 1024, 4096, 3072, 2500, 2200, 100].map((megabytes) => {
    const plan = planMemory(model, CHOOSE, { availableBytes: megabytes * MB, gpu: false });
    return [plan.slots, plan.contextTokens];
  });
  assert.deepEqual(sizes, [
    [8, 4096],
    [8, 2048],
    [4, 2048],
    [2, 1536],
    [1, 512],
    [1, 512],
  ]);
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
  assert.deepEqual(planned({ slots: 16, contextTokens: null }), [16, 4096]);
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

function batchOf(slots: number, gpu: boolean): number {
  return planMemory(DEFAULT_MODEL, { slots, contextTokens: 256 }, { ...LARGE, gpu }).batchTokens;
}

test('a batch on a CPU grows with the slots, up to the size of a batch on a GPU', () => {
  assert.deepEqual(
    [1, 4, 8, 16, 32, 300].map((slots) => batchOf(slots, false)),
    [128, 128, 256, 512, 512, 600],
  );
  assert.equal(batchOf(1, true), 512);
});
