import type { ChatRequest } from '../generation.ts';
import type { ParseOptions } from '../protocol.ts';
import { reasoningEffort } from './chat-fields.ts';
import * as fields from './fields.ts';
import { clampTokens, parseGenerationFields } from './generation-fields.ts';
import { parseMessages } from './messages.ts';
import { RequestBody } from './request-body.ts';
import { parseTemplateVariables, parseTooling } from './tools.ts';
import { wrongValue } from './values.ts';

/**
 * Parses the body of `POST /v1/chat/completions`. Throws `missing_required_parameter`, `invalid_type`,
 * `invalid_value` or `unsupported_parameter`, with the path of the field.
 */
export function parseChatRequest(
  object: Readonly<Record<string, unknown>>,
  options: ParseOptions,
): ChatRequest {
  const body = new RequestBody(object, 'chat');
  const shared = parseGenerationFields(body, 'chat', options);
  const maxTokens = body.read(fields.maxTokens);
  return {
    kind: 'chat',
    ...shared,
    messages: parseMessages(body),
    maxTokens: clampTokens(body.read(fields.maxCompletionTokens) ?? maxTokens),
    logprobs: parseLogprobs(body),
    ...parseTooling(body),
    reasoningEffort: body.read(reasoningEffort),
    templateVariables: parseTemplateVariables(body),
  };
}

function parseLogprobs(body: RequestBody): number | null {
  const enabled = body.read(fields.chatLogprobs);
  const alternatives = body.read(fields.topLogprobs) ?? 0;
  if (!enabled && alternatives > 0) throw wrongValue('top_logprobs', 'absent or 0 unless `logprobs` is true');
  return enabled ? alternatives : null;
}
