import assert from 'node:assert/strict';
import { openDatabase, type Database } from '../../src/database/database.ts';
import type { Contract } from '../../src/http/api/contract.ts';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import type { PasswordHasher } from '../../src/identity/password.ts';
import { createSetupLink } from '../../src/identity/setup.ts';
import { totpCode, totpStep } from '../../src/identity/totp.ts';
import { scriptedYaml, startService, type TestService } from '../harness.ts';
import type { TestDatabases, TestPlace } from '../servers.ts';

/** A service whose people sign in, and the database that it stands on. */
export interface Place extends AsyncDisposable {
  test: TestService;
  database: Database;
  /** A browser without cookies, from an address of the network of its own. */
  browser(): Browser;
  /** One in which the first operator is signed in. */
  operator(): Promise<Browser>;
  /** Actions of the audit log, the oldest first, as `action subject`. */
  audit(): Promise<string[]>;
}

export const OPERATOR = { name: 'Olga', email: 'olga@example.com', password: 'correct horse battery' };

export interface PlaceOptions {
  /** Of the configuration, beside the model. */
  yaml?: string;
  env?: NodeJS.ProcessEnv;
  passwords?: PasswordHasher;
}

/** Starts a service behind a trusted proxy, so that each browser can have an address of its own. */
export async function startPlace(kind: TestDatabases, options: PlaceOptions = {}): Promise<Place> {
  await using owned = new AsyncDisposableStack();
  const at: TestPlace = owned.use(await kind.place());
  const yaml = scriptedYaml({}, `trustedProxies: ['127.0.0.1']\n${options.yaml ?? ''}`);
  const test = owned.use(
    await startService(yaml, { ...at.env, ...options.env }, undefined, options.passwords),
  );
  const database = owned.use(await openDatabase(at));
  let browsers = 0;
  const browser = () => new Browser(test.service.localUrl, `192.0.2.${++browsers}`);
  const kept = owned.move();
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
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** What stands behind the `#` of a link. */
export function tokenOf(link: string): string {
  return new URL(link).hash.slice(1);
}

/** A code of an authenticator app that was given this address, so many steps of 30 seconds from now. */
export function appCode(uri: string, steps = 0): string {
  const secret = new URL(uri).searchParams.get('secret');
  assert.ok(secret);
  return totpCode(secret, totpStep(Date.now()) + steps);
}

interface Parts {
  params?: Record<string, string>;
  query?: Record<string, string>;
  body?: unknown;
  headers?: Record<string, string>;
}

export interface Answered {
  status: number;
  code: string | null;
  param: string | null;
  headers: Headers;
  body: unknown;
}

/** Keeps cookies and says which page asks, as a browser does. */
export class Browser {
  readonly url: string;
  readonly ip: string;
  readonly cookies = new Map<string, string>();

  constructor(url: string, ip: string) {
    this.url = url;
    this.ip = ip;
  }

  /** Calls an operation; an answer that is not as its schema says fails. */
  async call(operationId: keyof Contract, parts: Parts = {}): Promise<Answered> {
    const endpoint = API_ENDPOINTS.find((one) => one.operationId === operationId);
    assert.ok(endpoint, operationId);
    const path = endpoint.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => parts.params?.[name] ?? '');
    const query = new URLSearchParams(parts.query).toString();
    const answer = await this.fetch(endpoint.method, query === '' ? path : `${path}?${query}`, parts);
    const text = await answer.text();
    const body =
      text === '' ? null : (JSON.parse(text) as { error?: { code: string; param: string | null } });
    if (answer.status < 300) assert.deepEqual(endpoint.response?.parse(body), body);
    return {
      status: answer.status,
      code: body?.error?.code ?? null,
      param: body?.error?.param ?? null,
      headers: answer.headers,
      body,
    };
  }

  /** As `call`, and fails where it does not go well. */
  async ok<Id extends keyof Contract>(operationId: Id, parts: Parts = {}): Promise<Contract[Id]['response']> {
    const { status, body } = await this.call(operationId, parts);
    assert.ok(status < 300, `${operationId}: ${status} ${JSON.stringify(body)}`);
    return body as Contract[Id]['response']; // `call` has compared it with the schema.
  }

  /** Fetches without following, with its cookies and those that come back. */
  async fetch(method: string, path: string, { body, headers = {} }: Parts = {}): Promise<Response> {
    const cookie = [...this.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const answer = await fetch(new URL(path, this.url), {
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
    for (const set of answer.headers.getSetCookie()) this.#keep(set);
    return answer;
  }

  #keep(set: string): void {
    const [pair = '', ...attributes] = set.split(/; */);
    const at = pair.indexOf('=');
    const name = pair.slice(0, at);
    if (attributes.some((one) => one.toLowerCase() === 'max-age=0')) this.cookies.delete(name);
    else this.cookies.set(name, pair.slice(at + 1));
  }
}
