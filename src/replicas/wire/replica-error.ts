import { ERRORS, ServiceError, type ErrorCode } from '../../core/errors.ts';
import { asList, jsonObject, parseJsonObject, type JsonObject } from '../../json/values.ts';

/**
 * Converts an error response of a replica of any dialect. Errors that the caller can fix become a 400 with the
 * replica's message, without addresses and paths. An internal error of the replica is `internal_error`. Other errors,
 * such as a refused key, a missing model or an overload, are `engine_unavailable`, because the caller cannot fix them.
 * `cause`, which is logged, has the status and the replica's error code, but not its message, which may quote the
 * prompt.
 */
export function readErrorBody(status: number, body: string): ServiceError {
  const detail = readDetail(body);
  const code = ERROR_CODE.test(detail.code ?? '') ? ` (${detail.code})` : '';
  const what = denialOf(status, detail) ?? 'the replica responded';
  const cause = new Error(`${what} with status ${status}${code}`);
  const options = TOOL_OPTIONS.find(([message]) => message.test(detail.message))?.[1];
  if (options !== undefined) {
    const message = `\`tools\` is not enabled at the engine of this model. The operator must start the engine with ${options}.`;
    return new ServiceError('unsupported_parameter', message, { param: 'tools', cause });
  }
  if (
    CLIENT_ERRORS.has(status) ||
    isModerated(status, detail) ||
    (status === 500 && isContextOverflow(detail))
  ) {
    return clientError(detail, cause);
  }
  if (status === 500)
    return new ServiceError('internal_error', 'The engine failed to process the request.', { cause });
  return new ServiceError(
    'engine_unavailable',
    'The engine of this model cannot process the request now. Try again later.',
    { cause, retryAfterMs: RETRY_AFTER_MS },
  );
}

/** Whether only the operator can fix the error: the key was refused, or the account at the provider has no credit. */
export function isAccessDenied(status: number, body: string): boolean {
  return denialOf(status, readDetail(body)) !== null;
}

function denialOf(status: number, detail: ErrorDetail): string | null {
  if (status === 401) return 'the replica refused the API key';
  if (status === 403 && !detail.moderated) return 'the replica denied access';
  const noCredit = status === 402 || (status === 429 && detail.code === 'insufficient_quota');
  return noCredit ? 'the replica reported missing credit' : null;
}

/** OpenRouter sends 403 for prompts that the provider's moderation refused. */
function isModerated(status: number, { moderated }: ErrorDetail): boolean {
  return status === 403 && moderated;
}

/** Converts an error in a stream. The status is 500 unless the frame has one. */
export function readErrorFrame(body: string): ServiceError {
  const { status } = readDetail(body);
  return readErrorBody(status ?? 500, body);
}

const ERROR_CODE = /^[A-Za-z][\w.-]{0,63}$/;
const MAX_MESSAGE = 500;
const RETRY_AFTER_MS = 1000;
/** TGI sends 413 and 422 for prompts and fields that it refuses. */
const CLIENT_ERRORS: ReadonlySet<number> = new Set([400, 413, 422]);

/**
 * Error messages of servers that were started without support for tool calls, and the options that enable it. SGLang
 * refuses `tools` only in releases before September 2025; later releases ignore them.
 */
const TOOL_OPTIONS: readonly (readonly [RegExp, string])[] = [
  [
    /requires (?:--enable-auto-tool-choice|--tool-call-parser)\b/,
    '`--enable-auto-tool-choice` and `--tool-call-parser`',
  ],
  [/Unsupported tool_call_parser: None/, '`--tool-call-parser`'],
  [/^tool\w* param requires --jinja flag/, '`--jinja`'],
];

interface ErrorDetail {
  message: string;
  code: string | null;
  param: string | null;
  status: number | null;
  moderated: boolean;
}

