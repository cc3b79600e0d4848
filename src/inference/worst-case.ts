import { costOf } from '../accounts/ledger/cost.ts';
import type { GenerationRequest, Usage } from '../generation.ts';
import type { ModelTerms } from '../routing/served-model.ts';

/** The most that a request can use. */
export interface WorstCase {
  promptTokens: number;
  completionTokens: number;
  /** Prompt and completion tokens together: less than the sum of both, which share the context. */
  tokens: number;
  /** Pico-dollars. */
  pico: bigint;
}

/** What a template may write around each message, and around all of them, in tokens. */
const TOKENS_A_MESSAGE = 16;
const TOKENS_A_REQUEST = 256;

/** The context of a model that has not told it yet; its requests fail anyhow, unless it tells in that moment. */
const UNKNOWN_CONTEXT = 131_072;

/**
 * A bound that is known before anything is counted: a token has at least one byte, prompt and completion share the
 * context, and a completion is never longer than what was asked for or what the model gives. Which of the two costs
 * more when it is as long as it can be depends on their prices.
 */
export function worstCase(request: GenerationRequest, model: ModelTerms): WorstCase {
  const card = model.card();
  const context = card?.context_length ?? UNKNOWN_CONTEXT;
  const longest = Math.min(request.maxTokens ?? Infinity, card?.max_completion_tokens ?? context, context);
  const { choices } = request;
  if (request.kind === 'chat') return worstOf(chatTokens(request.messages), choices, longest, context, model);
  const all: WorstCase = { promptTokens: 0, completionTokens: 0, tokens: 0, pico: 0n };
  for (const prompt of request.prompts) {
    const one = worstOf(textTokens(prompt), choices, longest, context, model);
    all.promptTokens += one.promptTokens;
    all.completionTokens += one.completionTokens;
    all.tokens += one.tokens;
    all.pico += one.pico;
  }
  return all;
}

/** The usage with its counts lowered to the worst case; null where it is within that. */
export function clampUsage(usage: Usage, worst: WorstCase, price: ModelTerms['price']): Usage | null {
  const promptTokens = Math.min(usage.promptTokens, worst.promptTokens);
  let completionTokens = Math.min(
    usage.completionTokens,
    worst.completionTokens,
    worst.tokens - promptTokens,
  );
  const left = worst.pico - costOf({ promptTokens, completionTokens: 0, cachedTokens: 0 }, price);
  if (price.completion > 0) {
    completionTokens = Math.min(completionTokens, Number(left / BigInt(price.completion)));
  }
  if (promptTokens === usage.promptTokens && completionTokens === usage.completionTokens) return null;
  return { promptTokens, completionTokens, cachedTokens: Math.min(usage.cachedTokens, promptTokens) };
}

/** The worse of the longest prompt with what it leaves, and the longest completion with what that leaves. */
function worstOf(
  prompt: number,
  choices: number,
  longest: number,
  context: number,
  { price }: ModelTerms,
): WorstCase {
  const promptTokens = Math.min(prompt, context);
  const short = use(promptTokens, Math.min(longest, context - promptTokens) * choices, price);
  const long = use(Math.min(promptTokens, context - longest), longest * choices, price);
  return {
    promptTokens,
    completionTokens: longest * choices,
    tokens: Math.max(short.tokens, long.tokens),
    pico: short.pico > long.pico ? short.pico : long.pico,
  };
}

function use(promptTokens: number, completionTokens: number, price: ModelTerms['price']) {
  return {
    tokens: promptTokens + completionTokens,
    pico: costOf({ promptTokens, completionTokens, cachedTokens: 0 }, price),
  };
}

function chatTokens(messages: readonly { content: string }[]): number {
  let tokens = TOKENS_A_REQUEST;
  for (const { content } of messages) tokens += Buffer.byteLength(content) + TOKENS_A_MESSAGE;
  return tokens;
}

function textTokens(prompt: string): number {
  return Buffer.byteLength(prompt) + TOKENS_A_MESSAGE;
}
