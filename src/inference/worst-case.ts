import { costOf } from '../accounts/ledger/cost.ts';
import { promptTexts, type GenerationRequest, type Message, type Usage } from '../generation.ts';
import type { ConfiguredModel } from '../routing/served-model.ts';

/** The maximum that a request can use. */
export interface WorstCase {
  promptTokens: number;
  completionTokens: number;
  /**
   * Prompt and completion tokens together. Can be less than the sum of both maximums, because they share the context.
   */
  tokens: number;
  /** Pico-dollars. */
  pico: bigint;
}

/** Tokens that a template may add per message and per tool call. */
const TOKENS_PER_MESSAGE = 16;
const TOKENS_PER_CALL = 64;

/** Tokens that a template may add per chat, because some have a long system prompt or long instructions for tools. */
const TOKENS_PER_CHAT = 2048;

/**
 * Context length assumed for a model that has not reported its own yet. Requests to such a model usually fail anyway.
 */
const UNKNOWN_CONTEXT = 131_072;

/**
 * Computes the maximum without tokenizing the prompt. A token has at least one byte, prompt and completion share the
 * context, and a completion is at most as long as requested and as the model allows. The prices determine whether a
 * longer prompt or a longer completion costs more.
 */
export function worstCase(request: GenerationRequest, model: ConfiguredModel): WorstCase {
  const card = model.card();
  const context = card?.context_length ?? UNKNOWN_CONTEXT;
  const longest = Math.min(request.maxTokens ?? Infinity, card?.max_completion_tokens ?? context, context);
  const { choices } = request;
  const all: WorstCase = { promptTokens: 0, completionTokens: 0, tokens: 0, pico: 0n };
  for (const tokens of maxPromptTokens(request)) {
    const one = maximumOf(tokens, choices, longest, context, model);
    all.promptTokens += one.promptTokens;
    all.completionTokens += one.completionTokens;
    all.tokens += one.tokens;
    all.pico += one.pico;
  }
  return all;
}

/** Limits usage to the worst case. Returns null if the usage does not exceed it. */
export function clampUsage(usage: Usage, worst: WorstCase, price: ConfiguredModel['price']): Usage | null {
  const promptTokens = Math.min(usage.promptTokens, worst.promptTokens);
  let completionTokens = Math.min(
    usage.completionTokens,
    worst.completionTokens,
    worst.tokens - promptTokens,
  );
  const left = worst.pico - costOf({ promptTokens, completionTokens: 0 }, price);
  if (price.completion > 0) {
    completionTokens = Math.min(completionTokens, Number(left / BigInt(price.completion)));
  }
  if (promptTokens === usage.promptTokens && completionTokens === usage.completionTokens) return null;
  return {
    promptTokens,
    completionTokens,
    cachedTokens: Math.min(usage.cachedTokens, promptTokens),
    reasoningTokens: Math.min(usage.reasoningTokens, completionTokens),
  };
}

/**
 * Returns the maximum of two cases: the longest prompt with the completion that still fits into the context, and the
 * longest completion with the prompt that still fits.
 */
function maximumOf(
  prompt: number,
  choices: number,
  longest: number,
  context: number,
  { price }: ConfiguredModel,
): WorstCase {
  const promptTokens = Math.min(prompt, context);
  const short = usageOf(promptTokens, Math.min(longest, context - promptTokens) * choices, price);
  const long = usageOf(Math.min(promptTokens, context - longest), longest * choices, price);
  return {
    promptTokens,
    completionTokens: longest * choices,
    tokens: Math.max(short.tokens, long.tokens),
    pico: short.pico > long.pico ? short.pico : long.pico,
  };
}

function usageOf(promptTokens: number, completionTokens: number, price: ConfiguredModel['price']) {
  return {
    tokens: promptTokens + completionTokens,
    pico: costOf({ promptTokens, completionTokens }, price),
  };
}

/** Returns the maximum tokens of each prompt. */
function maxPromptTokens(request: GenerationRequest): readonly number[] {
  const texts = promptTexts(request).map((text) => Buffer.byteLength(text) + TOKENS_PER_MESSAGE);
  switch (request.kind) {
    case 'chat':
      return [
        [...texts, ...request.messages.map(callTokens)].reduce(
          (sum, tokens) => sum + tokens,
          TOKENS_PER_CHAT,
        ),
      ];
    case 'text':
      return texts;
  }
}

/** Returns the maximum tokens of the IDs of tool calls, and of what templates add for each call. */
function callTokens(message: Message): number {
  switch (message.role) {
    case 'system':
    case 'user':
      return 0;
    case 'tool':
      return Buffer.byteLength(message.toolCallId);
    case 'assistant':
      return message.toolCalls.reduce((sum, { id }) => sum + Buffer.byteLength(id) + TOKENS_PER_CALL, 0);
  }
}
