import assert from 'node:assert/strict';
import { API_ENDPOINTS } from '../../../src/http/api/endpoints.ts';
import type { Endpoint } from '../../../src/http/api/endpoint.ts';
import { MODEL, startService, type TestService } from '../../harness.ts';
import type { TestDatabases } from '../../servers.ts';

export interface Answer {
  status: number;
  headers: Headers;
  body: Told;
}

/** The fields of all answers that tests read; which of them an answer has, its schema says and `call` compares. */
export interface Told extends Readonly<Record<TextField, string>>, Readonly<Record<NumberField, number>> {
  data: Told[];
  next_cursor: string | null;
  error: { message: string; code: string; param: string | null };
  plan: string | null;
  last_used_at: string | null;
  limits: unknown;
  allowed_models: string[] | null;
  person: Told;
  detail: object;
  request: Told;
  cost: object[];
  price: object;
  billed: boolean;
  interrupted: boolean;
  mailed: boolean;
  ttft_ms: { p50: number; p95: number };
  bound: number | string;
  used: number | string;
  last_minute: { used: number; bound: number } | null;
}

type TextField =
  | (
      | 'id'
      | 'account_id'
      | 'key_id'
      | 'client_request_id'
      | 'name'
      | 'status'
      | 'created_at'
      | 'email'
      | 'role'
    )
  | (
      | 'key'
      | 'kind'
      | 'expires_at'
      | 'revoked_at'
      | 'actor'
      | 'ip'
      | 'subject'
      | 'model'
      | 'state'
      | 'cost_usd'
    )
  | ('link' | 'started_at' | 'finish_reason' | 'day' | 'scope' | 'limit' | 'resets_at');
type NumberField =
  | ('accounts' | 'prompt_tokens' | 'completion_tokens' | 'total_tokens' | 'http_status' | 'retries')
  | ('requests' | 'billed_tokens');

export interface CallOptions {
  /** An admin's unless said otherwise; null: none. */
  key?: string | null;
  /** Sent as JSON, or as it is where it is a string. */
  body?: unknown;
  headers?: Record<string, string>;
}

/** A service with an admin's key, to be managed over HTTP. */
export interface Managed extends AsyncDisposable {
  test: TestService;
  /** An admin's key. */
  admin: string;
  /** With these a command finds the same database. */
  env: NodeJS.ProcessEnv;
  /** Calls the management interface; an answer that is not as its schema says fails. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>;
  /** As `call`, and fails with the body where the status is another one. */
  ok(method: string, path: string, options?: CallOptions): Promise<Told>;
  /** Has the model say something. */
  generate(key: string, headers?: Record<string, string>): Promise<Response>;
  /** Has the model say much, as a stream of which the first bytes have come. */
  stream(key: string): Promise<{ requestId: string; hangUp(): Promise<void> }>;
  /** `GET /api/accounts/{id}` and the like, for every endpoint that has answered well. */
  answered: Set<string>;
}

/** A model that says much, and slowly. */
const SLOW_MODEL = 'test/slow';

/** Two tokens of prompt cost a dollar, and so does one of an answer. */
const YAML = `
models:
  - id: ${MODEL}
    required: true
    engine:
      file: 'scripted:${JSON.stringify({ tokens: 8 })}'
    pricing:
      prompt: '500000'
      completion: '1000000'
  - id: ${SLOW_MODEL}
    required: true
    engine:
      file: 'scripted:${JSON.stringify({ tokens: 100_000, tokenMs: 10 })}'
plans:
  free: { requestsPerMinute: 1000, models: { ${MODEL}: { usdPerMonth: '100000' } } }
  tiny: { tokensPerDay: 1 }
  big: {}
defaultPlan: big
`;

export async function startManaged(kind: TestDatabases): Promise<Managed> {
  await using owned = new AsyncDisposableStack();
  const { home, url } = owned.use(await kind.place());
  const env = { SLUICE_HOME: home, ...(url && { SLUICE_DATABASE_URL: url.reveal() }) };
  const test = owned.use(await startService(YAML, env));
  const { key } = await test.service.keys.create({ name: 'admin', kind: 'admin' });
  const admin = key.reveal();
  const answered = new Set<string>();
  const call = async (method: string, path: string, options: CallOptions = {}): Promise<Answer> => {
    const { key = admin, body } = options;
    const answer = await fetch(test.url + path, {
      method,
      headers: { ...(key !== null && { authorization: `Bearer ${key}` }), ...options.headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await answer.text();
    // Of a HEAD and an OPTIONS nothing is read.
    const read = (text === '' ? null : JSON.parse(text)) as Told;
    if (answer.status < 300 && text !== '') {
      const endpoint = endpointOf(method, path);
      assert.equal(answer.status, endpoint.status);
      assert.deepEqual(endpoint.response?.parse(read), read, `${method} ${path} is not as its schema says`);
      answered.add(`${endpoint.method} ${endpoint.path}`);
    }
    return { status: answer.status, headers: answer.headers, body: read };
  };
  const kept = owned.move();
  return {
    test,
    admin,
    env,
    call,
    async ok(method, path, options) {
      const { status, body } = await call(method, path, options);
      assert.ok(status === 200 || status === 201, `${method} ${path}: ${status} ${JSON.stringify(body)}`);
      return body;
    },
    generate: (key, headers = {}) =>
      fetch(`${test.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, ...headers },
        body: JSON.stringify({ model: MODEL, messages: [{ role: 'user', content: 'hello' }], max_tokens: 5 }),
      }),
    async stream(key) {
      const gone = new AbortController();
      const answer = await fetch(`${test.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({
          model: SLOW_MODEL,
          messages: [{ role: 'user', content: 'hello' }],
          stream: true,
        }),
        signal: gone.signal,
      });
      const reader = answer.body?.getReader();
      assert.equal((await reader?.read())?.done, false, String(answer.status));
      return {
        requestId: answer.headers.get('x-request-id') ?? '',
        async hangUp() {
          gone.abort();
          await reader?.closed.catch(() => {});
        },
      };
    },
    answered,
    [Symbol.asyncDispose]: () => kept.disposeAsync(),
  };
}

/** The first of a list, which has to be there. */
export function first(list: readonly Told[]): Told {
  const [told] = list;
  assert.ok(told);
  return told;
}

/** Fails where the answer is not this error. */
export function refusedWith(answer: Answer, status: number, code: string, param: string | null = null): void {
  const { error } = answer.body;
  assert.deepEqual([answer.status, error.code, error.param], [status, code, param], error.message);
  assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code']);
  assert.match(error.message, /\.$/);
}

function endpointOf(method: string, path: string): Endpoint {
  const [bare = ''] = path.split('?');
  const found = API_ENDPOINTS.find(
    (endpoint) =>
      endpoint.method === method &&
      new RegExp(`^${endpoint.path.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(bare),
  );
  assert.ok(found, `${method} ${path}`);
  return found;
}
