import type { Dispatcher } from 'undici';
import { proxyAgent, requestWithProxy } from '../support/proxy-agent.ts';
import type { Secret } from '../support/secret.ts';
import { PullError, reasonOf } from './errors.ts';
import { isLoopback } from './source.ts';

/** A token and the only origin that it is sent to. */
export interface Credentials {
  token: Secret;
  /** As in `URL.origin`. */
  origin: string;
}

interface HttpRequest {
  method: 'GET' | 'HEAD';
  headers: Readonly<Record<string, string>>;
  credentials: Credentials | null;
  signal: AbortSignal;
}

export interface HttpResponse {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  body: Dispatcher.ResponseData['body'];
  /** The URL after redirects. */
  url: URL;
}

/** Timeouts, in milliseconds. */
export interface HttpTimeouts {
  /** DNS, TCP and TLS. Short, because an unreachable host delays the next source. */
  connectMs: number;
  /** From the request to the response headers. */
  responseMs: number;
  /** Between two parts of a body. */
  idleMs: number;
}

const DEFAULT_TIMEOUTS: HttpTimeouts = { connectMs: 3000, responseMs: 10_000, idleMs: 30_000 };
const MAX_REDIRECTS = 5;

/**
 * Downloads model files, through the proxies in `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`. Checks every
 * redirect, so that a token is only sent to its origin, and plain HTTP is only used on this machine. The constructor
 * throws a `PullError` `all_failed` if a variable is invalid.
 */
export class HttpClient {
  readonly #dispatcher: Dispatcher;
  readonly #timeouts: HttpTimeouts;

  constructor(env: NodeJS.ProcessEnv, timeouts: Partial<HttpTimeouts> = {}) {
    this.#timeouts = { ...DEFAULT_TIMEOUTS, ...timeouts };
    this.#dispatcher = openDispatcher(env, this.#timeouts);
  }

  /** Follows redirects. The caller must read or destroy the body. @throws PullError `source_failed` */
  async get(url: URL, headers: Record<string, string>, credentials: Credentials | null, signal: AbortSignal) {
    return this.#follow(url, { method: 'GET', headers, credentials, signal }, () => true);
  }

  /**
   * Follows redirects only within the origin of `url`, because the Hub sends the metadata of a file in the response
   * that redirects to another origin.
   * @throws PullError `source_failed`
   */
  async head(url: URL, credentials: Credentials | null, signal: AbortSignal): Promise<HttpResponse> {
    const request = { method: 'HEAD', headers: {}, credentials, signal } as const;
    const response = await this.#follow(url, request, (next) => next.origin === url.origin);
    await response.body.dump();
    return response;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher.destroy();
  }

  async #follow(start: URL, request: HttpRequest, mayFollow: (next: URL) => boolean): Promise<HttpResponse> {
    let url = start;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const response = await this.#send(url, request);
      const next = redirectTarget(response);
      if (next === null || !mayFollow(next)) return response;
      await response.body.dump();
      if (next.protocol !== 'https:' && !(next.protocol === 'http:' && isLoopback(next.hostname))) {
        throw new PullError(
          'source_failed',
          `${url.host} redirects to ${next.protocol}//${next.host}; expected https://`,
        );
      }
      url = next;
    }
    throw new PullError('source_failed', `${start.host} redirects more than ${MAX_REDIRECTS} times`);
  }

  async #send(url: URL, { method, headers, credentials, signal }: HttpRequest): Promise<HttpResponse> {
    const requestHeaders: Record<string, string> = {
      ...headers,
      'accept-encoding': 'identity',
      'user-agent': 'sluice',
    };
    if (credentials !== null && credentials.origin === url.origin) {
      requestHeaders['authorization'] = `Bearer ${credentials.token.reveal()}`;
    }
    // The dispatcher's timeouts have a resolution of a second, and do not cover connections to every proxy.
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), this.#timeouts.connectMs + this.#timeouts.responseMs);
    try {
      const response = await requestWithProxy(url, {
        method,
        headers: requestHeaders,
        dispatcher: this.#dispatcher,
        signal: AbortSignal.any([signal, timeout.signal]),
      });
      const { statusCode: status, body } = response;
      return { status, headers: firstValues(response.headers), body, url };
    } catch (error) {
      signal.throwIfAborted();
      const reason = timeout.signal.aborted ? 'no response in time' : reasonOf(error);
      throw new PullError('source_failed', `${url.host} cannot be reached: ${reason}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

function redirectTarget(response: HttpResponse): URL | null {
  const location = response.headers['location'];
  if (![301, 302, 303, 307, 308].includes(response.status) || location === undefined) return null;
  if (!URL.canParse(location, response.url)) return null;
  return new URL(location, response.url);
}

function firstValues(
  headers: Record<string, string | string[] | undefined>,
): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, [value].flat()[0]]));
}

function openDispatcher(env: NodeJS.ProcessEnv, { connectMs, responseMs, idleMs }: HttpTimeouts): Dispatcher {
  const timeouts = { connect: { timeout: connectMs }, headersTimeout: responseMs, bodyTimeout: idleMs };
  try {
    return proxyAgent(env, timeouts);
  } catch (error) {
    throw new PullError('all_failed', reasonOf(error), { cause: error });
  }
}
