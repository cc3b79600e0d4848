/** All errors that callers can receive. A test checks that `docs/errors.md` has the same rows. */
export const ERRORS = {
  invalid_json: [400, 'The request body is not a JSON object, or has too many values or levels.'],
  missing_required_parameter: [400, 'A required field is missing.'],
  invalid_value: [400, 'The value of a field is outside its bounds.'],
  invalid_type: [400, 'A field has the wrong type.'],
  unsupported_parameter: [400, 'A field is unknown, or is not supported by the engine of this model.'],
  invalid_encrypted_content: [
    400,
    'The `encrypted_content` of a reasoning item was not created by this service for the account, or was changed.',
  ],
  context_length_exceeded: [400, 'The prompt does not fit into the context length of the model.'],
  schema_too_slow: [400, 'Checking a token against a schema in `response_format` or `tools` took too long.'],
  request_crashed_engine: [
    400,
    'The engine crashed repeatedly while running this request or others of the account; refused for 10 minutes.',
  ],
  response_too_large: [
    400,
    'The response, or an event of a stream that is read slowly, has too many log probabilities, or too many vectors.',
  ],
  invalid_api_key: [
    401,
    'The API key is missing, malformed, unknown, revoked or expired, or its account is suspended or closed.',
  ],
  sign_in_required: [401, 'You are not signed in, or your session has ended.'],
  wrong_credentials: [403, 'The email, password or second-factor code is incorrect.'],
  fresh_sign_in_required: [
    403,
    "This action requires the user's password. Users without a password must have signed in within the last 10 minutes.",
  ],
  model_not_allowed: [403, 'The API key is not allowed to use this model.'],
  admin_required: [403, 'Only admin keys and operators can do this.'],
  origin_not_allowed: [403, "A request with a session came from an origin other than the console's."],
  owner_required: [403, 'Only owners of the account and operators can do this.'],
  model_not_found: [404, 'The model does not exist.'],
  not_found: [404, 'The resource does not exist, or the caller may not see it.'],
  invalid_link: [
    404,
    'The setup, invitation or password reset link is invalid, expired, withdrawn, replaced or already used.',
  ],
  not_configured: [404, 'The feature is not configured.'],
  unknown_url: [404, 'The endpoint does not exist.'],
  method_not_allowed: [
    405,
    'The endpoint does not support this method. The `Allow` header lists the methods it supports.',
  ],
  request_timeout: [408, 'The request did not arrive in time.'],
  email_not_verified: [409, 'The user has not confirmed their email address.'],
  last_operator: [409, 'The last operator cannot be removed.'],
  last_owner: [409, 'The last owner of an account cannot be removed or become a member.'],
  conflict: [
    409,
    'The change conflicts with the current state; for example, the email address is already in use.',
  ],
  not_enough_memory: [409, 'The model does not fit into the available memory.'],
  idempotency_in_flight: [
    409,
    'A request with this `Idempotency-Key` is running or has ended, and its response is not available from this instance.',
  ],
  request_too_large: [
    413,
    'The request body is larger than `limits.bodyBytes`, or than the management API accepts.',
  ],
  unsupported_content_encoding: [415, 'The request body is compressed.'],
  expectation_failed: [417, 'The `Expect` header is not `100-continue`.'],
  idempotency_key_reused: [422, 'The `Idempotency-Key` was used with another endpoint or request body.'],
  headers_too_large: [431, 'The request headers are larger than `limits.headerBytes`.'],
  too_many_attempts: [429, 'Too many attempts to sign in or to use a link or code.'],
  too_many_keys: [429, 'Too many keys were created in the account within the last hour.'],
  too_many_changes: [429, 'The user made too many changes within the last hour.'],
  requests_per_minute: [429, 'The limit of requests per minute is reached.'],
  tokens_per_minute: [429, 'The limit of tokens per minute is reached.'],
  concurrent_requests: [429, 'The limit of concurrent requests is reached.'],
  concurrent_body_bytes: [
    429,
    "The account's running requests use all the memory that one account may use for bodies now.",
  ],
  insufficient_quota: [
    429,
    'The daily limit, monthly limit or budget is used up, or the plan of the account is no longer configured.',
  ],
  internal_error: [500, 'The service failed. The message contains the request ID.'],
  unsupported_http_version: [505, 'The request is not HTTP/1.0 or HTTP/1.1.'],
  provider_unavailable: [503, 'The sign-in provider did not respond correctly.'],
  engine_unavailable: [503, 'No replica of the model is available.'],
  overloaded: [
    503,
    'The memory for bodies and collected responses (`limits.bodyBytesInMemory`), or the number of connections, is used up.',
  ],
  queue_full: [503, 'The queue of the model is full, or the request waited too long.'],
  storage_unavailable: [503, 'The database is not available.'],
  shutting_down: [503, 'The service is stopping.'],
  response_timeout: [504, 'The response was not complete after `engine.responseMs`.'],
} as const satisfies Record<string, readonly [status: number, meaning: string]>;

/** The `code` field of an error body. */
export type ErrorCode = keyof typeof ERRORS;

/** The `type` field of an error body. */
export type ErrorType = ReturnType<typeof errorType>;

/** Returns the `type` of an HTTP status. */
export function errorType(status: number) {
  if (status === 401) return 'authentication_error';
  if (status === 403) return 'permission_error';
  if (status === 429) return 'rate_limit_error';
  return status === 500 || status === 503 || status === 504 ? 'server_error' : 'invalid_request_error';
}

export interface ServiceErrorOptions {
  /** Path of the invalid field, such as `messages[2].content`. */
  param?: string | null;
  /** The underlying error, for the log only. Never shown to callers. */
  cause?: unknown;
  /** How long the caller should wait, in milliseconds; sent as `retry-after` and `retry-after-ms`. */
  retryAfterMs?: number;
}

/**
 * An error that callers can receive. Its message is public, so it must not contain a stack, path, key or replica host;
 * those belong in `cause`.
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
    return errorType(this.status);
  }
}
