import { parentPort } from 'node:worker_threads';
import { ServiceError } from '../core/errors.ts';
import type { ExactNumber } from './exact-json.ts';
import { readVectors } from './vectors.ts';
import { parseJsonBody } from './json-body.ts';
import { heapBytes } from './json-heap.ts';
import { packResponse, packedBuffers } from './packed-response.ts';
import type { JsonResult, JsonTask } from './json-thread.ts';

/** The thread of `JsonThread`. Answers the tasks in their order. */
parentPort?.on('message', (task: JsonTask) => {
  const [result, buffers] = resultOf(task);
  parentPort?.postMessage(result, buffers);
});

/**
 * Returns the result and its buffers that need not be copied. An error must not end the thread, because the tasks of other
 * callers would fail too.
 */
function resultOf(task: JsonTask): [result: JsonResult, buffers: ArrayBuffer[]] {
  try {
    if ('parse' in task) {
      const exact: ExactNumber[] = [];
      const object = parseJsonBody(task.parse, task.bounds, null, exact);
      return [{ value: { object, heapBytes: heapBytes(object) }, exact }, []];
    }
    if ('response' in task) {
      const value = packResponse(task.response);
      return [{ value }, packedBuffers(value)];
    }
    if ('vectors' in task) {
      const value = readVectors(task.vectors, task.count);
      return [{ value }, [value.numbers.buffer]];
    }
    const value = new TextEncoder().encode(JSON.stringify(task.write));
    return [{ value }, [value.buffer]];
  } catch (error) {
    return [error instanceof ServiceError ? { invalid: error.message } : { failed: error }, []];
  }
}
