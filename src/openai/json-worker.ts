import { parentPort } from 'node:worker_threads';
import { ServiceError } from '../errors.ts';
import { readVectors, type VectorList } from './vectors.ts';
import { parseJsonBody } from './json-body.ts';
import type { JsonResult, JsonTask } from './json-thread.ts';

/** The thread of `JsonThread`. Answers the tasks in their order. */
parentPort?.on('message', (task: JsonTask) => {
  const result = resultOf(task);
  parentPort?.postMessage(result, 'value' in result ? buffersOf(result.value) : []);
});

/** Returns what need not be copied. */
function buffersOf(value: unknown): ArrayBuffer[] {
  const { buffer = null } = (value as Partial<VectorList>).numbers ?? (value as { buffer?: unknown });
  return buffer instanceof ArrayBuffer ? [buffer] : [];
}

/** An error must not end the thread, because the tasks of other callers would fail too. */
function resultOf(task: JsonTask): JsonResult {
  try {
    if ('parse' in task) return { value: parseJsonBody(task.parse, task.bounds) };
    if ('vectors' in task) return { value: readVectors(task.vectors, task.count) };
    return { value: new TextEncoder().encode(JSON.stringify(task.write)) };
  } catch (error) {
    return error instanceof ServiceError ? { invalid: error.message } : { failed: error };
  }
}
