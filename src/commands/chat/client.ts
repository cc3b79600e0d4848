import { SseParser } from '../../support/sse.ts';
import { VERSION } from '../../support/version.ts';
import { printable } from '../output.ts';

export interface ChatMessage {
  role: 'system' | 'user' | 'assistant';
  content: string;
}

/** A part of a response. `end` is the last one. */
export type ChatEvent =
  | { type: 'reasoning' | 'text'; text: string }
  | { type: 'end'; finishReason: string | null; usage: Usage | null };

/** How much of the prompt of a request is computed, as in its receipt. */
export interface PromptProgress {
  prompt_tokens: number;
  done_tokens: number;
  /** In milliseconds; null: unknown. */
  left_ms: number | null;
}

/** The service refused a request, could not be reached, or failed during the response. */
export class ChatError extends Error {
  override readonly name = 'ChatError';
  /** The code of the error body; null if there is none. */
  readonly code: string | null;
  /** When to try again, in milliseconds; null: the same request would fail again. */
  readonly retryAfterMs: number | null;

  constructor(
    message: string,
    code: string | null = null,
    retryAfterMs: number | null = null,
    cause?: unknown,
  ) {
    super(message, { cause });
    this.code = code;
    this.retryAfterMs = retryAfterMs;
  }
}

/** Calls a service the way client libraries do. */
export class ChatClient {
  /** Without `/v1`. */
  readonly url: string;
  readonly #key: () => Promise<string | null>;

  /** `key` returns the API key for the next request; null: none. */
  constructor(url: string, key: () => Promise<string | null>) {
    this.url = url.replace(/\/+$/, '').replace(/\/v1$/, '');
    this.#key = key;
  }

  /** Returns the IDs of the models that generate text, the default one first. Rejects with a `ChatError`. */
  async models(signal: AbortSignal): Promise<string[]> {
    const response = await this.#send('GET', '/v1/models', null, signal);
    try {
      const { data } = (await response.json()) as ModelList;
      return data
        .filter(({ architecture }) => architecture.modality.endsWith('->text'))
        .map(({ id }) => printable(id));
    } catch (error) {
      signal.throwIfAborted();
      const message = `The server at ${this.url} did not respond with a list of models, as Sluice does.`;
      throw new ChatError(message, null, null, error);
    }
  }

  /**
   * Streams the response to a conversation. `requestId`: `promptProgress` finds the request by it. Throws a `ChatError`,
   * or the reason of the signal.
   */
  async *chat(
    model: string,
    messages: readonly ChatMessage[],
    requestId: string,
    signal: AbortSignal,
  ): AsyncGenerator<ChatEvent, void> {
    const body = { model, messages, stream: true, stream_options: { include_usage: true } };
    const headers = { 'x-client-request-id': requestId };
    const response = await this.#send('POST', '/v1/chat/completions', body, signal, headers);
    const end: ChatEvent = { type: 'end', finishReason: null, usage: null };
    const parser = new SseParser();
    try {
      for await (const bytes of response.body ?? [])
        for (const { data } of parser.push(Buffer.from(bytes))) {
          if (data === '[DONE]') {
            yield end;
            return;
          }
          const { choices = [], usage, error } = JSON.parse(data) as Chunk;
          if (error) throw refusalIn({ error }) ?? new ChatError('The response failed.');
          const { delta, finish_reason: reason } = choices[0] ?? {};
          if (isText(delta?.reasoning_content)) yield { type: 'reasoning', text: delta.reasoning_content };
          if (isText(delta?.content)) yield { type: 'text', text: delta.content };
          end.finishReason = reason ?? end.finishReason;
          if (usage) end.usage = usage;
        }
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ChatError) throw error;
      throw new ChatError('The connection was lost before the end of the response.', null, null, error);
    }
    throw new ChatError('The response ended early.');
  }

  /**
   * Returns the progress of the prompt of a running request; null: it has none, or the service does not report it.
   * Rejects with the reason of the signal.
   */
  async promptProgress(requestId: string, signal: AbortSignal): Promise<PromptProgress | null> {
    try {
      const path = `/api/receipts?client_request_id=${requestId}`;
      const response = await this.#send('GET', path, null, signal);
      return ((await response.json()) as ReceiptList).data[0]?.prefill ?? null;
    } catch {
      signal.throwIfAborted();
      return null;
    }
  }

  async #send(
    method: string,
    path: string,
    body: object | null,
    signal: AbortSignal,
    more: Readonly<Record<string, string>> = {},
  ): Promise<Response> {
    const key = await this.#key();
    const headers = {
      ...more,
      ...(key !== null && { authorization: `Bearer ${key}` }),
      'content-type': 'application/json',
      'user-agent': `sluice/${VERSION}`,
    };
    let response: Response;
    try {
      response = await fetch(`${this.url}${path}`, {
        method,
        headers,
        body: body && JSON.stringify(body),
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      const reason =
        error instanceof Error && error.cause instanceof Error ? error.cause.message : String(error);
      throw new ChatError(`Cannot reach the service at ${this.url}: ${reason}`, null, null, error);
    }
    if (!response.ok) throw await errorOf(response, this.url);
    return response;
  }
}

interface ModelList {
  data: { id: string; architecture: { modality: string } }[];
}

interface ReceiptList {
  data: { prefill: PromptProgress | null }[];
}

interface Chunk {
  choices?: {
    delta: { content?: string | null; reasoning_content?: string | null };
    finish_reason: string | null;
  }[];
  usage?: Usage | null;
  error?: ErrorBody['error'] | null;
}

interface ErrorBody {
  error: { message: string; code: string | null };
}

interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  prompt_tokens_details?: { cached_tokens: number };
}

/** Whether a field of a response, from whatever server, is a text that is not empty. */
function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

/** Returns the error of a body; null if it has none. */
function refusalIn(body: unknown, retryAfterMs: number | null = null): ChatError | null {
  const { message, code } = (body as Partial<ErrorBody> | null)?.error ?? {};
  return isText(message) ? new ChatError(printable(message), code, retryAfterMs) : null;
}

async function errorOf(response: Response, url: string): Promise<ChatError> {
  const retryAfter = Number(response.headers.get('retry-after') ?? Number.NaN);
  const retryAfterMs = Number.isNaN(retryAfter) ? null : retryAfter * 1000;
  const body: unknown = await response.json().catch(() => null);
  const message = `The server at ${url} responded with status ${response.status}.`;
  return refusalIn(body, retryAfterMs) ?? new ChatError(message, null, retryAfterMs);
}
