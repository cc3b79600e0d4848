import { ACTION_LABELS, ROUTES, USAGE_COUNTS, type Contract } from '../../../src/http/api/contract.ts';

export { ACTION_LABELS, USAGE_COUNTS };

/** The name of a management API endpoint. */
export type Operation = keyof Contract;
/** Response body of an endpoint. */
export type ResponseOf<Op extends Operation> = Contract[Op]['response'];
/** An element of the list that an endpoint returns. */
export type ItemOf<Op extends Operation> =
  ResponseOf<Op> extends { data: readonly (infer One)[] } ? One : never;

/** The request parts that an endpoint accepts. */
type PartOf<Op extends Operation> = {
  [Part in 'params' | 'query' | 'body']: Contract[Op][Part] extends undefined
    ? never
    : keyof Contract[Op][Part] extends never
      ? never
      : Part;
}['params' | 'query' | 'body'];

/** Arguments of an endpoint: path parameters, query and body. */
export type Arguments<Op extends Operation> = { [Part in PartOf<Op>]: Contract[Op][Part] };

/** An error response of the service, or a failed connection. */
export class ApiError extends Error {
  /** HTTP status; 0: no response. */
  readonly status: number;
  /** Code from docs/errors.md; `unreachable`: no response; `timeout`: no response in time. */
  readonly code: string;
  /** API name of the invalid field. */
  readonly param: string | null;
  readonly requestId: string | null;
  /** Milliseconds to wait before a retry. */
  readonly retryAfterMs: number | null;

  constructor(
    message: string,
    fields: Pick<ApiError, 'status' | 'code'> &
      Partial<Pick<ApiError, 'param' | 'requestId' | 'retryAfterMs' | 'cause'>>,
  ) {
    super(message, { cause: fields.cause });
    this.name = 'ApiError';
    this.status = fields.status;
    this.code = fields.code;
    this.param = fields.param ?? null;
    this.requestId = fields.requestId ?? null;
    this.retryAfterMs = fields.retryAfterMs ?? null;
  }
}

interface Parts {
  params?: Readonly<Record<string, string>>;
  query?: Readonly<Record<string, string | number | boolean | null | undefined>>;
  body?: unknown;
}

/**
 * Calls a management API endpoint as the signed-in user. Rejects with an `ApiError`, or with the signal's reason. Only
 * reads have a timeout, in milliseconds: the result of a change must not be lost.
 */
export async function call<Op extends Operation>(
  operation: Op,
  given: Arguments<Op> | undefined,
  signal?: AbortSignal,
  readTimeoutMs = 20_000,
): Promise<ResponseOf<Op>> {
  const [method = '', path = ''] = ROUTES[operation].split(' ');
  // The compiler cannot resolve the conditional types above for a generic operation.
  const { params, query, body } = (given ?? {}) as Parts;
  const timeout = method === 'GET' ? AbortSignal.timeout(readTimeoutMs) : undefined;
  try {
    const response = await fetch(addressOf(path, params, query), {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      signal: AbortSignal.any([signal, timeout].filter((one) => one !== undefined)),
      credentials: 'same-origin',
    });
    if (!response.ok) throw await faultOf(response);
    return (await response.json()) as ResponseOf<Op>; // The service's tests compare its responses with the contract.
  } catch (error) {
    signal?.throwIfAborted();
    if (timeout?.aborted) throw timedOut(readTimeoutMs, error);
    if (!(error instanceof ApiError)) throw unreachable(error);
    throw isSessionEnd(error) ? sessionEnded(error) : error;
  }
}

export interface PageOf<T> {
  data: T[];
  next_cursor: string | null;
}

/** The endpoints that return a list in pages. */
export type Paged = { [Op in Operation]: ResponseOf<Op> extends PageOf<unknown> ? Op : never }[Operation];

/** Calls an endpoint for one page of its list. `cursor` null: the first page. */
export async function callPage<Op extends Paged>(
  operation: Op,
  given: Arguments<Op> | undefined,
  cursor: string | null,
  signal?: AbortSignal,
): Promise<PageOf<ItemOf<Op>>> {
  const { query, ...rest } = (given ?? {}) as Parts;
  const page = { ...rest, query: { ...query, cursor } };
  // `Paged` has only lists.
  return (await call(operation, page as unknown as Arguments<Op>, signal)) as unknown as PageOf<ItemOf<Op>>;
}

/** Calls an endpoint for all pages of its list. Rejects like `call`. */
export async function callAll<Op extends Paged>(
  operation: Op,
  given: Arguments<Op> | undefined,
  signal?: AbortSignal,
): Promise<ItemOf<Op>[]> {
  const items: ItemOf<Op>[] = [];
  let cursor: string | null = null;
  do {
    const page: PageOf<ItemOf<Op>> = await callPage(operation, given, cursor, signal);
    // Not `push(...data)`, whose arguments would be too many for the stack.
    for (const item of page.data) items.push(item);
    cursor = page.next_cursor;
  } while (cursor !== null);
  return items;
}

/** Whether the service refused a request because it had no valid session. */
export const isSessionEnd = ({ status, code }: ApiError): boolean =>
  status === 401 && (code === 'invalid_api_key' || code === 'sign_in_required');

/**
 * Whether it is unknown if the service made a change: there was no response, or a proxy reported that it got none.
 */
export const isOutcomeUnknown = ({ status, code }: ApiError): boolean =>
  status === 0 || (status >= 500 && code === 'unreadable');

/** The error of a request without a session. The service's own message is about API keys. */
export function sessionEnded(refusal?: ApiError): ApiError {
  const { status, code, requestId, cause } = refusal ?? { status: 401, code: 'sign_in_required' };
  return new ApiError('Your session has ended. Sign in again.', { status, code, requestId, cause });
}

function addressOf(path: string, params: Parts['params'], query: Parts['query']): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params?.[name] ?? ''));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) search.set(name, String(value));
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

/** The error of a request that got no response. */
export function unreachable(cause: unknown): ApiError {
  return new ApiError('Could not reach the service. Check your connection and that the service is running.', {
    status: 0,
    code: 'unreachable',
    cause,
  });
}

function timedOut(afterMs: number, cause: unknown): ApiError {
  return new ApiError(`The service did not respond within ${afterMs / 1000} seconds. Try again.`, {
    status: 0,
    code: 'timeout',
    cause,
  });
}

/** Reads an error response. Responses that are not from the service, such as a proxy's error page, get the code `unreadable`. */
export async function faultOf(response: Response): Promise<ApiError> {
  const requestId = response.headers.get('x-request-id');
  const wait = Number(response.headers.get('retry-after-ms') ?? NaN);
  const retryAfterMs = Number.isFinite(wait) ? wait : null;
  const { status } = response;
  try {
    const { error } = (await response.json()) as {
      error: { message: string; code: string; param?: string | null };
    };
    return new ApiError(error.message, {
      status,
      code: error.code,
      param: error.param ?? null,
      requestId,
      retryAfterMs,
    });
  } catch {
    return new ApiError(`The server returned HTTP ${status} without an error message.`, {
      status,
      code: 'unreadable',
      requestId,
      retryAfterMs,
    });
  }
}
