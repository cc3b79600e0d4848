import type { ServiceError } from '../../core/errors.ts';
import { readPromptTokens } from '../../core/error-body.ts';

/** Returns the status that is sent for the status of an error. Anthropic's clients expect 529 from a service that is overloaded. */
export function statusOf(status: number): number {
  return status === 503 ? 529 : status;
}

const INVALID = 'invalid_request_error';

/** The types of Anthropic's errors by the status that is sent; the others are invalid requests. */
const TYPES: ReadonlyMap<number, string> = new Map([
  [401, 'authentication_error'],
  [403, 'permission_error'],
  [404, 'not_found_error'],
  [413, 'request_too_large'],
  [429, 'rate_limit_error'],
  [500, 'api_error'],
  [504, 'timeout_error'],
  [529, 'overloaded_error'],
]);

export const ERROR_TYPES: readonly string[] = [INVALID, ...TYPES.values()];

/** Formats the body of an error response. */
export function errorBody(error: ServiceError, requestId: string): string {
  return JSON.stringify({ ...errorJson(error), request_id: requestId });
}

/** Formats an error as the last event of a stream. */
export function errorFrame(error: ServiceError, requestId?: string): string {
  return `event: error\ndata: ${JSON.stringify({ ...errorJson(error), request_id: requestId })}\n\n`;
}

function errorJson(error: ServiceError): object {
  const type = TYPES.get(statusOf(error.status)) ?? INVALID;
  const message = error.code === 'context_length_exceeded' ? tooLong(error) : error.message;
  return { type: 'error', error: { type, message, ...(error.param === 'thread' && NO_THREADS) } };
}

/** After an error with these details, Anthropic's libraries send the whole conversation with each request. */
const NO_THREADS = { details: { error_code: 'thread_unsupported_request', unsupported: ['thread'] } };

/** Claude Code reads both numbers from Anthropic's message, and then shortens the conversation. */
function tooLong(error: ServiceError): string {
  const { message } = error;
  const [found = '', limit] = CONTEXT.exec(message) ?? [];
  const others = message.replace(found, '').match(/\d+/g) ?? [];
  const tokens = readPromptTokens(error)?.tokens ?? Math.max(...others.map(Number));
  return tokens >= Number(limit)
    ? `prompt is too long: ${tokens} tokens > ${limit} maximum`
    : `prompt is too long: ${message}`;
}

/** The context length in messages of Sluice and of servers. */
const CONTEXT = /(?:maximum context length|context (?:length|size|window))\D{0,20}(\d{1,9})/i;
