import assert from 'node:assert/strict';
import { createKey } from '../src/accounts/key-table.ts';
import { openDatabase } from '../src/database/database.ts';
import { Secret } from '../src/secret.ts';
import type { ServiceProcess, TestService } from './harness.ts';

/** A key of an account, with the ids of both. */
export interface Caller {
  /** The key itself. */
  key: string;
  keyId: string;
  accountId: string;
}

/** Makes callers and changes them over `/api`, of a service in this process or another. */
export class Management {
  readonly url: string;
  /** An admin's key. */
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
    await using database = await openDatabase({ home, url: at === undefined ? null : new Secret(at) });
    const { key } = await createKey(database, { name: 'admin', kind: 'admin' });
    return new Management(url, key.reveal());
  }

  /** What an endpoint answers; any other status than 200 and 201 fails. */
  async call(method: string, path: string, body?: object): Promise<Record<string, unknown>> {
    const answer = await fetch(this.url + path, {
      method,
      headers: { authorization: `Bearer ${this.admin}` },
      ...(body && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${answer.status} ${text}`);
    // Every answer of the management interface is an object.
    return JSON.parse(text) as Record<string, unknown>;
  }

  /** A key of a new account on this plan; null: the default one. `fields` are those of `POST /api/keys`. */
  async caller(plan: string | null = null, fields: object = {}): Promise<Caller> {
    const account = await this.call('POST', '/api/accounts', { name: plan ?? 'account', plan });
    return await this.key(String(account.id), fields);
  }

  /** Another key of an account. */
  async key(accountId: string, fields: object = {}): Promise<Caller> {
    const made = await this.call('POST', '/api/keys', { name: 'key', account_id: accountId, ...fields });
    return { key: String(made.key), keyId: String(made.id), accountId };
  }

  /** What the ledger has of a request; null while it has none. */
  async receipt(id: string): Promise<Receipt | null> {
    const headers = { authorization: `Bearer ${this.admin}` };
    const answer = await fetch(`${this.url}/api/receipts/${id}`, { headers });
    const body: unknown = await answer.json();
    return answer.ok ? (body as Receipt) : null;
  }
}

/** The fields of a receipt that tests read. */
export interface Receipt {
  request: {
    state: 'open' | 'settled' | 'interrupted';
    error_code: string | null;
    http_status: number | null;
    prompt_tokens: number;
    completion_tokens: number;
    cost_usd: string;
    billed: boolean;
  };
}
