import { ERRORS, errorType, type ErrorCode } from '../errors.ts';

/** An object of the OpenAPI document. */
export type Json = Readonly<Record<string, unknown>>;

/** Errors that every endpoint can return. */
export const HTTP_ERRORS = [
  'invalid_value',
  'request_timeout',
  'request_too_large',
  'unsupported_content_encoding',
  'expectation_failed',
  'headers_too_large',
  'internal_error',
  'unsupported_http_version',
] as const satisfies readonly ErrorCode[];

/** Errors of endpoints that check a key. */
export const KEY_ERRORS = [
  'invalid_api_key',
  'storage_unavailable',
  'shutting_down',
] as const satisfies readonly ErrorCode[];

/** Errors of endpoints that can receive a body. */
export const BODY_ERRORS = ['concurrent_body_bytes', 'overloaded'] as const satisfies readonly ErrorCode[];

/** Errors of a query that does not match its schema. */
export const QUERY_ERRORS = ['invalid_type', 'unsupported_parameter'] as const satisfies readonly ErrorCode[];

/** Errors of a JSON body that does not match its schema. */
export const JSON_ERRORS = [
  'invalid_json',
  'missing_required_parameter',
  ...QUERY_ERRORS,
] as const satisfies readonly ErrorCode[];

export const GENERATION_ERRORS: readonly ErrorCode[] = [
  ...HTTP_ERRORS,
  ...KEY_ERRORS,
  ...BODY_ERRORS,
  ...JSON_ERRORS,
  'context_length_exceeded',
  'schema_too_slow',
  'request_crashed_engine',
  'model_not_allowed',
  'model_not_found',
  'requests_per_minute',
  'tokens_per_minute',
  'concurrent_requests',
  'insufficient_quota',
  'engine_unavailable',
  'queue_full',
  'response_timeout',
  'response_too_large',
  'idempotency_in_flight',
  'idempotency_key_reused',
];

/** Returns the error responses by status, each with its possible codes. */
export function errorResponses(codes: Iterable<ErrorCode>): Json {
  const byStatus = Map.groupBy(new Set(codes), (code) => ERRORS[code][0]);
  const content = { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } };
  return Object.fromEntries(
    [...byStatus].map(([status, codesOfStatus]) => {
      const description = codesOfStatus.map((code) => `\`${code}\`: ${ERRORS[code][1]}`).join('\n\n');
      return [status, { description, content }];
    }),
  );
}

/** The schema of error responses. */
export function errorSchema(): Json {
  const types = new Set(Object.values(ERRORS).map(([status]) => errorType(status)));
  return {
    type: 'object',
    required: ['error'],
    properties: {
      error: {
        type: 'object',
        required: ['message', 'type', 'param', 'code'],
        properties: {
          message: { type: 'string' },
          type: { type: 'string', enum: [...types] },
          param: { type: ['string', 'null'] },
          code: { type: ['string', 'null'], enum: [...Object.keys(ERRORS), null] },
        },
      },
    },
  };
}
