import { ServiceError } from '../errors.ts';
import {
  estimatedPromptTokens,
  NO_USAGE,
  type EmbeddingRequest,
  type GenerationEvent,
} from '../generation.ts';
import { invalidResponse } from './invalid-response.ts';
import { readVectorBody } from './json-thread.ts';
import type { VectorList } from './vectors.ts';

/** Numbers that are delivered before the event loop gets a turn. Writing them as text takes a few milliseconds. */
const NUMBERS_AT_ONCE = 16_384;

/**
 * Reads the response of a replica to an embedding as events, which come in parts, so that many vectors do not hold the
 * event loop. Estimates the usage if the replica does not report it. Throws `engine_unavailable` for an invalid response,
 * and `invalid_value` if the vectors do not have the requested length.
 */
export async function* readEmbeddings(
  request: EmbeddingRequest,
  body: Uint8Array<ArrayBuffer>,
): AsyncGenerator<GenerationEvent[], undefined> {
  const count = request.inputs.length;
  const { numbers, dimensions, promptTokens } = await readVectors(body, count);
  if (request.dimensions !== null && request.dimensions !== dimensions) throw wrongLength(dimensions);
  const reported = promptTokens === null || promptTokens === 0 ? null : promptTokens;
  yield [{ type: 'started', promptTokens: reported, cachedTokens: null }];
  const atOnce = Math.max(1, Math.floor(NUMBERS_AT_ONCE / dimensions));
  for (let from = 0; from < count; from += atOnce) {
    const indexes = Array.from({ length: Math.min(atOnce, count - from) }, (_, offset) => from + offset);
    yield indexes.map((index) => {
      const vector = numbers.subarray(index * dimensions, (index + 1) * dimensions);
      return { type: 'embedding', index, vector };
    });
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  const usage = { ...NO_USAGE, promptTokens: reported ?? estimatedPromptTokens(request) };
  yield [{ type: 'end', usage, usageSource: reported === null ? 'estimated' : 'engine' }];
}

async function readVectors(body: Uint8Array<ArrayBuffer>, count: number): Promise<VectorList> {
  try {
    return await readVectorBody(body, count);
  } catch (cause) {
    throw invalidResponse(cause);
  }
}

/** Returns the error for a length that the model does not have. Some servers ignore `dimensions`. */
function wrongLength(dimensions: number): ServiceError {
  return new ServiceError(
    'invalid_value',
    `\`dimensions\` must be absent or ${dimensions}: the vectors of this model have ${dimensions} numbers.`,
    { param: 'dimensions' },
  );
}
