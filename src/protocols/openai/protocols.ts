import type { CompletionKind, CompletionRequest } from '../../core/generation.ts';
import type { Protocol } from '../../core/protocol.ts';
import { errorBody } from '../../core/error-body.ts';
import { paramsOf } from '../field.ts';
import { FIELDS_OF } from './fields.ts';
import { parseChatRequest, parseTextRequest } from './request.ts';
import { schemaPathOf } from './tools.ts';
import { describeChat, describeText } from './openapi.ts';
import { ResponseBuilder, responseIdentity, errorFrames, StreamFormatter } from './response.ts';

/** OpenAI's chat completions. */
export const CHAT: Protocol = {
  id: 'chat',
  path: '/v1/chat/completions',
  describe: describeChat,
  ...completions('chat', parseChatRequest),
};

/** OpenAI's text completions. */
export const TEXT: Protocol = {
  id: 'text',
  path: '/v1/completions',
  describe: describeText,
  ...completions('text', parseTextRequest),
};

function completions(
  kind: CompletionKind,
  parse: (...request: Parameters<Protocol['parse']>) => CompletionRequest,
): Omit<Protocol, 'id' | 'path' | 'describe'> {
  return {
    kind,
    parse: (body, options) => {
      const generation = parse(body, options);
      return {
        generation,
        schemaPath: (tool) =>
          tool === null ? 'response_format.json_schema.schema' : schemaPathOf(body['tools'], tool),
        whole: (requestId) =>
          new ResponseBuilder(responseIdentity(kind, requestId, generation.model), generation),
        stream: (requestId) =>
          new StreamFormatter(responseIdentity(kind, requestId, generation.model), generation),
      };
    },
    paramOf: paramsOf(FIELDS_OF[kind]),
    errorStatus: ({ status }) => status,
    errorBody,
    errorFrames: (error, usage) => errorFrames(kind, error, usage),
  };
}
