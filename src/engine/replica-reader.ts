import {
  echoedPrompts,
  estimatedPromptTokens,
  toolsOf,
  totalChoices,
  type Dialect,
  type GenerationRequest,
} from '../generation.ts';
import { replicaKind } from '../openai/replica-request.ts';
import { MAX_EVENT_BYTES } from '../openai/sse.ts';
import { StreamReader } from '../openai/response-reader.ts';
import { UsageMeter } from '../openai/usage.ts';
import { DIALECT_TRAITS } from './dialects.ts';

/**
 * Returns the maximum size of one event of a replica, in bytes. An event may repeat the whole prompt (`echo`), or have
 * the IDs of all tokens of the prompt (vLLM), or of the completion, if its text was held back. `sentBytes`: size of the
 * request. `contextTokens`: null if it is not known.
 */
export function maxEventBytes(
  request: GenerationRequest,
  sentBytes: number,
  contextTokens: number | null,
): number {
  // A token has at least one byte.
  const tokens = Math.max(sentBytes, contextTokens ?? 0);
  const { logprobs } = request;
  const repeatsLogprobs = logprobs !== null && echoedPrompts(request).length > 0;
  return MAX_EVENT_BYTES + tokens * (repeatsLogprobs ? LOGPROB_BYTES * (logprobs + 2) : TOKEN_BYTES);
}

/** Maximum size of a token ID with its comma, or of one byte of text in JSON. */
const TOKEN_BYTES = 8;

/** Maximum size of a log probability with its short token. A token has its own, and those of its alternatives. */
const LOGPROB_BYTES = 64;

/** Creates the reader of a replica's server-sent events. `maxBytes`: maximum size of an event. */
export function streamReader(request: GenerationRequest, dialect: Dialect, maxBytes: number): StreamReader {
  const offered = toolsOf(request).map(({ name }) => name);
  return new StreamReader(
    replicaKind(request, dialect),
    usageMeter(request, dialect),
    offered,
    maxBytes,
    totalChoices(request),
  );
}

/** Creates the meter of a replica's response. */
export function usageMeter(request: GenerationRequest, dialect: Dialect): UsageMeter {
  const { usagePerChoice } = DIALECT_TRAITS[dialect];
  return new UsageMeter({
    promptTokens: estimatedPromptTokens(request),
    echo: echoedPrompts(request).length > 0,
    perChoice: usagePerChoice,
    earlier: request.continuation?.usage ?? null,
  });
}
