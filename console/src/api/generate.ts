import { ApiError, faultOf } from './client.ts';
import { EventReader } from './events.ts';

/** What a request used, in tokens. */
export interface Usage {
  promptTokens: number;
  completionTokens: number;
  /** Of the prompt's tokens, those that were not computed anew. */
  cachedTokens: number;
}

/** A token with its natural log probability, and those that could have stood in its place, the likeliest first. */
export interface TokenLogprob {
  token: string;
  logprob: number;
  top: readonly { token: string; logprob: number }[];
}

/** What happens while an answer comes, in this order; `choice` counts from 0. */
export type GenerateEvent =
  /** The service has taken the request. `requestId`: `x-request-id`, under which its receipt is found. */
  | { type: 'taken'; requestId: string | null }
  /** The first token of a stream came so long after the request was sent. */
  | { type: 'first_token'; ttftMs: number }
  | { type: 'text'; choice: number; text: string; logprobs: readonly TokenLogprob[] }
  /** What the model thinks before it responds. */
  | { type: 'reasoning'; choice: number; text: string }
  | { type: 'finish'; choice: number; reason: string }
  /** Once, at the end; before a fault, what was used so far. */
  | { type: 'usage'; usage: Usage }
  /** A fault after the answer had begun: a frame of the service's, or a connection that broke. */
  | { type: 'fault'; error: ApiError }
  /** The last one, whatever came before. `totalMs`: from the sending to the last byte. */
  | { type: 'end'; totalMs: number };

/** A generation that is to be. */
export interface GenerateCall {
  endpoint: 'chat' | 'text';
  /** The request as the interface takes it, without `stream` and `stream_options`. */
  body: Readonly<Record<string, unknown>>;
  /** `sk-sluice-…`. */
  key: string;
  /** False: the answer is asked for whole, and comes in the same events at its end. True unless said otherwise. */
  stream?: boolean;
  /** Hangs up: the service stops generating within a step. */
  signal?: AbortSignal;
}

/** Where each kind of generation is asked for. */
const GENERATION_PATHS = { chat: '/v1/chat/completions', text: '/v1/completions' } as const;

/**
 * Generates. The service's no throws an `ApiError` before the first event, what goes wrong later is a `fault`
 * event; an abort throws the signal's reason, whenever it comes.
 */
export async function* generate(call: GenerateCall): AsyncGenerator<GenerateEvent, void, undefined> {
  const { endpoint, body, key, stream = true, signal } = call;
  const sentAt = performance.now();
  const response = await send(GENERATION_PATHS[endpoint], key, streamed(body, stream), signal);
  yield { type: 'taken', requestId: response.headers.get('x-request-id') };
  try {
    if (stream) yield* readStream(response, sentAt);
    else yield* eventsOf((await response.json()) as WireAnswer); // The service answers as its schema says.
  } catch (error) {
    signal?.throwIfAborted();
    yield { type: 'fault', error: brokenOff(error) };
  }
  yield { type: 'end', totalMs: performance.now() - sentAt };
}

/** The request as it is sent. */
export function streamed(
  body: Readonly<Record<string, unknown>>,
  stream: boolean,
): Readonly<Record<string, unknown>> {
  return stream ? { ...body, stream: true, stream_options: { include_usage: true } } : body;
}

async function send(path: string, key: string, body: object, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: signal ?? null,
      // The key says who asks, and nothing else is to.
      credentials: 'omit',
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw new ApiError('The service does not answer.', { status: 0, code: 'unreachable', cause: error });
  }
  if (!response.ok) throw await faultOf(response);
  return response;
}

async function* readStream(response: Response, sentAt: number): AsyncGenerator<GenerateEvent> {
  if (response.body === null) throw new TypeError('the answer has no body');
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const events = new EventReader();
  let first = true;
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) throw new TypeError('the stream ended before its end was told');
      for (const data of events.push(decoder.decode(value, { stream: true }))) {
        if (data === '[DONE]') return;
        for (const event of eventsOf(JSON.parse(data) as WireAnswer)) {
          if (first && (event.type === 'text' || event.type === 'reasoning')) {
            first = false;
            yield { type: 'first_token', ttftMs: performance.now() - sentAt };
          }
          yield event;
        }
      }
    }
  } finally {
    // Whoever stops reading in the middle hangs up. After the end, and once it has failed, this changes nothing.
    await reader.cancel().catch(() => {});
  }
}

function brokenOff(cause: unknown): ApiError {
  return new ApiError('The connection broke before the answer was whole.', {
    status: 0,
    code: 'unreachable',
    cause,
  });
}

interface WireLogprob {
  token: string;
  logprob: number;
}

/** What chunks, whole answers and error frames of both endpoints have, as far as it is read here. */
interface WireAnswer {
  choices?: readonly {
    index: number;
    text?: string;
    delta?: { content?: string; reasoning_content?: string };
    message?: { content: string; reasoning_content?: string };
    logprobs?: {
      content?: readonly (WireLogprob & { top_logprobs: readonly WireLogprob[] })[];
      tokens?: readonly string[];
      token_logprobs?: readonly number[];
      top_logprobs?: readonly Readonly<Record<string, number>>[];
    } | null;
    finish_reason: string | null;
  }[];
  usage?: {
    prompt_tokens: number;
    completion_tokens: number;
    prompt_tokens_details?: { cached_tokens: number };
  } | null;
  error?: { message: string; code: string; param: string | null };
}

/** The events of one chunk, whole answer or error frame. */
function* eventsOf({ choices = [], usage, error }: WireAnswer): Generator<GenerateEvent> {
  for (const { index, text, delta, message, logprobs, finish_reason } of choices) {
    const reasoning = (delta ?? message)?.reasoning_content ?? '';
    if (reasoning !== '') yield { type: 'reasoning', choice: index, text: reasoning };
    const piece = text ?? delta?.content ?? message?.content ?? '';
    const tokens = logprobsOf(logprobs ?? {});
    if (piece !== '' || tokens.length > 0)
      yield { type: 'text', choice: index, text: piece, logprobs: tokens };
    if (finish_reason !== null) yield { type: 'finish', choice: index, reason: finish_reason };
  }
  if (usage) {
    const { prompt_tokens: promptTokens, completion_tokens: completionTokens } = usage;
    const cachedTokens = usage.prompt_tokens_details?.cached_tokens ?? 0;
    yield { type: 'usage', usage: { promptTokens, completionTokens, cachedTokens } };
  }
  if (error !== undefined)
    yield { type: 'fault', error: new ApiError(error.message, { status: 200, ...error }) };
}

type WireLogprobs = NonNullable<NonNullable<NonNullable<WireAnswer['choices']>[number]['logprobs']>>;

/** Those of a chat are a list of tokens, those of a text are lists side by side. */
function logprobsOf({ content, tokens, token_logprobs, top_logprobs }: WireLogprobs): TokenLogprob[] {
  if (content) {
    return content.map(({ token, logprob, top_logprobs: top }) => ({ token, logprob, top }));
  }
  return (tokens ?? []).map((token, index) => ({
    token,
    logprob: token_logprobs?.[index] ?? 0,
    top: Object.entries(top_logprobs?.[index] ?? {}).map(([other, logprob]) => ({ token: other, logprob })),
  }));
}