function clientError(detail: ErrorDetail, cause: Error): ServiceError {
  const code = knownCode(detail.code);
  if (code === null && FULL_CONTEXT.test(detail.message)) {
    const message =
      "The prompt fills this model's maximum context length, which leaves no room for a completion.";
    return new ServiceError('context_length_exceeded', message, { cause });
  }
  const message = redact(detail.message) || 'The engine of this model refused the request.';
  if (!isContextOverflow(detail)) {
    return new ServiceError(code ?? 'invalid_value', message, { param: detail.param, cause });
  }
  // Servers other than Sluice report fields that are not in the request, such as vLLM's `input_tokens`.
  const param = code === null ? null : detail.param;
  return new ServiceError('context_length_exceeded', message, { param, cause });
}

/** vLLM's message for a prompt that fills the context exactly. The service never sends a `max_tokens` below 1. */
const FULL_CONTEXT = /^max_tokens must be at least 1, got 0\b/;

/** Returns the code if it is a Sluice error code of status 400. Sluice engines send these. */
function knownCode(code: string | null): ErrorCode | null {
  if (code === null || !Object.hasOwn(ERRORS, code)) return null;
  const known = code as ErrorCode; // A key of the table, checked above.
  return ERRORS[known][0] === 400 ? known : null;
}

/** Messages of vLLM, SGLang, llama-server and TGI for prompts that are too long. */
const OVERFLOW =
  /maximum context length|context (?:length|size|window)|(?:longer than|exceeds?) .{0,40}context|max_model_len|too large to process|`inputs` (?:tokens|must have)|`inputs` tokens \+ `max_new_tokens`/i;

function isContextOverflow(detail: ErrorDetail): boolean {
  if (detail.code === 'context_length_exceeded' || detail.code === 'exceed_context_size_error') return true;
  return knownCode(detail.code) === null && OVERFLOW.test(detail.message);
}

/**
 * Reads `{error:{…}}`, `{error:"…"}`, `{message}` or `{detail}`, optionally in an array. The message of any other body
 * is ''.
 */
function readDetail(body: string): ErrorDetail {
  const whole = body.startsWith('[') ? firstOf(body) : parseJsonObject(body);
  const inner = jsonObject(whole['error']);
  const status =
    [inner['code'], whole['code'], inner['status_code'], whole['status_code']].find(isStatus) ?? null;
  const message =
    [inner['message'], whole['error'], whole['message'], whole['detail']].find(isText) ?? invalidField(whole);
  const code = [inner['code'], inner['type'], whole['error_type'], whole['type']].find(isText) ?? null;
  const param = [inner['param'], whole['param']].find(isText) ?? null;
  // Errors in Sluice streams have no status; the table has it.
  const knownStatus = code !== null && Object.hasOwn(ERRORS, code) ? ERRORS[code as ErrorCode][0] : null;
  return {
    message,
    code,
    param: isFieldPath(param) ? param : null,
    status: status ?? knownStatus,
    moderated: Array.isArray(jsonObject(inner['metadata'])['reasons']),
  };
}

/** Gemini's API sends errors in an array. */
function firstOf(body: string): JsonObject {
  const [first] = asList(parseJsonObject(`{"list":${body}}`)['list']);
  return jsonObject(first);
}

