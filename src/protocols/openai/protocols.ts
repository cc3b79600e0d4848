import type { Feature } from '../../core/features.ts';
import type { CompletionKind } from '../../core/generation.ts';
import type { Protocol } from '../../core/protocol.ts';
import { errorBody } from '../../core/error-body.ts';
import { FIELDS } from './fields.ts';
import { parseRequest } from './request.ts';
import { schemaPathOf } from './tools.ts';
import { describeChat, describeText } from './openapi.ts';
import { ResponseBuilder, responseIdentity, errorFrames, StreamFormatter } from './response.ts';

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

/** The paths of the fields by the features that they ask for. */
const FIELD_OF = { chat: fieldsByFeature('chat'), text: fieldsByFeature('text') };

function fieldsByFeature(kind: CompletionKind): ReadonlyMap<Feature, string> {
  const own = FIELDS.filter(({ kinds }) => kinds.includes(kind));
  return new Map(own.flatMap(({ feature, path }) => (feature === null ? [] : [[feature, path] as const])));
}

function completions(kind: CompletionKind): Omit<Protocol, 'id' | 'path' | 'describe'> {
  return {
    kind,
    parse: (body, options) => {
      const generation = parseRequest(kind, body, options);
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
    paramOf: (feature) => FIELD_OF[kind].get(feature) ?? feature,
    errorStatus: ({ status }) => status,
    errorBody,
    errorFrames: (error, usage) => errorFrames(kind, error, usage),
  };
}
