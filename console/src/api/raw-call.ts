/** A request of the API reference's try-out dialog. */
export interface RawCall {
  method: string;
  /** Including the query. */
  path: string;
  /** An API key; null: as the signed-in user. */
  key: string | null;
  /** JSON, sent unchanged; null: no body. */
  body: string | null;
}

/** An unprocessed response of any status. */
export interface RawResponse {
  status: number;
  headers: Headers;
  /** Time until the headers arrived. */
  headersMs: number;
  /** The body text in pieces as they arrive. */
  pieces: AsyncIterable<string>;
}

/** Sends a request and returns the unprocessed response. Rejects if there is none, or with the signal's reason. */
export async function rawCall(call: RawCall, signal: AbortSignal): Promise<RawResponse> {
  const sentAt = performance.now();
  const response = await fetch(call.path, {
    method: call.method,
    headers: {
      ...(call.key !== null && { authorization: `Bearer ${call.key}` }),
      ...(call.body !== null && { 'content-type': 'application/json' }),
    },
    body: call.body,
    // The key alone identifies the caller.
    credentials: call.key === null ? 'same-origin' : 'omit',
    signal,
  });
  const { status, headers, body } = response;
  return { status, headers, headersMs: performance.now() - sentAt, pieces: piecesOf(body) };
}

async function* piecesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<string> {
  if (body === null) return;
  const decoder = new TextDecoder();
  const reader = body.getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    yield decoder.decode(value, { stream: true });
  }
}