/** Describes the first field that FastAPI refused; '' if there is none. */
function invalidField(whole: JsonObject): string {
  const [first] = validationErrors(whole);
  if (first === undefined) return '';
  return `${first.path.join('.')}: ${first.message}`;
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

/**
 * No match begins inside a word that an earlier attempt has scanned to its end, so the time of each pattern grows with the
 * length of a text and not with its square.
 */
const ADDRESS = /(?<![a-z0-9+.-])[a-z0-9+.-]+:\/\/\S+/gi;
const HOST = /\b(?:\d{1,3}(?:\.\d{1,3}){3}|localhost)(?::\d+)?\b|(?<![\w.-])[a-z0-9.-]+:\d{2,5}\b/gi;
const PATH = /(?<![\w.])(?:~|\.{1,2})?(?:\/[\w.@+-]+){2,}\/?|\b[A-Z]:\\\S+/g;
const KEY = /\b(?:sk|hf|Bearer)[-_ ][\w-]{8,}/g;

/** vLLM appends its internal name of the field, and the value. */
const VLLM_PARAMETER = / \(parameter=\w+, value=.*/s;

/** Characters of a message that are read. What is removed from them leaves enough for `MAX_MESSAGE`. */
const MAX_READ = 4 * MAX_MESSAGE;

/** Removes addresses, paths and keys from a replica's message and shortens it to one line. */
function redact(message: string): string {
  const clean = beginningOf(message)
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

/** Returns the beginning of a long message, without the last word: half of a secret would not be recognized as one. */
function beginningOf(message: string): string {
  if (message.length <= MAX_READ) return message;
  const words = message.slice(0, MAX_READ).split(/(?<=\s)(?=\S)/);
  return words.length === 1 ? '' : `${words.slice(0, -1).join('')}…`;
}

/**
 * Fields that some OpenAI-compatible servers require and others refuse. OpenAI's reasoning models refuse `max_tokens`,
 * and other providers do not know its new name `max_completion_tokens`. Mistral's API refuses `stream_options`, and
 * reports the usage without it. vLLM refuses `thinking_token_budget` if it was started without a reasoning parser.
 */
export type RefusableField = 'max_tokens' | 'stream_options' | 'encoding_format' | 'thinking_token_budget';

/** The patterns match only the beginning of an error message, because the rest may quote the caller's text. */
const REFUSED: readonly (readonly [RegExp, RefusableField])[] = [
  [/^Unsupported parameter: 'max_tokens'/, 'max_tokens'],
  [
    /^(?:(?:Unsupported|Unknown) parameter: |Unrecognized request argument supplied: |property )'?stream_options\b/,
    'stream_options',
  ],
  [
    /^(?:(?:Unsupported|Unknown) parameter: |Unrecognized request argument supplied: |property )?'?`?encoding_format\b/,
    'encoding_format',
  ],
  [/^thinking_token_budget (?:is (?:set|not)|needs)\b/, 'thinking_token_budget'],
];

/** Returns the field that the message of an error names as refused; null: none. */
export function refusedFieldIn(message: string): RefusableField | null {
  return REFUSED.find(([pattern]) => pattern.test(message))?.[1] ?? null;
}

/** Returns the field that the error response names as refused; null: none. */
export function readRefusedField(status: number, body: string): RefusableField | null {
  if (status !== 400 && status !== 422) return null;
  const whole = parseJsonObject(body);
  const { message } = jsonObject(whole['error']);
  if (typeof message === 'string') return refusedFieldIn(message);
  const errors = validationErrors(whole);
  // A value of `encoding_format` may be refused too.
  if (errors.some(({ path }) => path[0] === 'encoding_format')) return 'encoding_format';
  const unknown = errors.filter(({ type }) => type === 'extra_forbidden');
  return unknown.some(({ path }) => path[0] === 'stream_options') ? 'stream_options' : null;
}

/** A field that a server refused. */
interface ValidationError {
  /** Such as `['messages', '0', 'name']`. */
  path: readonly string[];
  /** Such as `extra_forbidden`. */
  type: string;
  message: string;
}

/** Reads the fields that a server built with FastAPI refused, from `detail` or, in Mistral's API, `message.detail`. */
function validationErrors(body: JsonObject): ValidationError[] {
  const detail = body['detail'] ?? jsonObject(body['message'])['detail'];
  return asList(detail).flatMap((value) => {
    const { loc, type, msg } = jsonObject(value);
    const [location, ...path] = asList(loc).map(String);
    if (location !== 'body' || path.length === 0) return [];
    return [{ path, type: String(type), message: String(msg) }];
  });
}
