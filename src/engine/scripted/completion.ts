import type { FinishReason, GenerationRequest } from '../../generation.ts';
import type { Directive, ScriptedOptions } from './options.ts';
import { sampleOf, seedOf, tokensOf, wordsOf } from './words.ts';

/** All that one choice will say, known before it begins. */
export interface Completion {
  choice: number;
  tokens: readonly string[];
  reason: FinishReason;
}

/** The completions of a request, `roomTokens` long at most, cut at the first stop sequence. */
export function planCompletions(
  request: GenerationRequest,
  directive: Directive,
  options: ScriptedOptions,
  roomTokens: number,
): Completion[] {
  const prompts = request.kind === 'text' ? request.prompts.length : 1;
  const limit = Math.min(request.maxTokens ?? Infinity, roomTokens);
  return Array.from({ length: prompts * request.choices }, (_, choice) => {
    // One more than may be said, so that a text that would go on is told from one that ends there.
    const natural = naturalTokens(request, directive, options, choice, limit + 1);
    const tokens = natural.slice(0, limit);
    const stopped = cutAtStop(tokens, request.stop);
    if (stopped) return { choice, tokens: stopped, reason: 'stop' };
    return { choice, tokens, reason: natural.length > limit ? 'length' : 'stop' };
  });
}

function naturalTokens(
  request: GenerationRequest,
  directive: Directive,
  options: ScriptedOptions,
  choice: number,
  most: number,
): string[] {
  if (directive.text !== undefined) return tokensOf(directive.text);
  const format = request.responseFormat;
  if (format.type === 'json_object') return tokensOf('{}');
  if (format.type === 'json_schema') return tokensOf(JSON.stringify(sampleOf(format.schema)));
  return wordsOf(seedOf(request, choice), Math.min(directive.tokens ?? options.tokens, most));
}

/** The tokens before the first stop sequence; null when there is none. */
function cutAtStop(tokens: readonly string[], stop: readonly string[]): string[] | null {
  if (stop.length === 0) return null;
  const text = tokens.join('');
  const found = stop.map((sequence) => text.indexOf(sequence)).filter((at) => at !== -1);
  return found.length === 0 ? null : tokensOf(text.slice(0, Math.min(...found)));
}
