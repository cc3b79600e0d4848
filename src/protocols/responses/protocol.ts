import { errorBody } from '../../core/error-body.ts';
import type { Protocol } from '../../core/protocol.ts';
import { paramsOf } from '../field.ts';
import { RESPONSES_FIELDS } from './fields.ts';
import { describeResponses } from './openapi.ts';
import { parseResponsesRequest } from './request.ts';
import { errorFrame, ResponseWriter } from './response.ts';

/** OpenAI's Responses API, without stored responses. */
export const RESPONSES: Protocol = {
  id: 'responses',
  path: '/v1/responses',
  kind: 'chat',
  parse: (body, options) => {
    const request = parseResponsesRequest(body, options);
    return {
      generation: request.generation,
      schemaPath: (tool) => (tool === null ? 'text.format.schema' : (request.tooling.paths[tool] ?? 'tools')),
      prepare: () => request.echo.prepare(),
      whole: (requestId) => new ResponseWriter(request, requestId, false),
      stream: (requestId) => new ResponseWriter(request, requestId, true),
    };
  },
  paramOf: paramsOf(RESPONSES_FIELDS, { strictTools: 'tools' }),
  errorStatus: ({ status }) => status,
  errorBody,
  errorFrames: (error, _usage, sent) => errorFrame(error, sent),
  describe: describeResponses,
};
