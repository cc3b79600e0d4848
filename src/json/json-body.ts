import { isAscii } from 'node:buffer';
import { ServiceError } from '../core/errors.ts';
import type { ValueBounds } from '../core/protocol.ts';
import { CHARACTER_BYTES, HEADER_BYTES, SLOT_BYTES } from './json-heap.ts';
import { parseExactBody, type ExactNumber } from './exact-json.ts';

/** Maximum nesting of arrays and objects in a body. The deepest allowed JSON schema fits. */
const MAX_BODY_DEPTH = 64;

/** Maximum number of values in a body. `JSON.parse` needs up to half a microsecond for each. */
export const MAX_BODY_VALUES = 50_000;

/** Returns bounds for values of any type. Each can have a name, which is a string too. */
export function valueBounds(values: number): ValueBounds {
  return { values, notNumbers: 2 * values };
}

const USUAL = valueBounds(MAX_BODY_VALUES);

/** Describes the bounds of a body for the OpenAPI document. `bytes` is a number or the name of a setting. */
export function bodyBounds(bytes: number | string, { values, notNumbers }: ValueBounds = USUAL): string {
  const others =
    notNumbers < values
      ? `, at most ${notNumbers} strings (including names of members), arrays and objects`
      : '';
  return `At most ${values} JSON values${others}, nested at most ${MAX_BODY_DEPTH} levels deep, and at most ${bytes} bytes of UTF-8.`;
}

/** Counts the memory of a body. */
export interface JsonMemory {
  /** Throws a `ServiceError` if there is not enough. A body counts `CHARACTER_BYTES` for each of its bytes before. */
  resize(bytes: number): void;
}

/**
 * Parses a request body as a JSON object. Counts depth, values and `memory` before parsing, so that a hostile body costs
 * only one pass over its bytes. Throws `invalid_json`. `exact`: see `parseExactBody`.
 */
export function parseJsonBody(
  bytes: Uint8Array,
  bounds = USUAL,
  memory: JsonMemory | null = null,
  exact?: ExactNumber[],
): Record<string, unknown> {
  if (!isWithinBounds(bytes, bounds)) {
    const budget = new JsonBudget(bounds);
    const exceeded = budget.exceededBy(bytes);
    if (exceeded !== null) throw new ServiceError('invalid_json', `The request body ${exceeded}.`);
    memory?.resize(budget.maxHeapBytes + CHARACTER_BYTES * bytes.length);
  }
  const value = parse(decode(bytes), exact);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new ServiceError('invalid_json', 'The request body must be a JSON object.');
  }
  return value as Record<string, unknown>; // JSON.parse only creates objects with string keys.
}

/**
 * Whether a body is so short, and has so few brackets and braces, that it cannot exceed the bounds. True for most
 * bodies, and faster than `JsonBudget`.
 */
function isWithinBounds(bytes: Uint8Array, { values, notNumbers }: ValueBounds): boolean {
  if (bytes.length > Math.min(values, notNumbers)) return false;
  let opened = 0;
  for (const bracket of [OPENING_BRACKET, OPENING_BRACE]) {
    for (let at = bytes.indexOf(bracket); at !== -1; at = bytes.indexOf(bracket, at + 1)) {
      if (++opened > MAX_BODY_DEPTH) return false;
    }
  }
  return true;
}

const utf8 = new TextDecoder('utf-8', { fatal: true });

function decode(bytes: Uint8Array): string {
  // Nearly all bodies are views of a `Buffer`. ASCII needs no decoder.
  if (isAscii(bytes)) return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new ServiceError('invalid_json', 'The request body is not valid UTF-8.', { cause });
  }
}

function parse(text: string, exact?: ExactNumber[]): unknown {
  try {
    return parseExactBody(text, exact);
  } catch {
    // The parser's message quotes the body, which must not be in responses or logs.
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

/** Limits the total number of values in the JSON texts of one request. */
export class JsonBudget {
  readonly #bounds: ValueBounds;
  #values = 0;
  #notNumbers = 0;

  constructor(bounds = USUAL) {
    this.#bounds = bounds;
  }

  /** Maximum memory of the values that were counted, without the characters of strings. */
  get maxHeapBytes(): number {
    return SLOT_BYTES * this.#values + HEADER_BYTES * this.#notNumbers;
  }

  /**
   * Adds the values of a text to the total. Counts commas and opening brackets and braces outside strings instead of
   * parsing the text. Also counts strings, because invalid JSON can consist of strings alone. Returns the end of an error
   * message, such as `has more than 50000 JSON values`, or null if the text is within the limits.
   */
  exceededBy(bytes: Uint8Array): string | null {
    const bounds = this.#bounds;
    let depth = 0;
    let values = this.#values;
    let notNumbers = this.#notNumbers;
    for (let at = 0; at < bytes.length; at++) {
      switch (bytes[at]) {
        case QUOTE:
          if (++notNumbers > bounds.notNumbers) return tooMany(bounds.notNumbers, ' besides numbers');
          at = endOfString(bytes, at);
          break;
        case OPENING_BRACE:
        case OPENING_BRACKET:
          values++;
          if (++notNumbers > bounds.notNumbers) return tooMany(bounds.notNumbers, ' besides numbers');
          if (++depth > MAX_BODY_DEPTH) return `is nested more than ${MAX_BODY_DEPTH} levels deep`;
          break;
        case COMMA:
          if (++values > bounds.values) return tooMany(bounds.values);
          break;
        case CLOSING_BRACE:
        case CLOSING_BRACKET:
          depth--;
          break;
        default:
      }
    }
    this.#values = values;
    this.#notNumbers = notNumbers;
    return null;
  }
}

function tooMany(count: number, kind = ''): string {
  return `has more than ${count} JSON values${kind}`;
}

/** Number of bytes that are checked one by one before the native search, which is only faster for longer strings. */
const SHORT_STRING_BYTES = 32;

/** Returns the index of the closing quote of the string that starts at `start`, or the length of `bytes`. */
function endOfString(bytes: Uint8Array, start: number): number {
  let at = start + 1;
  for (;;) {
    for (const limit = at + SHORT_STRING_BYTES; at < limit; at++) {
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
