import { createParser } from 'eventsource-parser';
import { ApiError, faultOf, unreachable } from './client.ts';

export interface Usage {
  promptTokens: number;
  completionTokens: number;
  reasoningTokens: number;
  /** Prompt tokens taken from the prefix cache. */
  cachedTokens: number;
}

/** A token with its natural log probability and the most likely alternatives, most likely first. */
export interface TokenLogprob {
  token: string;
  logprob: number;
  top: readonly { token: string; logprob: number }[];
}

/** Events of a generation, in this order; `choice` counts from 0. */
export type GenerateEvent =
  /** The service accepted the request. `requestId` is `x-request-id`, the id of the receipt. */
  | { type: 'accepted'; requestId: string | null }
  /** The first token of a stream arrived `ttftMs` after the request was sent. */
  | { type: 'first_token'; ttftMs: number }
  | { type: 'text'; choice: number; text: string; logprobs: readonly TokenLogprob[] }
  /** Reasoning text, before the completion. */
  | { type: 'reasoning'; choice: number; text: string }
  /** A tool call, or more of its arguments. `call` counts from 0 in the choice; `id` and `name` are set once. */
  | { type: 'tool_call'; choice: number; call: number; id?: string; name?: string; arguments: string }
  | { type: 'finish'; choice: number; reason: string }
  /** Comes once, at the end. In a stream that ends with an error, comes before the error, with the usage so far. */
  | { type: 'usage'; usage: Usage }
  /** An error after the response started: an error event of the service, or a lost connection. */
  | { type: 'fault'; error: ApiError }
  /** Always last. `totalMs`: from sending the request to the last byte. */
  | { type: 'end'; totalMs: number };

export interface GenerateCall {
  /** Request body without `stream` and `stream_options`. */
  body: Readonly<Record<string, unknown>>;
  /** `sk-sluice-…`. */
  key: string;
  /** Default: true. If false, all events arrive when the response is complete, and there is no `first_token`. */
  stream?: boolean;
  /** Closes the connection; the service then stops generating. */
  signal?: AbortSignal;
}

/**
 * Generates text. Throws an `ApiError` if the request is refused; later errors are a `fault` event. An abort throws the
 * signal's reason.
 */
export async function* generate(call: GenerateCall): AsyncGenerator<GenerateEvent, void, undefined> {
  const { body, key, stream = true, signal } = call;
  const sentAt = performance.now();
  const response = await send('/v1/chat/completions', key, streamed(body, stream), signal);
  yield { type: 'accepted', requestId: response.headers.get('x-request-id') };
  try {
    if (stream) yield* readStream(response, sentAt);
    else yield* eventsOf((await response.json()) as WireResponse); // The service validates its responses.
  } catch (error) {
    signal?.throwIfAborted();
    yield { type: 'fault', error: connectionLost(error) };
  }
  yield { type: 'end', totalMs: performance.now() - sentAt };
}

export function streamed(
  body: Readonly<Record<string, unknown>>,
  stream: boolean,
): Readonly<Record<string, unknown>> {
  return stream ? { ...body, stream: true, stream_options: { include_usage: true } } : body;
}

/** Sends a request to the API. Throws an `ApiError` if it is refused. An abort throws the signal's reason. */
export async function send(path: string, key: string, body: object, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: signal ?? null,
      // The key alone identifies the caller.
      credentials: 'omit',
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw unreachable(error);
  }
  if (!response.ok) throw await faultOf(response);
  return response;
}

const TOKEN_EVENTS: ReadonlySet<GenerateEvent['type']> = new Set(['text', 'reasoning', 'tool_call']);

async function* readStream(response: Response, sentAt: number): AsyncGenerator<GenerateEvent> {
  if (response.body === null) throw new TypeError('the response has no body');
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  let arrived: string[] = [];
  const parser = createParser({ onEvent: ({ data }) => arrived.push(data) });
  let first = true;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new TypeError('the stream ended without [DONE]');
      parser.feed(decoder.decode(value, { stream: true }));
      const complete = arrived;
      arrived = [];
      for (const data of complete) {
        if (data === '[DONE]') return;
        for (const event of eventsOf(JSON.parse(data) as WireResponse)) {
          if (first && TOKEN_EVENTS.has(event.type)) {
            first = false;
            yield { type: 'first_token', ttftMs: performance.now() - sentAt };
          }
          yield event;
        }
      }
    }
  } finally {
    // Closes the connection if the consumer stops early; otherwise a no-op.
    await reader.cancel().catch(() => {});
  }
}

/** Returns the error for a response that ended too early. */
export function connectionLost(cause: unknown): ApiError {
  return new ApiError('The connection was lost before the response was complete. Try again.', {
    status: 0,
    code: 'unreachable',
    cause,
  });
}

interface WireLogprob {
  token: string;
  logprob: number;
}

interface WireCall {
  /** Only in streams. */
  index?: number;
  id?: string;
  function?: { name?: string; arguments?: string };
}

/** The fields of chunks, responses and error events that are read here. */
interface WireResponse {
  choices?: readonly {
    index: number;
    delta?: { content?: string; reasoning_content?: string; tool_calls?: readonly WireCall[] };
    message?: { content: string | null; reasoning_content?: string; tool_calls?: readonly WireCall[] };
    logprobs?: {
      content?: readonly (WireLogprob & { top_logprobs: readonly WireLogprob[] })[];
    } | null;
    finish_reason: string | null;
  }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens: number };
    completion_tokens_details?: { reasoning_tokens: number };
  } | null;
  error?: { message: string; code: string; param: string | null };
}

function* eventsOf({ choices = [], usage, error }: WireResponse): Generator<GenerateEvent> {
  for (const { index, delta, message, logprobs, finish_reason } of choices) {
    const reasoning = (delta ?? message)?.reasoning_content ?? '';
    if (reasoning !== '') yield { type: 'reasoning', choice: index, text: reasoning };
    const piece = delta?.content ?? message?.content ?? '';
    const tokens = (logprobs?.content ?? []).map(({ token, logprob, top_logprobs: top }) => ({
      token,
      logprob,
      top,
    }));
    if (piece !== '' || tokens.length > 0)
      yield { type: 'text', choice: index, text: piece, logprobs: tokens };
    for (const [position, call] of ((delta ?? message)?.tool_calls ?? []).entries()) {
      const { index: callIndex = position, id, function: { name, arguments: text = '' } = {} } = call;
      yield {
        type: 'tool_call',
        choice: index,
        call: callIndex,
        ...(id !== undefined && { id }),
        ...(name !== undefined && { name }),
        arguments: text,
      };
    }
    if (finish_reason !== null) yield { type: 'finish', choice: index, reason: finish_reason };
  }
  if (usage) {
    const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage;
    const cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const reasoningTokens = usage.completion_tokens_details?.reasoning_tokens ?? 0;
    yield { type: 'usage', usage: { promptTokens, completionTokens, reasoningTokens, cachedTokens } };
  }
  if (error !== undefined)
    yield { type: 'fault', error: new ApiError(error.message, { status: 200, ...error }) };
}
