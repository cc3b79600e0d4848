import assert from 'node:assert/strict';
import type { OpenedService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';

interface RequestParts {
  /** Sent as JSON unless it is a string. */
  body?: unknown;
  headers?: Record<string, string>;
}

export interface ClientResponse {
  status: number;
  headers: Headers;
  text: string;
  /** Empty if the body is not JSON. */
  body: Record<string, unknown>;
  /** Error code; null: none. */
  code: string | null;
}

/** A client of the management API with cookies. It sends the console's `Origin` by default. */
export class CookieClient {
  readonly url: string;
  readonly cookies = new Map<string, string>();
  /** All received `set-cookie` headers, oldest first. */
  readonly setCookies: string[] = [];

  constructor(url: string) {
    this.url = url;
  }

  async call(
    method: string,
    path: string,
    { body, headers = {} }: RequestParts = {},
  ): Promise<ClientResponse> {
    const response = await fetch(this.url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(this.cookies.size > 0 && { cookie: this.cookieHeader }),
        ...(method !== 'GET' && { origin: this.url }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    for (const line of response.headers.getSetCookie()) this.#store(line);
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json') === true && text !== '';
    // Every body of the management API is an object.
    const read = (isJson ? JSON.parse(text) : {}) as ClientResponse['body'] & { error?: { code: string } };
    return {
      status: response.status,
      headers: response.headers,
      text,
      body: read,
      code: read.error?.code ?? null,
    };
  }

  /** Like `call`, and asserts success. */
  async ok(method: string, path: string, sent?: RequestParts): Promise<ClientResponse> {
    const response = await this.call(method, path, sent);
    assert.ok(
      response.status >= 200 && response.status < 300,
      `${method} ${path}: ${response.status} ${response.text}`,
    );
    return response;
  }

  get cookieHeader(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  }

  async isSignedIn(): Promise<boolean> {
    return (await this.ok('GET', '/api/session')).body.user !== null;
  }

  /** Returns a client with the same cookies. */
  copy(): CookieClient {
    const copy = new CookieClient(this.url);
    for (const [name, value] of this.cookies) copy.cookies.set(name, value);
    return copy;
  }

  #store(line: string): void {
    this.setCookies.push(line);
    const [pair = '', ...attributes] = line.split('; ');
    const at = pair.indexOf('=');
    const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
    if (value === '' || attributes.some((attribute) => /^max-age=0$/i.test(attribute)))
      this.cookies.delete(name);
    else this.cookies.set(name, value);
  }
}

/** Creates the first operator and returns their signed-in client. */
export async function firstOperator(service: Pick<OpenedService, 'home' | 'url'>): Promise<CookieClient> {
  const browser = new CookieClient(service.url);
  await browser.ok('POST', '/api/setup', { body: { token: await setupToken(service), ...OPERATOR } });
  return browser;
}

/** Signs in with a password, in a new client. */
export async function signIn(
  url: string,
  { email, password }: { email: string; password: string } = OPERATOR,
): Promise<CookieClient> {
  const browser = new CookieClient(url);
  await browser.ok('POST', '/api/sign-in', { body: { email, password } });
  return browser;
}
