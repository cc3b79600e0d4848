import { ServiceError } from '../errors.ts';

/** Deepest nesting of arrays and objects in a body. The deepest legal request, a JSON schema, stays below it. */
const MAX_BODY_DEPTH = 64;

/** Most values in a body. `JSON.parse` needs up to half a microsecond for each, whatever its size. */
const MAX_BODY_VALUES = 50_000;

/** The bounds of a body, for the OpenAPI document; `bytes` is a number or the setting that holds it. */
export function bodyBounds(bytes: number | string): string {
  return `At most ${MAX_BODY_VALUES} JSON values, nested at most ${MAX_BODY_DEPTH} levels deep, and at most ${bytes} bytes of UTF-8.`;
}

/**
 * Reads a request body as one JSON object. Depth and values are counted before parsing, so that a hostile body costs one
 * pass over its bytes and no objects. Throws `invalid_json`.
 */
export function parseJsonBody(bytes: Uint8Array): Record<string, unknown> {
  checkShape(bytes);
  const value = parse(decode(bytes));
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ServiceError('invalid_json', 'The request body must be a JSON object.');
  }
  return value as Record<string, unknown>; // JSON.parse gives objects string keys and JSON values, nothing else.
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new ServiceError('invalid_json', 'The request body is not valid UTF-8.', { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's own message quotes the body, which belongs neither in an answer nor in a log.
    throw new ServiceError('invalid_json', 'The request body is not valid JSON.');
  }
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPENING_BRACKET = 0x5b;
const CLOSING_BRACKET = 0x5d;
const OPENING_BRACE = 0x7b;
const CLOSING_BRACE = 0x7d;

/**
 * Counts outside strings: each value follows a comma or the bracket or brace that opens its container. Strings count
 * too, twice as many for the names of members, so that bytes which are no JSON cost no more.
 */
function checkShape(bytes: Uint8Array): void {
  let depth = 0;
  let values = 0;
  let strings = 0;
  for (let at = 0; at < bytes.length; at++) {
    switch (bytes[at]) {
      case QUOTE:
        if (++strings > 2 * MAX_BODY_VALUES) throw tooManyValues();
        at = endOfString(bytes, at);
        break;
      case OPENING_BRACE:
      case OPENING_BRACKET:
        values++;
        if (++depth > MAX_BODY_DEPTH) {
          throw new ServiceError(
            'invalid_json',
            `The request body is nested more than ${MAX_BODY_DEPTH} levels deep.`,
          );
        }
        break;
      case COMMA:
        if (++values > MAX_BODY_VALUES) throw tooManyValues();
        break;
      case CLOSING_BRACE:
      case CLOSING_BRACKET:
        depth--;
        break;
      default:
    }
  }
}

function tooManyValues(): ServiceError {
  return new ServiceError('invalid_json', `The request body has more than ${MAX_BODY_VALUES} JSON values.`);
}

/** Bytes of a string that are looked at one by one; the native search is faster only beyond them. */
const NEAR_BYTES = 32;

/** Index of the quote that closes the string opened at `start`, or the end of the bytes. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1;
  for (;;) {
    for (const far = at + NEAR_BYTES; at < far; at++) {
      if (at >= bytes.length || bytes[at] === QUOTE) return at;
      if (bytes[at] === BACKSLASH) at++;
    }
    const quote = bytes.indexOf(QUOTE, at);
    if (quote === -1) return bytes.length;
    let escaped = false;
    for (let before = quote - 1; before >= at && bytes[before] === BACKSLASH; before--) escaped = !escaped;
    if (!escaped) return quote;
    at = quote + 1;
  }
}
