import { ServiceError } from '../../core/errors.ts';
import {
  estimatedPromptTokens,
  NO_USAGE,
  type EmbeddingRequest,
  type GenerationEvent,
} from '../../core/generation.ts';
import { invalidResponse } from '../../core/invalid-response.ts';
import { readVectorBody } from '../../json/json-thread.ts';

/**
 * Reads the response of a replica to an embedding as events. Estimates the usage if the replica does not report it. Throws
 * `engine_unavailable` for an invalid response, and `invalid_value` if the vectors do not have the requested length.
 */
export async function readEmbeddings(
  request: EmbeddingRequest,
  body: Uint8Array<ArrayBuffer>,
): Promise<GenerationEvent[]> {
  const read = readVectorBody(body, request.inputs.length).catch((cause: unknown) => {
    throw invalidResponse(cause);
  });
  const { numbers, dimensions, promptTokens } = await read;
  if (request.dimensions !== null && request.dimensions !== dimensions) throw wrongLength(dimensions);
  const reported = promptTokens === null || promptTokens === 0 ? null : promptTokens;
  const vectors = request.inputs.map((_, index): GenerationEvent => ({
    type: 'embedding',
    index,
    vector: numbers.subarray(index * dimensions, (index + 1) * dimensions),
  }));
  const usage = { ...NO_USAGE, promptTokens: reported ?? estimatedPromptTokens(request) };
  return [
    { type: 'started', promptTokens: reported, cachedTokens: null },
    ...vectors,
    { type: 'end', usage, usageSource: reported === null ? 'estimated' : 'engine' },
  ];
}

/** Returns the error for a length that the model does not have. Some servers ignore `dimensions`. */
function wrongLength(dimensions: number): ServiceError {
  return new ServiceError(
    'invalid_value',
    `\`dimensions\` must be absent or ${dimensions}: the vectors of this model have ${dimensions} numbers.`,
    { param: 'dimensions' },
  );
}
