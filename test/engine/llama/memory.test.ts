import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import {
  availableMemory,
  checkMemory,
  memoryNeed,
  NotEnoughMemory,
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

test('a cgroup v2 limit applies to child groups, and its file cache counts as free', () => {
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

test('a model that does not fit is refused with the numbers', () => {
  const need = memoryNeed({ sizeBytes: 98_000_000, kvBytesPerToken: 23_040 }, 8, 1000);
  assert.equal(need.kvBytes, 8 * 1024 * 23_040, 'a slot is rounded up to 256 tokens');
  const total = need.fileBytes + need.kvBytes + need.overheadBytes;
  checkMemory(need, { bytes: total, limit: 'machine' });
  assert.throws(
    () => checkMemory(need, { bytes: 200_000_000, limit: 'cgroup' }),
    (error: unknown) =>
      error instanceof NotEnoughMemory &&
      error.message.includes('445 MB') &&
      error.message.includes('file 98 MB') &&
      error.message.includes('200 MB') &&
      error.message.includes('cgroup'),
  );
});
