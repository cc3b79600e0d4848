import { ERRORS, ServiceError, type ErrorCode } from '../errors.ts';

/** The body of an error answer: `{"error":{message,type,param,code}}`, all four always there. */
export function errorBody(error: ServiceError): string {
  return `{"error":${errorJson(error)}}`;
}

/** The `error` object alone, as it also stands in a stream. */
export function errorJson(error: ServiceError): string {
  const { message, type, param, code } = error;
  return JSON.stringify({ message, type, param, code });
}

/**
 * A replica's error answer as ours, whatever its dialect. What the caller can mend stays a 400 with the replica's
 * words, without addresses and paths; a refused key, a missing model or an overload is the operator's, so
 * `engine_unavailable`; a fault inside the replica is `internal_error`. `cause`, for the log, has the status and the
 * replica's word for the fault, never its sentences: servers quote prompts in them, and no prompt belongs in a log.
 */
export function readErrorBody(status: number, body: string): ServiceError {
  const detail = readDetail(body);
  const word = WORD.test(detail.code ?? '') ? ` (${detail.code})` : '';
  const cause = new Error(`the replica responded with status ${status}${word}`);
  if (CALLERS_FAULT.has(status) || (status === 500 && isContextOverflow(detail))) {
    return callersFault(detail, cause);
  }
  if (status === 500)
    return new ServiceError('internal_error', 'The engine failed to process the request.', { cause });
  return new ServiceError(
    'engine_unavailable',
    'The engine of this model cannot process the request now. Try again later.',
    {
      cause,
      retryAfterMs: RETRY_AFTER_MS,
    },
  );
}

/** An error that came in the middle of a stream; its status stands in the frame, if anywhere. */
export function readErrorFrame(body: string): ServiceError {
  const { status } = readDetail(body);
  return readErrorBody(status ?? 500, body);
}

/** What a code or a type of an error looks like. */
const WORD = /^[A-Za-z][\w.-]{0,63}$/;
const MAX_MESSAGE = 500;
const RETRY_AFTER_MS = 1000;
/** 413 and 422 are what TGI answers to a prompt or a field that it does not take. */
const CALLERS_FAULT: ReadonlySet<number> = new Set([400, 413, 422]);

interface Detail {
  message: string;
  code: string | null;
  param: string | null;
  status: number | null;
}

function callersFault(detail: Detail, cause: Error): ServiceError {
  const own = ownCode(detail.code);
  if (own === null && NO_ROOM.test(detail.message)) {
    const message =
      "The prompt fills this model's maximum context length, which leaves no room for a completion.";
    return new ServiceError('context_length_exceeded', message, { cause });
  }
  const message = scrub(detail.message) || 'The engine of this model refused the request.';
  if (!isContextOverflow(detail)) {
    return new ServiceError(own ?? 'invalid_value', message, { param: detail.param, cause });
  }
  // Other servers name fields that a caller cannot send, such as vLLM's `input_tokens`.
  const param = own === null ? null : detail.param;
  return new ServiceError('context_length_exceeded', message, { param, cause });
}

/** vLLM's words for a prompt that fills the context exactly. No request of ours has a `max_tokens` below 1. */
const NO_ROOM = /^max_tokens must be at least 1, got 0\b/;

/**
 * The prompt's tokens, from a refusal of `max_tokens` as more than the prompt leaves of the context; null where the
 * message does not tell them. Not `exact`: there are at least so many.
 */
export function promptTokensOf(refusal: ServiceError): { tokens: number; exact: boolean } | null {
  for (const pattern of PROMPT_TOKENS) {
    const groups = pattern.exec(refusal.message)?.groups;
    if (groups) return { tokens: Number(groups['tokens']), exact: groups['least'] === undefined };
  }
  return null;
}

/** Of vLLM up to 0.9, of vLLM from 0.10, of SGLang, of TGI. */
const PROMPT_TOKENS = [
  /\((?<tokens>\d{1,9}) in the (?:messages|prompt),/,
  /\b(?:your request has|your prompt contains) (?<least>at least )?(?<tokens>\d{1,9}) input tokens/,
  /: (?<tokens>\d{1,9}) tokens from the input messages/,
  /Given: (?<tokens>\d{1,9}) `inputs` tokens/,
];

/** A code of our own table for a 400: what an engine of ours sends. */
function ownCode(code: string | null): ErrorCode | null {
  if (code === null || !Object.hasOwn(ERRORS, code)) return null;
  const known = code as ErrorCode; // A key of the table, checked above.
  return ERRORS[known][0] === 400 ? known : null;
}

/** The words of vLLM, SGLang, llama-server and TGI for a prompt that is too long. */
const OVERFLOW =
  /maximum context length|context (?:length|size|window)|(?:longer than|exceeds?) .{0,40}context|max_model_len|`inputs` (?:tokens|must have)|`inputs` tokens \+ `max_new_tokens`/i;

function isContextOverflow(detail: Detail): boolean {
  if (detail.code === 'context_length_exceeded' || detail.code === 'exceed_context_size_error') return true;
  return ownCode(detail.code) === null && OVERFLOW.test(detail.message);
}

/** Reads `{error:{…}}`, `{error:"…"}`, `{message}` or `{detail}`; a body of another form has no message. */
function readDetail(body: string): Detail {
  const whole = asRecord(parse(body));
  const inner = asRecord(whole['error']);
  const status =
    [inner['code'], whole['code'], inner['status_code'], whole['status_code']].find(isStatus) ?? null;
  const message = [inner['message'], whole['error'], whole['message'], whole['detail']].find(isText) ?? '';
  const code = [inner['code'], inner['type'], whole['error_type'], whole['type']].find(isText) ?? null;
  const param = [inner['param'], whole['param']].find(isText) ?? null;
  // Frames of ours carry no status; the table tells it.
  const own = code !== null && Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode][0] : null;
  return { message, code, param: isFieldPath(param) ? param : null, status: status ?? own };
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}

function asRecord(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function isStatus(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 400 && value < 600;
}

function isFieldPath(param: string | null): boolean {
  return param !== null && /^[\w.[\]$…-]{1,200}$/.test(param);
}

const ADDRESS = /\b[a-z][a-z0-9+.-]*:\/\/\S+/gi;
const HOST = /\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost)(?::\d+)?\b|\b[a-z0-9-]+(?:\.[a-z0-9-]+)*:\d{2,5}\b/gi;
const PATH = /(?<![\w.])(?:~|\.{1,2})?(?:\/[\w.@+-]+){2,}\/?|\b[A-Z]:\\\S+/g;
const KEY = /\b(?:sk|hf|Bearer)[-_ ][\w-]{8,}/g;

/** What vLLM writes behind its message: its own name of the field, and the value. */
const VLLM_PARAMETER = / \(parameter=\w+, value=.*\)$/s;

/** A replica's words without what would tell where it runs, in one line of bounded length. */
function scrub(message: string): string {
  const clean = message
    .toWellFormed()
    .replace(VLLM_PARAMETER, '')
    .replace(ADDRESS, '…')
    .replace(HOST, '…')
    .replace(PATH, '…')
    .replace(KEY, '…')
    .replace(/\s+/g, ' ')
    .trim();
  return clean.length > MAX_MESSAGE ? `${clean.slice(0, MAX_MESSAGE).toWellFormed()}…` : clean;
}
