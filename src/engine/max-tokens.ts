import type { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';
import { readPromptTokens } from '../openai/error-body.ts';
import type { DialectTraits } from './dialects.ts';

/** The properties of a replica that determine the `max_tokens` sent to it. */
export interface ContextBound {
  traits: Pick<DialectTraits, 'needsMaxTokens' | 'defaultsToFullContext' | 'reservedTokens' | 'continues'>;
  /** The replica's context length; null if it is not known. */
  contextTokens: number | null;
}

/**
 * Returns the `max_tokens` to send in the first attempt, or null to send none. The caller's value is reduced to the
 * context length. If the caller sent none, returns the context length for servers that would otherwise apply a limit of
 * their own.
 */
export function firstMaxTokens(
  { kind, maxTokens: maximum, continuation }: GenerationRequest,
  { traits, contextTokens }: ContextBound,
): number | null {
  let maxTokens = maximum;
  // A server that continues from token IDs counts the earlier tokens as part of the prompt.
  if (continuation !== null && traits.continues === 'tokens') {
    const earlier = continuation.tokenIds.length;
    const prompt = (continuation.promptTokenIds?.length ?? 0) + earlier;
    const remaining = Math.min((maxTokens ?? Infinity) - earlier, (contextTokens ?? Infinity) - prompt);
    return remaining === Infinity ? null : Math.max(1, remaining);
  }
  if (continuation !== null && traits.continues === 'text' && maxTokens !== null) {
    maxTokens = Math.max(1, maxTokens - continuation.usage.completionTokens);
  }
  if (maxTokens !== null) return Math.min(maxTokens, contextTokens ?? Infinity);
  return traits.needsMaxTokens.includes(kind) ? contextTokens : null;
}

/**
 * Returns the `max_tokens` to send in the next attempt, after the server refused `sent` as too large for the context.
 * If the error reports the prompt's exact token count, returns the number of tokens left in the context. Null means to
 * send none, and undefined means not to retry. A number is always smaller than `sent`, so retries end.
 */
export function lowerMaxTokens(
  request: GenerationRequest,
  sent: number | null,
  refusal: ServiceError,
  { traits, contextTokens }: ContextBound,
): number | null | undefined {
  if (refusal.code !== 'context_length_exceeded' || sent === null) return undefined;
  // The prompt is known in tokens, so the first attempt asked for no more than what is left in the context.
  if (request.continuation !== null && traits.continues === 'tokens') return undefined;
  const prompt = readPromptTokens(refusal);
  if (prompt !== null && contextTokens !== null) {
    const remaining = contextTokens - prompt.tokens - traits.reservedTokens;
    if (remaining < 1) return undefined;
    if (prompt.exact) return remaining < sent ? remaining : undefined;
  }
  if (traits.defaultsToFullContext.includes(request.kind)) return null;
  const longest = maxPromptTokens(request);
  if (longest === null || contextTokens === null) return undefined;
  const remaining = contextTokens - longest - traits.reservedTokens;
  return remaining >= 1 && remaining < sent ? remaining : undefined;
}

/**
 * Returns an upper bound on the tokens of the longest prompt. Returns null for a chat, because its template adds an
 * unknown number of tokens.
 */
function maxPromptTokens(request: GenerationRequest): number | null {
  switch (request.kind) {
    case 'chat':
      return null;
    case 'text':
      // A token has at least one byte, and the server may add one token before the text.
      return Math.max(...request.prompts.map((prompt) => Buffer.byteLength(prompt))) + 1;
  }
}
