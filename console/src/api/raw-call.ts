/** A call as it is written down in the API reference. */
export interface RawCall {
  method: string;
  /** With its query. */
  path: string;
  /** An API key; null: as the person who is signed in. */
  key: string | null;
  /** JSON, sent as it is; null: none. */
  body: string | null;
}

/** An answer as it came, whatever its status. */
export interface RawAnswer {
  status: number;
  headers: Headers;
  /** Until its headers were there. */
  headersMs: number;
  /** Its text, piece by piece as it comes. */
  pieces: AsyncIterable<string>;
}

/** Sends a call and gives its answer untouched. Rejects where none comes, or with the signal's reason. */
export async function rawCall(call: RawCall, signal: AbortSignal): Promise<RawAnswer> {
  const sentAt = performance.now();
  const response = await fetch(call.path, {
    method: call.method,
    headers: {
      ...(call.key !== null && { authorization: `Bearer ${call.key}` }),
      ...(call.body !== null && { 'content-type': 'application/json' }),
    },
    body: call.body,
    // A key says who asks, and nothing else is to.
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
