import { ServiceError } from '../core/errors.ts';
import {
  isForText,
  asChat,
  echoedPrompts,
  hasImages,
  toolsOf,
  totalChoices,
  type ChatRequest,
  type CompletionRequest,
  type Dialect,
  type GenerationRequest,
  type TextRequest,
} from '../core/generation.ts';
import { DIALECT_TRAITS } from './dialects.ts';

/** The kind of output at the end of a response. `call`: the response has a tool call, even a complete one. */
export type OutputPosition = 'text' | 'reasoning' | 'text after reasoning' | 'call';

/** Whether a replica of this dialect can continue the request after an interruption. */
export function canContinue(request: GenerationRequest, dialect: Dialect): boolean {
  if (!isForText(request) || !hasOneOutput(request)) return false;
  // The IDs of a prompt's tokens do not contain its images.
  if (hasImages(request)) return false;
  switch (DIALECT_TRAITS[dialect].continues) {
    case 'output':
      return true;
    case 'tokens':
      return isPlainText(request);
    case 'text':
      // Some servers do not apply the repetition penalty to the prompt, which now includes the earlier text. In a chat,
      // this text is added as an assistant message, which cannot continue another assistant message.
      return (
        isPlainText(request) &&
        request.sampling.repetitionPenalty === 1 &&
        asChat(request)?.messages.at(-1)?.role !== 'assistant'
      );
    case 'nothing':
      return false;
  }
}

/**
 * Whether replicas of this dialect continue a generation from the IDs of its tokens. If so, requests must ask for these
 * IDs.
 */
export function continuesFromTokenIds(dialect: Dialect): boolean {
  switch (DIALECT_TRAITS[dialect].continues) {
    case 'output':
    case 'tokens':
      return true;
    case 'text':
    case 'nothing':
      return false;
  }
}

/** Whether a generation for which `canContinue` is true can be continued at this position. */
export function canContinueAt(position: OutputPosition, dialect: Dialect): boolean {
  switch (position) {
    case 'text':
      return true;
    case 'text after reasoning':
      // The text of reasoning does not include the markers around it.
      return continuesFromTokenIds(dialect);
    case 'reasoning':
      return DIALECT_TRAITS[dialect].continues === 'output';
    case 'call':
      return false;
  }
}

/** Returns a request that continues after `text`, by adding it to each prompt or as an assistant message. */
export function withOutput(request: CompletionRequest, text: string): CompletionRequest {
  switch (request.kind) {
    case 'chat': {
      const message = { role: 'assistant', content: text, reasoning: null, toolCalls: [] } as const;
      return { ...request, messages: [...request.messages, message] };
    }
    case 'text':
      return { ...request, prompts: request.prompts.map((prompt) => prompt + text) };
  }
}

/**
 * Returns the chat as a text completion of its rendered prompt. Throws `unsupported_parameter` if the model starts with
 * reasoning, because the text so far would become part of the reasoning.
 */
export function asTextRequest(request: ChatRequest, prompt: string): TextRequest {
  if (OPEN_REASONING.test(prompt.trimEnd().slice(-MAX_MARKER))) {
    throw new ServiceError('unsupported_parameter', 'Responses of this model cannot be continued.');
  }
  return { ...request, kind: 'text', prompts: [prompt], echo: false };
}

/** A marker such as `<think>` or `[THINK]` at the end of a prompt. */
const OPEN_REASONING = /[<[](?!\/)[^<>[\]]*think[^<>[\]/]*[>\]]$/i;

/** Characters at the end of a prompt that are searched for the marker. The time grows with their square. */
const MAX_MARKER = 64;

function hasOneOutput(request: CompletionRequest): boolean {
  return totalChoices(request) === 1 && request.logprobs === null && echoedPrompts(request).length === 0;
}

/**
 * Whether the rest of the text depends only on the tokens before it. The server sees the earlier tokens as part of the
 * prompt. It would miss a stop sequence that begins in them, start the response format again, and parse no calls. The
 * presence and frequency penalties would not count the earlier tokens. (vLLM's repetition penalty does count them.)
 */
function isPlainText(request: CompletionRequest): boolean {
  const { presencePenalty, frequencyPenalty } = request.sampling;
  return (
    request.stop.length === 0 &&
    request.responseFormat.type === 'text' &&
    presencePenalty === 0 &&
    frequencyPenalty === 0 &&
    (toolsOf(request).length === 0 || asChat(request)?.toolChoice.type === 'none')
  );
}
