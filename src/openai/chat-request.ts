import type { ChatRequest } from '../generation.ts';
import * as fields from './fields.ts';
import { clampTokens, parseGenerationFields } from './generation-fields.ts';
import { parseMessages } from './messages.ts';
import { RequestBody, type ParsedRequest, type ParseOptions } from './request-body.ts';
import { wrongValue } from './values.ts';

/**
 * Reads the body of `POST /v1/chat/completions`. Throws `missing_required_parameter`, `invalid_type`,
 * `invalid_value` or `unsupported_parameter`, with the path of the field.
 */
export function parseChatRequest(
  object: Readonly<Record<string, unknown>>,
  options: ParseOptions,
): ParsedRequest<ChatRequest> {
  const body = new RequestBody(object, 'chat', options.internal);
  const shared = parseGenerationFields(body, 'chat', options);
  const maxTokens = body.read(fields.maxTokens);
  const request: ChatRequest = {
    kind: 'chat',
    ...shared,
    messages: parseMessages(body.raw(fields.messages)),
    maxTokens: clampTokens(body.read(fields.maxCompletionTokens) ?? maxTokens),
    logprobs: parseLogprobs(body),
  };
  return { request, used: body.used };
}

function parseLogprobs(body: RequestBody): number | null {
  const wanted = body.read(fields.chatLogprobs);
  const alternatives = body.read(fields.topLogprobs) ?? 0;
  if (!wanted && alternatives > 0) throw wrongValue('top_logprobs', 'absent or 0 unless `logprobs` is true');
  return wanted ? alternatives : null;
}
