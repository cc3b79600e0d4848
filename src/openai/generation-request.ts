import type { GenerationKind, GenerationRequest } from '../generation.ts';
import { parseChatRequest } from './chat-request.ts';
import type { ParseOptions } from '../protocol.ts';
import { parseTextRequest } from './text-request.ts';

/** Parses the body of a request. Throws `ServiceError` with the field. */
export function parseRequest(
  kind: GenerationKind,
  body: Record<string, unknown>,
  options: ParseOptions,
): GenerationRequest {
  switch (kind) {
    case 'chat':
      return parseChatRequest(body, options);
    case 'text':
      return parseTextRequest(body, options);
  }
}
