import type { Protocol } from '../../core/protocol.ts';
import { errorBody, errorFrame, statusOf } from './errors.ts';
import { paramsOf } from '../field.ts';
import { MESSAGES_FIELDS } from './fields.ts';
import { responseHeaders } from './headers.ts';
import { describeMessages } from './openapi.ts';
import { noteLimit, parseMessagesRequest } from './request.ts';
import { MessageWriter } from './response.ts';

/** Anthropic's Messages API. */
export const MESSAGES: Protocol = {
  id: 'messages',
  path: '/v1/messages',
  kind: 'chat',
  parse: (body, options) => {
    const request = parseMessagesRequest(body, options);
    return {
      generation: request.generation,
      schemaPath: (tool) =>
        tool === null ? 'output_config.format.schema' : (request.tooling.paths[tool] ?? 'tools'),
      fit: (card) => noteLimit(request.generation, card, options),
      whole: (requestId) => new MessageWriter(request, requestId, false),
      stream: (requestId) => new MessageWriter(request, requestId, true),
    };
  },
  paramOf: paramsOf(MESSAGES_FIELDS, {
    strictTools: 'tools',
    singleCalls: 'tool_choice.disable_parallel_tool_use',
  }),
  headers: responseHeaders,
  errorStatus: ({ status }) => statusOf(status),
  errorBody,
  errorFrames: (error) => errorFrame(error),
  describe: describeMessages,
};
