/**
 * The one table of errors: what a caller sees of a fault, and nothing else about it.
 * `docs/errors.md` holds the same rows, and a test compares the two.
 */
export const ERRORS = {
  invalid_json: [
    400,
    'invalid_request_error',
    'The body is not a JSON object, or has too many values or levels.',
  ],
  missing_required_parameter: [400, 'invalid_request_error', 'A field that must be there is missing.'],
  invalid_value: [400, 'invalid_request_error', 'A field has the right type and a value out of its bounds.'],
  invalid_type: [400, 'invalid_request_error', 'A field has the wrong type.'],
  unsupported_parameter: [
    400,
    'invalid_request_error',
    'A field that is unknown, or that the engine of this model cannot honour.',
  ],
  context_length_exceeded: [
    400,
    'invalid_request_error',
    'The prompt leaves no room for one token in the context of the model.',
  ],
  schema_too_slow: [
    400,
    'invalid_request_error',
    'Checking a token against the schema of `response_format` took too long.',
  ],
  request_crashed_engine: [
    400,
    'invalid_request_error',
    'The same request was running in two crashes of an engine; it is refused for 10 minutes.',
  ],
  invalid_api_key: [
    401,
    'authentication_error',
    'No key, or one that is malformed, unknown, revoked or expired.',
  ],
  sign_in_required: [401, 'authentication_error', 'Nobody is signed in, or the session has ended.'],
  wrong_credentials: [
    403,
    'permission_error',
    'The e-mail address and the password, or the code of the second factor, are not right.',
  ],
  fresh_sign_in_required: [
    403,
    'permission_error',
    'This takes a password, or for people without one a sign-in within the last 10 minutes.',
  ],
  model_not_allowed: [403, 'permission_error', 'The key may not use this model.'],
  admin_required: [
    403,
    'permission_error',
    'Managing the service takes a key of the kind `admin`, or a person who is an operator.',
  ],
  origin_not_allowed: [
    403,
    'permission_error',
    'A change without a key that a page of another address than the console asked for.',
  ],
  owner_required: [403, 'permission_error', 'This takes an owner of the account.'],
  model_not_found: [404, 'invalid_request_error', 'No model of that id is served here.'],
  not_found: [404, 'invalid_request_error', 'Nothing of that id is here, or not for this key.'],
  invalid_link: [
    404,
    'invalid_request_error',
    'A link of the console that is wrong, or was used, withdrawn or replaced, or has expired.',
  ],
  not_configured: [404, 'invalid_request_error', 'The service is not set up for this.'],
  unknown_url: [404, 'invalid_request_error', 'No endpoint has this path.'],
  method_not_allowed: [
    405,
    'invalid_request_error',
    'The endpoint does not have this method; `Allow` names those it has.',
  ],
  request_timeout: [408, 'invalid_request_error', 'The request did not arrive whole in time.'],
  last_operator: [409, 'invalid_request_error', 'The service would be left without an operator.'],
  conflict: [
    409,
    'invalid_request_error',
    'The current state does not allow this: a taken e-mail address, a closed account.',
  ],
  request_too_large: [413, 'invalid_request_error', 'The body is larger than `limits.bodyBytes`.'],
  unsupported_content_encoding: [415, 'invalid_request_error', 'The body is compressed.'],
  expectation_failed: [
    417,
    'invalid_request_error',
    'The `Expect` header asks for something other than `100-continue`.',
  ],
  headers_too_large: [431, 'invalid_request_error', 'The headers are larger than `limits.headerBytes`.'],
  too_many_attempts: [
    429,
    'rate_limit_error',
    'Signing in, or another thing that could be guessed, was tried too often.',
  ],
  requests_per_minute: [429, 'rate_limit_error', 'The plan allows no more requests in this minute.'],
  tokens_per_minute: [429, 'rate_limit_error', 'The plan allows no more tokens in this minute.'],
  concurrent_requests: [429, 'rate_limit_error', 'The plan allows no more requests at once.'],
  concurrent_body_bytes: [
    429,
    'rate_limit_error',
    'The bodies of the running requests of the account hold as much memory as one account may.',
  ],
  insufficient_quota: [429, 'rate_limit_error', "The plan's day, month or budget is used up."],
  internal_error: [
    500,
    'server_error',
    'A fault of the service; the message holds the request id and nothing else.',
  ],
  unsupported_http_version: [505, 'invalid_request_error', 'The request is not HTTP/1.0 or HTTP/1.1.'],
  provider_unavailable: [503, 'server_error', 'The provider of a sign-in does not answer as it should.'],
  engine_unavailable: [503, 'server_error', 'No replica of the model can take the request now.'],
  overloaded: [
    503,
    'server_error',
    'The bodies of all running requests hold as much memory as `limits.bodyBytesInMemory` allows.',
  ],
  queue_full: [
    503,
    'server_error',
    'As many requests wait for the model as may wait, or this one waited too long.',
  ],
  storage_unavailable: [503, 'server_error', 'The database cannot be written now.'],
  shutting_down: [
    503,
    'server_error',
    'The service is stopping; another copy, or this one in a moment, will answer.',
  ],
} as const satisfies Record<string, readonly [status: number, type: string, meaning: string]>;

/** A word of the table above; the `code` field of an error body. */
export type ErrorCode = keyof typeof ERRORS;

/** Every value that the `type` field of an error body can have. */
export type ErrorType = (typeof ERRORS)[ErrorCode][1];

export interface ServiceErrorOptions {
  /** Path of the field at fault, such as `messages[2].content`. */
  param?: string | null;
  /** For the log only: what really happened. Never shown to a caller. */
  cause?: unknown;
  /** How long a caller should wait, in milliseconds; becomes `retry-after` and `retry-after-ms`. */
  retryAfterMs?: number;
}

/**
 * A fault with a place in the table. Its message is public: it holds no stack, path, key or host of a replica;
 * those belong in `cause`, which only the log reads.
 */
export class ServiceError extends Error {
  readonly code: ErrorCode;
  readonly param: string | null;
  readonly retryAfterMs: number | undefined;

  constructor(code: ErrorCode, message: string, options: ServiceErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.name = 'ServiceError';
    this.code = code;
    this.param = options.param ?? null;
    this.retryAfterMs = options.retryAfterMs;
  }

  /** HTTP status of the code. */
  get status(): number {
    return ERRORS[this.code][0];
  }

  /** The `type` field of the error body. */
  get type(): ErrorType {
    return ERRORS[this.code][1];
  }
}
