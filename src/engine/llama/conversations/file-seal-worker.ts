/** Runs in a separate thread; see `file-seal.ts`. */
import { closeSync, fsyncSync, openSync, readSync, writeFileSync } from 'node:fs';
import { parentPort, workerData } from 'node:worker_threads';
import { crc32 } from 'node:zlib';
import type { SealTask } from './file-seal.ts';

const BLOCK_BYTES = 1024 * 1024;

parentPort?.postMessage(run(workerData as SealTask));

function run(task: SealTask): number | number[] {
  // Windows only flushes files that can be written.
  const descriptor = openSync(task.file, 'r+');
  try {
    if (task.kind === 'check') return blockChecksums(descriptor);
    const { record } = task;
    const checksums = record === null ? null : blockChecksums(descriptor);
    const startedAt = performance.now();
    fsyncSync(descriptor);
    const flushMs = performance.now() - startedAt;
    if (record !== null)
      writeFileSync(record.file, JSON.stringify({ ...record.data, checksums }), { mode: 0o600 });
    return flushMs;
  } finally {
    closeSync(descriptor);
  }
}

function blockChecksums(descriptor: number): number[] {
  const block = Buffer.allocUnsafe(BLOCK_BYTES);
  const checksums: number[] = [];
  for (;;) {
    let length = 0;
    for (let read = 1; read > 0 && length < BLOCK_BYTES; length += read)
      read = readSync(descriptor, block, length, BLOCK_BYTES - length, null);
    if (length > 0) checksums.push(crc32(block.subarray(0, length)));
    if (length < BLOCK_BYTES) return checksums;
  }
}
