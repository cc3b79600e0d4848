import assert from 'node:assert/strict';
import { openDatabase, type Database } from '../../src/database/database.ts';
import type { Contract } from '../../src/http/api/contract.ts';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import type { PasswordHasher } from '../../src/identity/password.ts';
import { createSetupLink } from '../../src/identity/setup.ts';
import { totpCode, totpStep } from '../../src/identity/second-factor.ts';
import { scriptedYaml, startService, type TestService } from '../harness.ts';
import type { TestDatabases, TestLocation } from '../support/servers.ts';

/** A service with its database, and browsers that sign in. */
export interface IdentityFixture extends AsyncDisposable {
  test: TestService;
  database: Database;
  /** Opens a browser without cookies, with its own IP address. */
  browser(): Browser;
  /** Opens a browser in which the first operator is signed in. */
  operator(): Promise<Browser>;
  /** Returns the audit log, oldest first, as `action subject`. */
  audit(): Promise<string[]>;
}

export const OPERATOR = { name: 'Olga', email: 'olga@example.com', password: 'correct horse battery' };

interface FixtureOptions {
  /** Configuration in addition to the model. */
  yaml?: string;
  env?: NodeJS.ProcessEnv;
  passwords?: PasswordHasher;
}

/** Starts a service behind a trusted proxy, so that each browser can have its own IP address. */
export async function startIdentityFixture(
  kind: TestDatabases,
  options: FixtureOptions = {},
): Promise<IdentityFixture> {
  await using owned = new AsyncDisposableStack();
  const location: TestLocation = owned.use(await kind.location());
  const yaml = scriptedYaml({}, `trustedProxies: ['127.0.0.1']\n${options.yaml ?? ''}`);
  const test = owned.use(
    await startService(yaml, { ...location.env, ...options.env }, { passwords: options.passwords }),
  );
  const database = owned.use(await openDatabase(location));
  let browsers = 0;
  const browser = () => new Browser(test.service.localUrl, `192.0.2.${++browsers}`);
  const disposal = owned.move();
  return {
    test,
    database,
    browser,
    async operator() {
      const opened = browser();
      const link = await createSetupLink(database, test.url);
      assert.ok(link);
      await opened.ok('setUp', { body: { token: tokenOf(link), ...OPERATOR } });
      return opened;
    },
    async audit() {
      const rows = await database.kysely.selectFrom('audit').selectAll().orderBy('id').execute();
      return rows.map(({ action, subject }) => `${action} ${subject}`);
    },
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

/** Returns the fragment of a link. */
export function tokenOf(link: string): string {
  return new URL(link).hash.slice(1);
}

/** Returns the code of an authenticator app, `steps` times 30 seconds from now. */
export function appCode(uri: string, steps = 0): string {
  const secret = new URL(uri).searchParams.get('secret');
  assert.ok(secret);
  return totpCode(secret, totpStep(Date.now()) + steps);
}

interface RequestParts {
  params?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface BrowserResponse {
  status: number;
  code: string | null;
  param: string | null;
  headers: Headers;
  body: unknown;
}

/** Stores cookies and sends an `Origin`, as a browser does. */
export class Browser {
  readonly url: string;
  readonly ip: string;
  readonly cookies = new Map<string, string>();

  constructor(url: string, ip: string) {
    this.url = url;
    this.ip = ip;
  }

  /** Calls an operation, and asserts that a successful response matches its schema. */
  async call(operationId: keyof Contract, parts: RequestParts = {}): Promise<BrowserResponse> {
    const endpoint = API_ENDPOINTS.find((endpoint) => endpoint.operationId === operationId);
    assert.ok(endpoint, operationId);
    const path = endpoint.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => parts.params?.[name] ?? '');
    const query = new URLSearchParams(parts.query).toString();
    const response = await this.fetch(endpoint.method, query === '' ? path : `${path}?${query}`, parts);
    const text = await response.text();
    const body =
      text === '' ? null : (JSON.parse(text) as { error?: { code: string; param: string | null } });
    if (response.status < 300) assert.deepEqual(endpoint.response?.parse(body), body);
    return {
      status: response.status,
      code: body?.error?.code ?? null,
      param: body?.error?.param ?? null,
      headers: response.headers,
      body,
    };
  }

  /** Like `call`, and asserts success. */
  async ok<Id extends keyof Contract>(
    operationId: Id,
    parts: RequestParts = {},
  ): Promise<Contract[Id]['response']> {
    const { status, body } = await this.call(operationId, parts);
    assert.ok(status < 300, `${operationId}: ${status} ${JSON.stringify(body)}`);
    return body as Contract[Id]['response']; // `call` validates it.
  }

  /** Fetches without following redirects, and stores cookies. */
  async fetch(method: string, path: string, { body, headers = {} }: RequestParts = {}): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const response = await fetch(new URL(path, this.url), {
      method,
      redirect: 'manual',
      headers: {
        'x-forwarded-for': this.ip,
        'user-agent': 'Test/1.0',
        ...(cookie !== '' && { cookie }),
        ...(method !== 'GET' && { origin: new URL(this.url).origin }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    for (const set of response.headers.getSetCookie()) this.#store(set);
    return response;
  }

  #store(set: string): void {
    const [pair = '', ...attributes] = set.split(/; */);
    const at = pair.indexOf('=');
    const name = pair.slice(0, at);
    if (attributes.some((attribute) => attribute.toLowerCase() === 'max-age=0')) this.cookies.delete(name);
    else this.cookies.set(name, pair.slice(at + 1));
  }
}
