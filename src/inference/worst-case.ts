import type { GenerationRequest } from '../generation.ts';
import type { ServedModel } from '../routing/router.ts';

/** The most tokens that a request can use. */
export interface WorstCase {
  promptTokens: number;
  completionTokens: number;
}

/** What a template may write around each message, and around all of them, in tokens. */
const TOKENS_A_MESSAGE = 16;
const TOKENS_A_REQUEST = 256;

/** The context of a model that has not told it yet; its requests fail anyhow, unless it tells in that moment. */
const UNKNOWN_CONTEXT = 131_072;

/**
 * A bound that is known before anything is counted: a token has at least one byte, a prompt is never longer than
 * the context, and a completion never longer than what was asked for or what the model gives.
 */
export function worstCase(request: GenerationRequest, model: ServedModel): WorstCase {
  const card = model.card();
  const context = card?.context_length ?? UNKNOWN_CONTEXT;
  const longest = Math.min(request.maxTokens ?? Infinity, card?.max_completion_tokens ?? context, context);
  const prompts = request.kind === 'chat' ? [chatTokens(request.messages)] : request.prompts.map(textTokens);
  const promptTokens = prompts.reduce((sum, tokens) => sum + Math.min(tokens, context), 0);
  return { promptTokens, completionTokens: longest * request.choices * prompts.length };
}

/** About four characters a token: for what ended before anybody had counted its prompt. */
export function estimatedPromptTokens(request: GenerationRequest): number {
  const texts = request.kind === 'chat' ? request.messages.map(({ content }) => content) : request.prompts;
  return texts.reduce((sum, text) => sum + Math.ceil(text.length / 4), 0);
}

function chatTokens(messages: readonly { content: string }[]): number {
  let tokens = TOKENS_A_REQUEST;
  for (const { content } of messages) tokens += Buffer.byteLength(content) + TOKENS_A_MESSAGE;
  return tokens;
}

function textTokens(prompt: string): number {
  return Buffer.byteLength(prompt) + TOKENS_A_MESSAGE;
}
