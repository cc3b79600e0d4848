import { parentPort } from 'node:worker_threads';
import { ServiceError } from '../errors.ts';
import { parseJsonBody } from './json-body.ts';
import type { JsonResult, JsonTask } from './json-thread.ts';

/** The thread of `JsonThread`. Answers the tasks in their order. */
parentPort?.on('message', (task: JsonTask) => {
  const result = resultOf(task);
  const bytes = 'value' in result && result.value instanceof Uint8Array ? [result.value.buffer] : [];
  parentPort?.postMessage(result, bytes as ArrayBuffer[]);
});

/** An error must not end the thread, because the tasks of other callers would fail too. */
function resultOf(task: JsonTask): JsonResult {
  try {
    if ('parse' in task) return { value: parseJsonBody(task.parse, task.maxValues) };
    return { value: new TextEncoder().encode(JSON.stringify(task.write)) };
  } catch (error) {
    return error instanceof ServiceError ? { invalid: error.message } : { failed: error };
  }
}
