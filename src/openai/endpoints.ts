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

interface Endpoint {
  path: string;
  /** The start of response IDs. */
  idPrefix: string;
  /** `object` of responses. */
  object: string;
  /** `object` of chunks. */
  chunkObject: string;
}

/** The endpoint of each kind of request. */
export const ENDPOINTS: Readonly<Record<GenerationKind, Endpoint>> = {
  chat: {
    path: '/v1/chat/completions',
    idPrefix: 'chatcmpl-',
    object: 'chat.completion',
    chunkObject: 'chat.completion.chunk',
  },
  text: {
    path: '/v1/completions',
    idPrefix: 'cmpl-',
    object: 'text_completion',
    chunkObject: 'text_completion',
  },
};

export const GENERATION_KINDS = Object.keys(ENDPOINTS) as readonly GenerationKind[];

/** Returns the kind of request of a path, or undefined. */
export function kindOfPath(path: string): GenerationKind | undefined {
  return GENERATION_KINDS.find((kind) => ENDPOINTS[kind].path === path);
}

/** Returns the fields that identify a response, which is created now. */
export function responseIdentity(kind: GenerationKind, id: string, model: string): ResponseIdentity {
  const created = Math.floor(Date.now() / 1000);
  return { id: ENDPOINTS[kind].idPrefix + id, created, model };
}
