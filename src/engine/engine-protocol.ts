import { ServiceError } from '../core/errors.ts';
import type { GenerationRequest, EngineEvent } from '../core/generation.ts';
import type { Sampling } from '../core/sampling.ts';
import { errorBody } from '../core/error-body.ts';
import { valueBounds } from '../json/json-body.ts';
import { encodeVector } from '../json/vectors.ts';
import type { JsonObject } from '../json/values.ts';
import type { ReplicaHealth } from './engine.ts';

/**
 * The protocol between the service and its engines, on this machine and on others. The service sends the request of a
 * generation as JSON; the engine responds with one line of JSON per event, called a frame. Text without log probabilities
 * is an array, to keep the most frequent event short; other events are objects with the fields of `EngineEvent`. A
 * vector is Base64 of its numbers, in 32 bits, little-endian.
 * Both ends must have the same version of this file: see `ENGINE_PROTOCOL`.
 */

/**
 * The version, which `GET /health` of an engine reports. The service uses only engines of its own version. Increment it
 * when `GenerationRequest`, `EngineEvent` or their formats change.
 */
export const ENGINE_PROTOCOL = 6;

export const GENERATE_PATH = '/generate';

/** Counts the prompt tokens of a request, which has the same body as at `GENERATE_PATH`. */
export const COUNT_PATH = '/count';

/** Deletes what an engine keeps for later requests with a `cacheScope`. */
export const FORGET_PATH = '/forget';

export interface ForgetBody {
  cacheScope: string;
}

/** The response of `COUNT_PATH`. */
export interface PromptCountBody {
  promptTokens: number;
}

/** Media type of frames. */
export const EVENT_FRAMES = 'application/x-sluice-events';

/**
 * Maximum number of JSON values in the body of a request. The token IDs of a continued generation in the largest contexts
 * fit, and all that a service accepts from its callers.
 */
export const ENGINE_VALUES = valueBounds(4_000_000);

/** A request as JSON. It is nested no deeper than the caller's, so that it has the same maximum depth. */
type EngineRequest = { version: number; sampling: EngineSampling } & Omit<GenerationRequest, 'sampling'>;

type EngineSampling = Omit<Sampling, 'logitBias' | 'explicit'> & { logitBias: readonly [number, number][] };

/** Returns the body of a request for an engine, which is converted to JSON next. `model`: its name on the engine. */
export function engineRequest(
  request: GenerationRequest,
  changes: Pick<GenerationRequest, 'model' | 'maxTokens'>,
): EngineRequest {
  const { explicit: _, logitBias, ...sampling } = request.sampling;
  const { continuation } = request;
  return {
    version: ENGINE_PROTOCOL,
    ...request,
    ...changes,
    sampling: { ...sampling, logitBias: [...logitBias] },
    // The engine generates the text again from the token IDs.
    continuation: continuation && { ...continuation, text: '' },
    // These are not for the engine: the trace is in a header.
    user: null,
    traceparent: null,
  };
}

/**
 * Reads the body of a request, whose fields the service has checked. Throws `invalid_value` for another version of the
 * protocol.
 */
export function readEngineRequest(body: JsonObject): GenerationRequest {
  const { version, ...fields } = body;
  if (version !== ENGINE_PROTOCOL) {
    throw new ServiceError(
      'invalid_value',
      `This engine expects version ${ENGINE_PROTOCOL} of the engine protocol. Install the same version of Sluice for the service and its engines.`,
    );
  }
  const request = fields as unknown as Omit<EngineRequest, 'version'>; // Written by `engineRequest`.
  const logitBias = new Map(request.sampling.logitBias);
  const read = { ...request, sampling: { ...request.sampling, logitBias, explicit: new Set() } };
  return read as unknown as GenerationRequest; // The other fields are as they were in the request.
}

/** Reads the body of an engine's `GET /health`. Throws unless the engine speaks this version of the protocol. */
export function readEngineHealth(body: JsonObject): ReplicaHealth {
  const { protocol, expectedStepMs: _, ...health } = body;
  if (protocol === ENGINE_PROTOCOL) return health as unknown as ReplicaHealth; // Written by an engine of this version.
  const found = typeof protocol === 'number' ? `version ${protocol}` : 'no version';
  throw new Error(
    `the engine has ${found} of the engine protocol, and this service version ${ENGINE_PROTOCOL}; install the same version of Sluice for both`,
  );
}

/** An empty line, which keeps the connection from timing out. */
export const KEEP_ALIVE_FRAME = '\n';

export function formatFrame(event: EngineEvent): string {
  if (event.type === 'token' && event.logprobs === null) {
    const { choice, completionTokens, tokenIds } = event;
    const ids = tokenIds === undefined ? '' : `,[${tokenIds.join(',')}]`;
    return `[${choice},${completionTokens},${JSON.stringify(event.text)}${ids}]\n`;
  }
  if (event.type === 'embedding') {
    return `${JSON.stringify({ ...event, vector: encodeVector(event.vector) })}\n`;
  }
  return `${JSON.stringify(event)}\n`;
}

/** Formats an error, which ends the response. */
export function formatErrorFrame(error: ServiceError): string {
  return `${errorBody(error)}\n`;
}
