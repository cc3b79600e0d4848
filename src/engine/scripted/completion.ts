import { totalChoices, type FinishReason, type GenerationRequest } from '../../generation.ts';
import type { Directive, ScriptedOptions } from './options.ts';
import { exampleOf, randomTokens, splitTokens, textSeed } from './words.ts';

/** The planned output of one choice. */
export interface Completion {
  choice: number;
  tokens: readonly string[];
  reason: FinishReason;
}

/** Returns the completions of a request, at most `availableTokens` long, cut at the first stop sequence. */
export function planCompletions(
  request: GenerationRequest,
  directive: Directive,
  options: ScriptedOptions,
  availableTokens: number,
): Completion[] {
  const limit = Math.min(request.maxTokens ?? Infinity, availableTokens);
  return Array.from({ length: totalChoices(request) }, (_, choice) => {
    // One token more than the limit shows whether the text would continue.
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
  maxTokens: number,
): string[] {
  if (directive.text !== undefined) return splitTokens(directive.text);
  const format = request.responseFormat;
  if (format.type === 'json_object') return splitTokens('{}');
  if (format.type === 'json_schema') return splitTokens(JSON.stringify(exampleOf(format.schema)));
  return randomTokens(textSeed(request, choice), Math.min(directive.tokens ?? options.tokens, maxTokens));
}

/** Returns the tokens before the first stop sequence; null: none found. */
function cutAtStop(tokens: readonly string[], stop: readonly string[]): string[] | null {
  if (stop.length === 0) return null;
  const text = tokens.join('');
  const found = stop.map((sequence) => text.indexOf(sequence)).filter((at) => at !== -1);
  return found.length === 0 ? null : splitTokens(text.slice(0, Math.min(...found)));
}
