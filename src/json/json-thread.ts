import { extname } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { ServiceError } from '../core/errors.ts';
import { hasRawNumber, restoreExact, type ExactNumber } from './exact-json.ts';
import { MAX_BODY_VALUES, parseJsonBody, valueBounds, type JsonMemory } from './json-body.ts';
import { type ValueBounds } from '../core/protocol.ts';
import type { PackedResponse } from './packed-response.ts';
import { readVectors, type VectorList } from './vectors.ts';

/**
 * Size from which JSON is parsed and written on a thread, in bytes or characters. Smaller texts take at most a few
 * milliseconds, which is less than the two threads need to exchange them.
 */
export const LARGE_JSON = 1_048_576;

/**
 * The same for bodies of requests and of replicas that may have more values than usual. Other requests of this size are parsed
 * in a turn of the event loop of their own: tens of thousands of values take as long to parse as to read afterwards.
 */
export const LARGE_LIST = 65_536;

export type JsonTask =
  | { parse: Uint8Array; bounds: ValueBounds }
  | { write: unknown }
  | { vectors: Uint8Array; count: number }
  | { response: Uint8Array };

/** A body that was parsed, and about how many bytes it takes on the heap. */
interface ParsedBody {
  object: Record<string, unknown>;
  heapBytes: number;
}

/** `invalid` is the message of an `invalid_json`, and `failed` any other error. */
export type JsonResult =
  | { value: unknown; exact?: readonly ExactNumber[] }
  | { invalid: string }
  | { failed: unknown };

/**
 * Parses and writes large JSON texts on one thread, so that they do not hold the event loop. The thread starts with the
 * first text and then stays, without keeping the process alive while it is idle.
 */
class JsonThread {
  #worker: Worker | null = null;
  /** The tasks without a result, in their order. */
  #pending: PromiseWithResolvers<unknown>[] = [];

  /** Rejects with `invalid_json`, with the error of the task, or if the thread stops. */
  async run(task: JsonTask, transferred: ArrayBuffer[] = []): Promise<unknown> {
    const worker = (this.#worker ??= this.#start());
    worker.postMessage(task, transferred);
    worker.ref();
    const pending = Promise.withResolvers();
    this.#pending.push(pending);
    return await pending.promise;
  }

  #start(): Worker {
    const file = new URL(`./json-worker${extname(import.meta.filename)}`, import.meta.url);
    const worker = new Worker(file, { name: 'json' });
    worker.on('message', (result: JsonResult) => {
      const pending = this.#pending.shift();
      if (this.#pending.length === 0) worker.unref();
      if ('value' in result) {
        // Only parsed bodies have these.
        if (result.exact) restoreExact((result.value as ParsedBody).object, result.exact);
        pending?.resolve(result.value);
      } else if ('invalid' in result) pending?.reject(new ServiceError('invalid_json', result.invalid));
      else pending?.reject(result.failed);
    });
    let reason: unknown = null;
    worker.on('error', (error) => (reason = error));
    worker.on('exit', () => {
      this.#worker = null;
      const stopped = new Error('the thread for large JSON texts has stopped', { cause: reason });
      for (const { reject } of this.#pending.splice(0)) reject(stopped);
    });
    return worker;
  }
}

const thread = new JsonThread();

/** Returns the object of a request body, once. Throws `invalid_json`. */
export type JsonBody = () => Record<string, unknown>;

/**
 * Prepares a body to be parsed, whose memory is counted. The bytes of a large one cannot be used afterwards. Rejects if there
 * is not enough memory for a large one.
 */
export function jsonBody(
  bytes: Uint8Array<ArrayBuffer>,
  bounds = valueBounds(MAX_BODY_VALUES),
  memory: JsonMemory | null = null,
): JsonBody | Promise<JsonBody> {
  if (bytes.length < LARGE_LIST) return () => parseJsonBody(bytes, bounds, memory);
  const onThread = bounds.values > MAX_BODY_VALUES || bytes.length >= LARGE_JSON;
  return onThread ? parseOnThread(bytes, bounds, memory) : parseNextTurn(bytes, bounds, memory);
}

/** The result is read in a turn after the one in which it arrives. */
async function parseOnThread(
  bytes: Uint8Array<ArrayBuffer>,
  bounds: ValueBounds,
  memory: JsonMemory | null,
): Promise<JsonBody> {
  let parsed: ParsedBody;
  try {
    parsed = (await thread.run({ parse: bytes, bounds }, [bytes.buffer])) as ParsedBody; // From `resultOf`.
  } catch (error) {
    return failing(error);
  }
  memory?.resize(parsed.heapBytes);
  await nextTurn();
  return () => parsed.object;
}

async function parseNextTurn(
  bytes: Uint8Array,
  bounds: ValueBounds,
  memory: JsonMemory | null,
): Promise<JsonBody> {
  await nextTurn();
  try {
    const object = parseJsonBody(bytes, bounds, memory);
    await nextTurn();
    return () => object;
  } catch (error) {
    return failing(error);
  }
}

function failing(error: unknown): JsonBody {
  return () => {
    throw error;
  };
}

/** Returns the JSON text of a value as UTF-8. */
export async function writeLargeJson(value: unknown): Promise<Uint8Array> {
  try {
    return (await thread.run({ write: value })) as Uint8Array;
  } catch (error) {
    // A number that keeps its text cannot be sent to the thread.
    if (!hasRawNumber(value)) throw error;
    return new TextEncoder().encode(JSON.stringify(value));
  }
}

/** Reads the vectors in the body of a response: see `readVectors`. The bytes of a large one cannot be used afterwards. */
export async function readVectorBody(body: Uint8Array<ArrayBuffer>, count: number): Promise<VectorList> {
  if (body.length < LARGE_LIST) return readVectors(body, count);
  return (await thread.run({ vectors: body, count }, [body.buffer])) as VectorList;
}

/** Parses the response of a replica: see `packResponse`. The bytes cannot be used afterwards. */
export async function readLargeResponse(body: Uint8Array<ArrayBuffer>): Promise<PackedResponse> {
  return (await thread.run({ response: body }, [body.buffer])) as PackedResponse;
}
