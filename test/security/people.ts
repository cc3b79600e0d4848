/** People who call the management interface as a browser does, cookies and all, without one. */
import assert from 'node:assert/strict';
import type { OpenedService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';

interface Sent {
  /** As JSON. */
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answered {
  status: number;
  headers: Headers;
  text: string;
  /** The fields of the body; empty where it is no JSON. */
  body: Record<string, unknown>;
  /** Code of the error; null: there is none. */
  code: string | null;
}

/** A jar of cookies. Its calls come from the console's own origin unless they say otherwise. */
export class Browser {
  readonly url: string;
  readonly cookies = new Map<string, string>();
  /** Every `set-cookie` that came, the newest last. */
  readonly setCookies: string[] = [];

  constructor(url: string) {
    this.url = url;
  }

  async call(method: string, path: string, { body, headers = {} }: Sent = {}): Promise<Answered> {
    const answer = await fetch(this.url + path, {
      method,
      redirect: 'manual',
      headers: {
        ...(this.cookies.size > 0 && { cookie: this.cookieHeader }),
        ...(method !== 'GET' && { origin: this.url }),
        ...headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    for (const line of answer.headers.getSetCookie()) this.#keep(line);
    const text = await answer.text();
    const isJson = answer.headers.get('content-type')?.includes('json') === true && text !== '';
    // Every answer of the management interface is an object.
    const read = (isJson ? JSON.parse(text) : {}) as Answered['body'] & { error?: { code: string } };
    return {
      status: answer.status,
      headers: answer.headers,
      text,
      body: read,
      code: read.error?.code ?? null,
    };
  }

  /** As `call`; anything but 2xx fails. */
  async ok(method: string, path: string, sent?: Sent): Promise<Answered> {
    const answer = await this.call(method, path, sent);
    assert.ok(
      answer.status >= 200 && answer.status < 300,
      `${method} ${path}: ${answer.status} ${answer.text}`,
    );
    return answer;
  }

  get cookieHeader(): string {
    return [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  }

  /** Whether these cookies are somebody's. */
  async isSignedIn(): Promise<boolean> {
    return (await this.ok('GET', '/api/session')).body.person !== null;
  }

  /** Another browser with the cookies that this one has now. */
  copy(): Browser {
    const copy = new Browser(this.url);
    for (const [name, value] of this.cookies) copy.cookies.set(name, value);
    return copy;
  }

  #keep(line: string): void {
    this.setCookies.push(line);
    const [pair = '', ...attributes] = line.split('; ');
    const at = pair.indexOf('=');
    const [name, value] = [pair.slice(0, at), pair.slice(at + 1)];
    if (value === '' || attributes.some((one) => /^max-age=0$/i.test(one))) this.cookies.delete(name);
    else this.cookies.set(name, value);
  }
}

/** The first operator, signed in. */
export async function firstOperator(service: Pick<OpenedService, 'home' | 'url'>): Promise<Browser> {
  const browser = new Browser(service.url);
  await browser.ok('POST', '/api/setup', { body: { token: await setupToken(service), ...OPERATOR } });
  return browser;
}

/** Signs in with a password, in a browser of its own. */
export async function signIn(
  url: string,
  { email, password }: { email: string; password: string } = OPERATOR,
): Promise<Browser> {
  const browser = new Browser(url);
  await browser.ok('POST', '/api/sign-in', { body: { email, password } });
  return browser;
}
