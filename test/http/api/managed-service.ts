import type { ModelInput } from '../../../src/inference/model-input.ts';
import assert from 'node:assert/strict';
import { API_ENDPOINTS } from '../../../src/http/api/endpoints.ts';
import type { Endpoint } from '../../../src/http/api/endpoint.ts';
import { MODEL, startService, type TestService } from '../../harness.ts';
import type { TestDatabases } from '../../support/servers.ts';

export interface ApiResponse {
  status: number;
  headers: Headers;
  body: ResponseBody;
}

/** All fields that tests read. `call` compares each response with its schema. */
export interface ResponseBody
  extends Readonly<Record<TextField, string>>, Readonly<Record<NumberField, number>> {
  data: ResponseBody[];
  next_cursor: string | null;
  error: { message: string; code: string; param: string | null };
  plan: string | null;
  last_used_at: string | null;
  previous: object | null;
  limits: unknown;
  allowed_models: string[] | null;
  user: ResponseBody;
  detail: object;
  request: ResponseBody;
  model_input: ModelInput;
  cost: object[];
  price: object;
  billed: boolean;
  strict: boolean;
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
      | 'client'
      | 'member_id'
      | 'tag'
      | 'last_used_client'
      | 'last_used_ip'
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
  | ('link' | 'started_at' | 'finish_reason' | 'day' | 'scope' | 'limit' | 'resets_at')
  | ('key_name' | 'account_name' | 'actor_name' | 'subject_name');
type NumberField =
  | ('accounts' | 'prompt_tokens' | 'completion_tokens' | 'total_tokens' | 'http_status' | 'retries')
  | ('requests' | 'billed_tokens');

export interface CallOptions {
  /** Default: an `admin` key; null: none. */
  key?: string | null;
  /** Sent as JSON unless it is a string. */
  body?: unknown;
  headers?: Record<string, string>;
}

/** A service and a client of its management API. */
export interface ManagedService extends AsyncDisposable {
  test: TestService;
  /** An `admin` key. */
  admin: string;
  /** Gives commands the same database. */
  env: NodeJS.ProcessEnv;
  /** Calls the management API, and asserts that a successful response matches its schema. */
  call(method: string, path: string, options?: CallOptions): Promise<ApiResponse>;
  /** Like `call`, and asserts success. */
  ok(method: string, path: string, options?: CallOptions): Promise<ResponseBody>;
  /** Requests a short completion. */
  generate(
    key: string,
    headers?: Record<string, string>,
    content?: string,
    fields?: object,
  ): Promise<Response>;
  /** Starts a long stream, and resolves at its first bytes. */
  stream(key: string): Promise<{ requestId: string; disconnect(): Promise<void> }>;
  /** Endpoints that were called successfully, such as `GET /api/accounts/{id}`. */
  called: Set<string>;
}

/** A model with long, slow completions. */
const SLOW_MODEL = 'test/slow';

/** Two prompt tokens cost a dollar, and so does one completion token. */
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

export async function startManagedService(kind: TestDatabases): Promise<ManagedService> {
  await using owned = new AsyncDisposableStack();
  const { home, url } = owned.use(await kind.location());
  const env = { SLUICE_HOME: home, ...(url && { SLUICE_DATABASE_URL: url.reveal() }) };
  const test = owned.use(await startService(YAML, env));
  const { key } = await test.service.keys.create({ name: 'admin', kind: 'admin' });
  const admin = key.reveal();
  const called = new Set<string>();
  const call = async (method: string, path: string, options: CallOptions = {}): Promise<ApiResponse> => {
    const { key = admin, body } = options;
    const response = await fetch(test.url + path, {
      method,
      headers: { ...(key !== null && { authorization: `Bearer ${key}` }), ...options.headers },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    // Responses to HEAD and OPTIONS have no body.
    const read = (text === '' ? null : JSON.parse(text)) as ResponseBody;
    if (response.status < 300 && text !== '') {
      const endpoint = endpointOf(method, path);
      assert.equal(response.status, endpoint.status);
      assert.deepEqual(endpoint.response?.parse(read), read, `${method} ${path} does not match its schema`);
      called.add(`${endpoint.method} ${endpoint.path}`);
    }
    return { status: response.status, headers: response.headers, body: read };
  };
  const disposal = owned.move();
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
    generate: (key, headers = {}, content = 'hello', fields = {}) =>
      fetch(`${test.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, ...headers },
        body: JSON.stringify({
          model: MODEL,
          messages: [{ role: 'user', content }],
          max_tokens: 5,
          ...fields,
        }),
      }),
    async stream(key) {
      const abort = new AbortController();
      const response = await fetch(`${test.url}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}` },
        body: JSON.stringify({
          model: SLOW_MODEL,
          messages: [{ role: 'user', content: 'hello' }],
          stream: true,
        }),
        signal: abort.signal,
      });
      const reader = response.body?.getReader();
      assert.equal((await reader?.read())?.done, false, String(response.status));
      return {
        requestId: response.headers.get('x-request-id') ?? '',
        async disconnect() {
          abort.abort();
          await reader?.closed.catch(() => {});
        },
      };
    },
    called,
    [Symbol.asyncDispose]: () => disposal.disposeAsync(),
  };
}

/** Returns the first element of a list, which must not be empty. */
export function first(list: readonly ResponseBody[]): ResponseBody {
  const [element] = list;
  assert.ok(element);
  return element;
}

/** Asserts that a response is this error. */
export function assertRefused(
  response: ApiResponse,
  status: number,
  code: string,
  param: string | null = null,
  request = '',
): void {
  const { error } = response.body;
  const seen = [response.status, error.code, error.param];
  assert.deepEqual(seen, [status, code, param], `${request}: ${error.message}`);
  assert.deepEqual(Object.keys(error), ['message', 'type', 'param', 'code']);
  // Messages end with a period, or with a question mark if they suggest a name.
  assert.match(error.message, /[.?]$/);
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
