import { EnvHttpProxyAgent, request, type Dispatcher } from 'undici';
import type { Secret } from '../secret.ts';
import { PullError, reasonOf } from './pull-error.ts';
import { isLoopback } from './source.ts';

/** A token and the one origin that may see it. */
export interface Credentials {
  token: Secret;
  /** Scheme, host and port, as `URL.origin` writes them. */
  origin: string;
}

export interface HttpAnswer {
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  body: Dispatcher.ResponseData['body'];
  /** After redirects. */
  url: URL;
}

export interface HttpTimes {
  /** Name look-up, connection and TLS together. Small: an unreachable host must not hold up the next source. */
  connectMs: number;
  /** From the request to its headers. */
  answerMs: number;
  /** Silence in the middle of a body. */
  silenceMs: number;
}

const TIMES: HttpTimes = { connectMs: 3000, answerMs: 10_000, silenceMs: 30_000 };
const MAX_REDIRECTS = 5;

/**
 * Requests for model files, through the proxy that the environment names (`HTTPS_PROXY`, `HTTP_PROXY`,
 * `NO_PROXY`). Follows redirects itself, so that a token goes to its own origin and to no other, and plain HTTP
 * stays on this machine.
 */
export class HttpClient {
  readonly #dispatcher: EnvHttpProxyAgent;
  readonly #times: HttpTimes;

  constructor(env: NodeJS.ProcessEnv, times: Partial<HttpTimes> = {}) {
    this.#times = { ...TIMES, ...times };
    this.#dispatcher = new EnvHttpProxyAgent({
      httpProxy: env['http_proxy'] ?? env['HTTP_PROXY'] ?? '',
      httpsProxy: env['https_proxy'] ?? env['HTTPS_PROXY'] ?? '',
      noProxy: env['no_proxy'] ?? env['NO_PROXY'] ?? '',
      connect: { timeout: this.#times.connectMs },
      headersTimeout: this.#times.answerMs,
      bodyTimeout: this.#times.silenceMs,
    });
  }

  /** Asks and follows redirects. The caller reads or destroys the body. @throws PullError `source_failed`. */
  async get(url: URL, headers: Record<string, string>, credentials: Credentials | null, signal: AbortSignal) {
    return this.#follow('GET', url, headers, credentials, signal, () => true);
  }

  /**
   * The headers of the first answer that is no redirect within the same origin: a hub says what the file is
   * on the way to the host that stores it. @throws PullError `source_failed`.
   */
  async head(url: URL, credentials: Credentials | null, signal: AbortSignal): Promise<HttpAnswer> {
    const answer = await this.#follow(
      'HEAD',
      url,
      {},
      credentials,
      signal,
      (next) => next.origin === url.origin,
    );
    await answer.body.dump();
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#dispatcher.destroy();
  }

  async #follow(
    method: 'GET' | 'HEAD',
    start: URL,
    headers: Record<string, string>,
    credentials: Credentials | null,
    signal: AbortSignal,
    mayFollow: (next: URL) => boolean,
  ): Promise<HttpAnswer> {
    let url = start;
    for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
      const answer = await this.#ask(method, url, headers, credentials, signal);
      const next = redirectTarget(answer);
      if (next === null || !mayFollow(next)) return answer;
      await answer.body.dump();
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

  async #ask(
    method: 'GET' | 'HEAD',
    url: URL,
    headers: Record<string, string>,
    credentials: Credentials | null,
    signal: AbortSignal,
  ): Promise<HttpAnswer> {
    const sent: Record<string, string> = {
      ...headers,
      'accept-encoding': 'identity',
      'user-agent': 'sluice',
    };
    if (credentials !== null && credentials.origin === url.origin) {
      sent['authorization'] = `Bearer ${credentials.token.reveal()}`;
    }
    // The dispatcher's own timers tick once a second and do not see every proxy's connection; this one does.
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(), this.#times.connectMs + this.#times.answerMs);
    try {
      const { statusCode, headers, body } = await request(url, {
        method,
        headers: sent,
        dispatcher: this.#dispatcher,
        signal: AbortSignal.any([signal, late.signal]),
      });
      return { status: statusCode, headers: single(headers), body, url };
    } catch (error) {
      signal.throwIfAborted();
      const reason = late.signal.aborted ? 'no response in time' : reasonOf(error);
      throw new PullError('source_failed', `${url.host} cannot be reached: ${reason}`, { cause: error });
    } finally {
      clearTimeout(timer);
    }
  }
}

function redirectTarget(answer: HttpAnswer): URL | null {
  const location = answer.headers['location'];
  if (![301, 302, 303, 307, 308].includes(answer.status) || location === undefined) return null;
  if (!URL.canParse(location, answer.url)) return null;
  return new URL(location, answer.url);
}

function single(headers: Record<string, string | string[] | undefined>): Record<string, string | undefined> {
  const entries = Object.entries(headers).map(([name, value]) => [
    name,
    Array.isArray(value) ? value[0] : value,
  ]);
  return Object.fromEntries(entries);
}
