import assert from 'node:assert/strict';
import { Secret } from '../src/support/secret.ts';
import type { ServiceProcess, TestService } from './harness.ts';

/** A key of an account. */
export interface Caller {
  key: string;
  keyId: string;
  accountId: string;
}

/** A client of the management API, with an admin key. */
export class Management {
  readonly url: string;
  /** The admin key. */
  readonly admin: string;

  constructor(url: string, admin: string) {
    this.url = url;
    this.admin = admin;
  }

  static async of({ service, url }: Pick<TestService, 'service' | 'url'>): Promise<Management> {
    const { key } = await service.keys.create({ name: 'admin', kind: 'admin' });
    return new Management(url, key.reveal());
  }

  static async ofProcess({ url, env }: ServiceProcess): Promise<Management> {
    const { SLUICE_DATABASE_URL: at, SLUICE_HOME: home = '' } = env;
    // Loaded on first use, because other test files do not need it.
    const [{ createKey }, { openDatabase }] = await Promise.all([
      import('../src/accounts/key-table.ts'),
      import('../src/database/database.ts'),
    ]);
    await using database = await openDatabase({ home, url: at === undefined ? null : new Secret(at) });
    const { key } = await createKey(database, { name: 'admin', kind: 'admin' });
    return new Management(url, key.reveal());
  }

  /** Calls an endpoint and resolves with the response body. Fails unless the status is 2xx. */
  async call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const response = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.admin}` },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await response.text();
    assert.ok(response.ok, `${method} ${path}: ${response.status} ${text}`);
    // All responses of the management API are objects.
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** Creates an account on this plan (null: the default plan) and a key with these fields of `POST /api/keys`. */
  async caller(plan: string | null = null, fields: object = {}): Promise<Caller> {
    const account = await this.call('POST', '/api/accounts', { name: plan ?? 'account', plan });
    return await this.key(String(account.id), fields);
  }

  /** Creates another key of an account. */
  async key(accountId: string, fields: object = {}): Promise<Caller> {
    const { key, id } = await this.call('POST', '/api/keys', {
      name: 'key',
      account_id: accountId,
      ...fields,
    });
    return { key: String(key), keyId: String(id), accountId };
  }

  /** Resolves with the receipt of a request, or null if the ledger has no row. */
  async receipt(id: string): Promise<Receipt | null> {
    const headers = { authorization: `Bearer ${this.admin}` };
    const response = await fetch(`${this.url}/api/receipts/${id}`, { headers });
    const body: unknown = await response.json();
    if (response.status === 404) return null;
    assert.ok(response.ok, `the receipt of ${id}: ${response.status} ${JSON.stringify(body)}`);
    return body as Receipt;
  }
}

/** The fields of a receipt that tests read. */
export interface Receipt {
  request: {
    state: 'open' | 'settled' | 'interrupted';
    model: string;
    error_code: string | null;
    http_status: number | null;
    prompt_tokens: number;
    completion_tokens: number;
    cost_usd: string;
    billed: boolean;
  };
}
