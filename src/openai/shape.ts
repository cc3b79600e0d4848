import type { GenerationKind } from '../generation.ts';

/** The fields that are the same in a response and in every chunk of a stream. */
export interface ResponseIdentity {
  /** `chatcmpl-…` or `cmpl-…`. */
  id: string;
  /** Unix seconds. */
  created: number;
  /** The model ID of the request. */
  model: string;
}

/** The parts of responses and chunks that differ between chats and text completions. */
interface Shape {
  /** The start of response IDs. */
  idPrefix: string;
  /** `object` of responses. */
  object: string;
  /** `object` of chunks. */
  chunkObject: string;
  /** Around the text in a choice of a chunk. */
  beforeText: string;
  afterText: string;
  /** Before reasoning and before the index of a call. Null: there are no such chunks. */
  beforeReasoning: string | null;
  beforeCall: string | null;
  /** The fields of a choice without text. */
  empty: string;
}

export const SHAPES: Readonly<Record<GenerationKind, Shape>> = {
  chat: {
    idPrefix: 'chatcmpl-',
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
    beforeText: '"delta":{"content":',
    afterText: '},"finish_reason":null}',
    beforeReasoning: '"delta":{"reasoning_content":',
    beforeCall: '"delta":{"tool_calls":[{"index":',
    empty: '"delta":{},',
  },
  text: {
    idPrefix: 'cmpl-',
    object: 'text_completion',
    chunkObject: 'text_completion',
    beforeText: '"text":',
    afterText: ',"logprobs":null,"finish_reason":null}',
    beforeReasoning: null,
    beforeCall: null,
    empty: '"text":"","logprobs":null,',
  },
};

/** Returns the fields that identify the response to a request, which is created now. */
export function responseIdentity(kind: GenerationKind, requestId: string, model: string): ResponseIdentity {
  const created = Math.floor(Date.now() / 1000);
  return { id: SHAPES[kind].idPrefix + requestId.replaceAll('-', ''), created, model };
}
