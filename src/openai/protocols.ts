import type { GenerationKind } from '../generation.ts';
import type { Protocol } from '../protocol.ts';
import { errorBody } from './error-body.ts';
import { parseRequest } from './generation-request.ts';
import { describeChat, describeText } from './openapi.ts';
import { ResponseBuilder } from './response.ts';
import { responseIdentity } from './shape.ts';
import { errorFrames, StreamFormatter } from './stream.ts';

/** OpenAI's chat completions. */
export const CHAT: Protocol = {
  id: 'chat',
  path: '/v1/chat/completions',
  describe: describeChat,
  ...completions('chat'),
};

/** OpenAI's text completions. */
export const TEXT: Protocol = {
  id: 'text',
  path: '/v1/completions',
  describe: describeText,
  ...completions('text'),
};

function completions(kind: GenerationKind): Omit<Protocol, 'id' | 'path' | 'describe'> {
  return {
    kind,
    parse: (body, options) => parseRequest(kind, body, options),
    whole: (requestId, request) =>
      new ResponseBuilder(responseIdentity(kind, requestId, request.model), request),
    stream: (requestId, request) =>
      new StreamFormatter(responseIdentity(kind, requestId, request.model), request),
    errorBody,
    errorFrames: (error, usage) => errorFrames(kind, error, usage),
  };
}
