import type { ChatRequest } from '../../core/generation.ts';
import type { JsonObject } from '../../json/values.ts';
import type { ParseOptions } from '../../core/protocol.ts';
import { parseMessagesRequest } from './request.ts';

/** Where clients ask how many tokens a prompt has. */
export const COUNT_PATH = '/v1/messages/count_tokens';

/** Parses the body of a count: that of a message, without `max_tokens`. The last message may be one of the assistant. */
export function parseCountRequest(
  body: JsonObject,
  options: Pick<ParseOptions, 'notes' | 'sealer'>,
): ChatRequest {
  return parseMessagesRequest({ ...body, max_tokens: 1, stream: false }, options, true).generation;
}

export function formatCount(tokens: number): string {
  return JSON.stringify({ input_tokens: tokens });
}
