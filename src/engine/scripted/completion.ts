import {
  totalChoices,
  type FinishReason,
  type GenerationRequest,
  type Tool,
  type ToolChoice,
} from '../../generation.ts';
import { createToolCallId } from '../../openai/tool-call-reader.ts';
import type { Directive, ScriptedCall, ScriptedOptions } from './options.ts';
import { exampleOf, hash, randomTokens, splitTokens, textSeed } from './words.ts';

/** One token of a completion. The start of a call is one token. */
export type PlannedToken =
  | { type: 'token' | 'reasoning'; text: string }
  | { type: 'tool-call'; call: number; id: string; name: string }
  | { type: 'tool-arguments'; call: number; text: string };

/** Returns the ID of a token. It depends on the text, so that tokens of another text cannot be continued. */
export function tokenId(token: PlannedToken): number {
  return hash(token.type === 'tool-call' ? token.name : token.text) >>> 8;
}

/** The planned output of one choice. */
export interface Completion {
  choice: number;
  tokens: readonly PlannedToken[];
  reason: FinishReason;
}

/**
 * Returns the completions of a request, at most `availableTokens` long: reasoning, then text, then calls. Text is cut
 * at the first stop sequence, and calls after it are omitted.
 */
export function planCompletions(
  request: GenerationRequest,
  directive: Directive,
  options: ScriptedOptions,
  availableTokens: number,
): Completion[] {
  const limit = Math.min(request.maxTokens ?? Infinity, availableTokens);
  const reasoning = splitTokens(directive.reasoning ?? '').map((text): PlannedToken => ({
    type: 'reasoning',
    text,
  }));
  const calls = callsOf(request, directive);
  return Array.from({ length: totalChoices(request) }, (_, choice) => {
    const textLimit = Math.max(0, limit - reasoning.length);
    // One token more than the limit shows whether the text would continue.
    const uncut =
      calls.length > 0 && directive.text === undefined
        ? []
        : uncutTokens(request, directive, options, choice, textLimit + 1);
    const stopped = cutAtStop(uncut.slice(0, textLimit), request.stop);
    const text = (stopped ?? uncut).map((token): PlannedToken => ({ type: 'token', text: token }));
    const tokens = [...reasoning, ...text, ...(stopped ? [] : calls.flatMap(callTokens))];
    if (tokens.length > limit) return { choice, tokens: tokens.slice(0, limit), reason: 'length' };
    return { choice, tokens, reason: calls.length > 0 && !stopped ? 'tool_calls' : 'stop' };
  });
}

/** Returns the calls of the directive, or an example of the call that the request requires. */
function callsOf(request: GenerationRequest, directive: Directive): readonly ScriptedCall[] {
  switch (request.kind) {
    case 'chat': {
      if (directive.calls !== undefined) {
        return request.parallelToolCalls ? directive.calls : directive.calls.slice(0, 1);
      }
      const tool = directive.text === undefined ? requiredTool(request.tools, request.toolChoice) : undefined;
      if (tool === undefined) return [];
      return [{ name: tool.name, arguments: exampleOf(tool.parameters) }];
    }
    case 'text':
      return [];
  }
}

function requiredTool(tools: readonly Tool[], choice: ToolChoice): Tool | undefined {
  switch (choice.type) {
    case 'auto':
    case 'none':
      return undefined;
    case 'required':
      return tools[0];
    case 'function':
      return tools.find(({ name }) => name === choice.name);
    case 'allowed':
      return choice.mode === 'required' ? tools.find(({ name }) => choice.names.includes(name)) : undefined;
  }
}

/** Splits a call into its start and pieces of its arguments with four characters each. */
function callTokens({ name, arguments: value }: ScriptedCall, call: number): PlannedToken[] {
  const parts = JSON.stringify(value).match(/.{1,4}/gsu) ?? [];
  return [
    { type: 'tool-call', call, id: createToolCallId(), name },
    ...parts.map((text): PlannedToken => ({ type: 'tool-arguments', call, text })),
  ];
}

function uncutTokens(
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

/** Returns the tokens before the first stop sequence, or null if there is none in the text. */
function cutAtStop(tokens: readonly string[], stop: readonly string[]): string[] | null {
  if (stop.length === 0) return null;
  const text = tokens.join('');
  const found = stop.map((sequence) => text.indexOf(sequence)).filter((at) => at !== -1);
  return found.length === 0 ? null : splitTokens(text.slice(0, Math.min(...found)));
}
