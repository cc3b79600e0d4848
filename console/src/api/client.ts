import type { Contract } from '../../../src/http/api/contract.ts';
import { ROUTES } from './routes.ts';

/** The name of an endpoint of the management interface. */
export type Operation = keyof Contract;
/** What an endpoint answers. */
export type Answer<Op extends Operation> = Contract[Op]['answer'];
/** An element of the list that an endpoint answers. */
export type Element<Op extends Operation> = Answer<Op> extends { data: readonly (infer One)[] } ? One : never;

/** Those of its parts that an endpoint takes. */
type Taken<Op extends Operation> = {
  [Part in 'params' | 'query' | 'body']: Contract[Op][Part] extends undefined
    ? never
    : keyof Contract[Op][Part] extends never
      ? never
      : Part;
}['params' | 'query' | 'body'];

/** What an endpoint is called with: the parameters in its path, its query, its body. */
export type Arguments<Op extends Operation> = { [Part in Taken<Op>]: Contract[Op][Part] };

/** What the service said no with, or what kept it from answering. */
export class ApiError extends Error {
  /** HTTP status; 0: no answer came. */
  readonly status: number;
  /** Of the table in docs/errors.md; `unreachable` where no answer came. */
  readonly code: string;
  /** The field that is wrong, as the interface names it. */
  readonly param: string | null;
  readonly requestId: string | null;
  /** How long to wait before asking again, in milliseconds. */
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
 * Calls an endpoint of the management interface as the person who is signed in. Rejects with an `ApiError`, or with
 * the signal's reason.
 */
export async function call<Op extends Operation>(
  operation: Op,
  given: Arguments<Op> | undefined,
  signal?: AbortSignal,
): Promise<Answer<Op>> {
  const [method = '', path = ''] = ROUTES[operation].split(' ');
  // What the conditional types above say of each endpoint, the compiler cannot see for any of them.
  const { params, query, body } = (given ?? {}) as Parts;
  let response: Response;
  try {
    response = await fetch(addressOf(path, params, query), {
      method,
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? null : JSON.stringify(body),
      signal: signal ?? null,
      credentials: 'same-origin',
    });
  } catch (error) {
    signal?.throwIfAborted();
    throw new ApiError('The service does not answer.', { status: 0, code: 'unreachable', cause: error });
  }
  if (!response.ok) throw await faultOf(response);
  return (await response.json()) as Answer<Op>; // The service answers as its schema says.
}

function addressOf(path: string, params: Parts['params'], query: Parts['query']): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params?.[name] ?? ''));
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) search.set(name, String(value));
  }
  return search.size > 0 ? `${filled}?${search}` : filled;
}

/** Reads an answer that is no success. One that is not of the service, such as a proxy's page, has a code of its own. */
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
    return new ApiError(`The answer was ${status}, without a word why.`, {
      status,
      code: 'unreadable',
      requestId,
      retryAfterMs,
    });
  }
}
