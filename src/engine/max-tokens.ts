import type { ServiceError } from '../errors.ts';
import type { GenerationRequest } from '../generation.ts';
import { promptTokensOf } from '../openai/error-body.ts';
import type { DialectTraits } from './dialects.ts';

/** What decides the `max_tokens` of a request to one replica. */
export interface ContextBound {
  traits: Pick<DialectTraits, 'needsMaxTokens' | 'fillsContext' | 'reservedTokens'>;
  /** The replica's context length; null until it has reported one. */
  contextTokens: number | null;
}

/**
 * The `max_tokens` to send first: the caller's, at most the context length; the context length where the server
 * would end an unbounded request early and the caller gave no bound. Null: none is sent.
 */
export function firstMaxTokens(
  { kind, maxTokens }: GenerationRequest,
  { traits, contextTokens }: ContextBound,
): number | null {
  if (maxTokens !== null) return Math.min(maxTokens, contextTokens ?? Infinity);
  return traits.needsMaxTokens.includes(kind) ? contextTokens : null;
}

/**
 * The `max_tokens` to send after the server refused `sent` as more than the prompt leaves of the context: exactly
 * what it leaves where the refusal gives the prompt's tokens. Null: none is sent. Undefined: asking again does not
 * help. Each answer is smaller than `sent`, so asking again ends.
 */
export function lowerMaxTokens(
  request: GenerationRequest,
  sent: number | null,
  refusal: ServiceError,
  { traits, contextTokens }: ContextBound,
): number | null | undefined {
  if (refusal.code !== 'context_length_exceeded' || sent === null) return undefined;
  const prompt = promptTokensOf(refusal);
  if (prompt !== null && contextTokens !== null) {
    const left = contextTokens - prompt.tokens - traits.reservedTokens;
    if (left < 1) return undefined;
    if (prompt.exact) return left < sent ? left : undefined;
  }
  if (traits.fillsContext.includes(request.kind)) return null;
  if (request.kind === 'chat' || contextTokens === null) return undefined;
  // A token has at least one byte, and the server may add one token before the text.
  const longest = Math.max(...request.prompts.map((prompt) => Buffer.byteLength(prompt))) + 1;
  const left = contextTokens - longest - traits.reservedTokens;
  return left >= 1 && left < sent ? left : undefined;
}
