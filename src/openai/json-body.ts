import { ServiceError } from '../errors.ts';

/** Deepest nesting of arrays and objects in a body. The deepest legal request, a JSON schema, stays below it. */
const MAX_DEPTH = 64;

/**
 * Reads a request body as one JSON object. The depth is counted before parsing, so that a hostile body costs
 * one pass over its bytes and no objects. Throws `invalid_json`.
 */
export function parseJsonBody(bytes: Uint8Array): Record<string, unknown> {
  if (depthOf(bytes) > MAX_DEPTH) {
    throw new ServiceError('invalid_json', `The body is nested deeper than ${MAX_DEPTH} levels.`);
  }
  const value = parse(decode(bytes));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ServiceError('invalid_json', 'The body must be a JSON object.');
  }
  return value as Record<string, unknown>; // JSON.parse gives objects string keys and JSON values, nothing else.
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new ServiceError('invalid_json', 'The body is not valid UTF-8.', { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes the body, which belongs neither in an answer nor in a log.
    throw new ServiceError('invalid_json', 'The body is not valid JSON.');
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/** Deepest nesting outside strings; stops counting one level above what is allowed. */
function depthOf(bytes: Uint8Array): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < bytes.length && deepest <= MAX_DEPTH; at++) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) at = endOfString(bytes, at);
    else if (byte === OPENING_BRACE || byte === OPENING_BRACKET) deepest = Math.max(deepest, ++depth);
    else if (byte === CLOSING_BRACE || byte === CLOSING_BRACKET) depth--;
  }
  return deepest;
}

/** Index of the quote that closes the string opened at `start`, or the end of the bytes. */
function endOfString(bytes: Uint8Array, start: number): number {
  let end = start;
  for (;;) {
    end = bytes.indexOf(QUOTE, end + 1);
    if (end === -1) return bytes.length;
    let backslashes = 0;
    while (bytes[end - 1 - backslashes] === BACKSLASH) backslashes++;
    if (backslashes % 2 === 0) return end;
  }
}
