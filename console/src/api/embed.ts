import { connectionLost, send } from './generate.ts';

export interface Embeddings {
  /** In the order of the inputs. All have the same length. */
  vectors: readonly (readonly number[])[];
  promptTokens: number;
  /** `x-request-id`, the id of the receipt. */
  requestId: string | null;
  /** From sending the request to the last byte, in milliseconds. */
  totalMs: number;
}

export interface EmbedCall {
  /** Request body without `encoding_format`. */
  body: Readonly<Record<string, unknown>>;
  /** `sk-sluice-…`. */
  key: string;
  /** Closes the connection; the service then stops. */
  signal?: AbortSignal;
}

/** The fields of a response that are read here. */
interface WireEmbeddings {
  data: readonly { embedding: readonly number[] }[];
  usage: { prompt_tokens: number };
}

/** Returns the embeddings of texts. Throws an `ApiError`, or the signal's reason after an abort. */
export async function embed({ body, key, signal }: EmbedCall): Promise<Embeddings> {
  const sentAt = performance.now();
  const response = await send('/v1/embeddings', key, body, signal);
  let read: WireEmbeddings;
  try {
    read = (await response.json()) as WireEmbeddings; // The service validates its responses.
  } catch (error) {
    signal?.throwIfAborted();
    throw connectionLost(error);
  }
  return {
    vectors: read.data.map(({ embedding }) => embedding),
    promptTokens: read.usage.prompt_tokens,
    requestId: response.headers.get('x-request-id'),
    totalMs: performance.now() - sentAt,
  };
}
