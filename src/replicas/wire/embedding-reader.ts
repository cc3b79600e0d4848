import { ServiceError } from '../../core/errors.ts';
import {
  estimatedPromptTokens,
  NO_USAGE,
  type EmbeddingRequest,
  type GenerationEvent,
  type GenerationRequest,
  type RerankRequest,
} from '../../core/generation.ts';
import { invalidResponse } from '../../core/invalid-response.ts';
import { valueBounds } from '../../json/json-body.ts';
import { jsonBody, readVectorBody } from '../../json/json-thread.ts';
import { asList, jsonObject, type JsonObject } from '../../json/values.ts';
import { readPromptTokens } from '../../json/vectors.ts';

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
  const vectors = request.inputs.map((_, index): GenerationEvent => ({
    type: 'embedding',
    index,
    vector: numbers.subarray(index * dimensions, (index + 1) * dimensions),
  }));
  return withUsage(request, vectors, promptTokens);
}

/**
 * Reads the response of a replica to a request for scores as events: a list of results (SGLang, TEI), or an object with
 * one in `results`, or in `data` (Voyage). Otherwise as `readEmbeddings`.
 */
export async function readScores(
  request: RerankRequest,
  body: Buffer<ArrayBuffer>,
): Promise<GenerationEvent[]> {
  const count = request.documents.length;
  const isList = body.subarray(0, MAX_INDENT).toString().trimStart().startsWith('[');
  const object = isList ? Buffer.concat([Buffer.from('{"results":'), body, Buffer.from('}')]) : body;
  try {
    const parsed = await jsonBody(object, valueBounds(VALUES_PER_RESULT * (count + 1)));
    const { results, data, usage } = parsed();
    const scores = new Map(asList(results ?? data).map((item) => readScore(jsonObject(item))));
    const events = request.documents.map((_, index): GenerationEvent => {
      const score = scores.get(index);
      if (score === undefined) throw new Error(`the response has no score of document ${index}`);
      return { type: 'score', index, score };
    });
    return withUsage(request, events, readPromptTokens(jsonObject(usage)));
  } catch (cause) {
    throw invalidResponse(cause);
  }
}

/** White space that a response may start with, in bytes. */
const MAX_INDENT = 16;

/** More JSON values than a result has: a document with its score, and its counts. */
const VALUES_PER_RESULT = 64;

function readScore({ index, relevance_score, score = relevance_score }: JsonObject): [number, number] {
  if (typeof index !== 'number') throw new Error('a result has no index');
  if (typeof score !== 'number' || !Number.isFinite(score)) throw new Error('a score is not a number');
  return [index, score];
}

function withUsage(
  request: GenerationRequest,
  results: readonly GenerationEvent[],
  promptTokens: number | null,
): GenerationEvent[] {
  const reported = promptTokens === 0 ? null : promptTokens;
  const usage = { ...NO_USAGE, promptTokens: reported ?? estimatedPromptTokens(request) };
  return [
    { type: 'started', promptTokens: reported, cachedTokens: null },
    ...results,
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
