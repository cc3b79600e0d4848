import { ServiceError } from '../errors.ts';
import type { ChatRequest, GenerationRequest, TextRequest } from '../generation.ts';

/** Returns a request that continues after this text, which is added to the prompts or as an assistant message. */
export function withOutput(request: GenerationRequest, text: string): GenerationRequest {
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
  if (OPEN_REASONING.test(prompt)) {
    throw new ServiceError('unsupported_parameter', 'Responses of this model cannot be continued.');
  }
  return { ...request, kind: 'text', prompts: [prompt], echo: false };
}

/** A marker such as `<think>` or `[THINK]` at the end of a prompt. */
const OPEN_REASONING = /[<[](?!\/)[^<>[\]]*think[^<>[\]/]*[>\]]\s*$/i;
