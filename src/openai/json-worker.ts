import { parentPort } from 'node:worker_threads';
import { ServiceError } from '../errors.ts';
import { parseJsonBody } from './json-body.ts';
import type { JsonResult, JsonTask } from './json-thread.ts';

/** The thread of `JsonThread`. Answers the tasks in their order. */
parentPort?.on('message', (task: JsonTask) => {
  if ('parse' in task) {
    parentPort?.postMessage(parse(task.parse));
  } else {
    const bytes = new TextEncoder().encode(JSON.stringify(task.write));
    parentPort?.postMessage({ value: bytes } satisfies JsonResult, [bytes.buffer]);
  }
});

function parse(bytes: Uint8Array): JsonResult {
  try {
    return { value: parseJsonBody(bytes) };
  } catch (error) {
    if (error instanceof ServiceError) return { invalid: error.message };
    throw error;
  }
}
