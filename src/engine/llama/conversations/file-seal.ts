import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';

export type SealTask =
  | {
      kind: 'seal';
      file: string;
      /** Written as JSON when the file is on the disk, with its checksums in addition. Null: there is none. */
      record: { file: string; data: object } | null;
    }
  | { kind: 'check'; file: string };

/**
 * Waits until a file is on the disk, and then writes its record, so that a later process can trust both. Returns the time
 * that the disk took, in milliseconds.
 */
export async function seal(
  file: string,
  record: Extract<SealTask, { kind: 'seal' }>['record'],
): Promise<number> {
  return (await runInThread({ kind: 'seal', file, record })) as number;
}

/** Returns the CRC-32 of each MiB of a file. */
export async function checksumsOf(file: string): Promise<number[]> {
  return (await runInThread({ kind: 'check', file })) as number[];
}

/**
 * Decodes run on the only thread of libuv's pool, so that they would wait for the disk with asynchronous calls as well. The
 * blocking ones of another thread do not delay them.
 */
async function runInThread(task: SealTask): Promise<unknown> {
  const file = new URL(`./file-seal-worker${extname(import.meta.filename)}`, import.meta.url);
  const worker = new Worker(file, { name: 'files', workerData: task });
  const ended = Promise.withResolvers<unknown>();
  worker.once('message', ended.resolve).once('error', ended.reject);
  worker.once('exit', () => ended.reject(new Error('the thread has ended')));
  return await ended.promise;
}
