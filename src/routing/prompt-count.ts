import { Deadline } from '../support/deadline.ts';
import { ServiceError } from '../core/errors.ts';
import { hasImages, imageTokens, withoutImages, type GenerationRequest } from '../core/generation.ts';
import { promptTokenBounds } from '../core/prompt-bound.ts';
import type { RoutedReplica } from './replica.ts';

/** The prompt tokens of a request. If `exact` is false, they are an upper bound; `late`: because none was ready to count in time. */
export interface PromptTokenCount {
  tokens: number;
  exact: boolean;
  late: boolean;
}

/** Maximum number of replicas that may fail to count. */
const MAX_FAILURES = 2;

/** Maximum time, in milliseconds. */
const TIMEOUT_MS = 5000;

/**
 * Counts the prompt tokens of a request on one of the replicas that are ready, those with the fewest requests first. Needs
 * no slot and waits in no queue, and does not load an idle model. Returns an upper bound if no replica counts them in time,
 * or if the prompt is too long for the context; the tokens of images are always their upper bound. Throws 400 if the
 * prompts are invalid, or the reason of the signal.
 */
export async function countPromptTokens(
  replicas: readonly RoutedReplica[],
  request: GenerationRequest,
  signal: AbortSignal,
): Promise<PromptTokenCount> {
  signal.throwIfAborted();
  const withImages = hasImages(request);
  // No server counts the tokens of images.
  const counted = withImages ? withoutImages(request) : request;
  const timeout = new AbortController();
  using _ = new Deadline(TIMEOUT_MS, () => timeout.abort());
  const ready = replicas.filter(({ state }) => state.state === 'ready');
  let failures = 0;
  for (const { client } of ready.toSorted((a, b) => a.assigned - b.assigned)) {
    try {
      const tokens = await client.countPromptTokens(counted, AbortSignal.any([signal, timeout.signal]));
      if (tokens !== null) return { tokens: tokens + imageTokens(request), exact: !withImages, late: false };
    } catch (error) {
      signal.throwIfAborted();
      if (isTooLong(error)) break;
      if (isInvalid(error)) throw error;
      if (++failures === MAX_FAILURES || timeout.signal.aborted) break;
    }
  }
  const late = ready.length === 0 || timeout.signal.aborted;
  const tokens = promptTokenBounds(request).reduce((sum, bound) => sum + bound, 0);
  return { tokens, exact: false, late };
}

function isTooLong(error: unknown): boolean {
  return error instanceof ServiceError && error.code === 'context_length_exceeded';
}

function isInvalid(error: unknown): boolean {
  return error instanceof ServiceError && error.status === 400;
}
