import { SAMPLING_LIST } from '../core/sampling.ts';

/**
 * JSON whose numbers keep their text. A double does not keep `1234567890123456789` or `1.0`, but a model copies them from its
 * prompt. Such numbers become objects of `JSON.rawJSON`, which `JSON.stringify` writes as they were.
 */

declare global {
  /** https://tc39.es/proposal-json-parse-with-source/, which the types of TypeScript do not have yet. */
  interface JSON {
    rawJSON(text: string): RawNumber;
    isRawJSON(value: unknown): boolean;
    parse(
      text: string,
      reviver: (key: string, value: unknown, context: { source?: string }) => unknown,
    ): unknown;
  }
}

/** The text of a number that `JSON.stringify` would write differently. */
export interface RawNumber {
  readonly rawJSON: string;
}

export function isRawNumber(value: unknown): value is RawNumber {
  return typeof value === 'object' && JSON.isRawJSON(value);
}

/** Returns the value of a number that keeps its text; another value is unchanged. */
export function numberValue(value: unknown): unknown {
  return isRawNumber(value) ? Number(value.rawJSON) : value;
}

/** Parses JSON, and keeps the texts of numbers. Throws what `JSON.parse` throws. */
export function parseExactJson(text: string): unknown {
  return text.search(INEXACT) === -1 ? JSON.parse(text) : JSON.parse(text, keepText);
}

function keepText(_key: string, value: unknown, { source }: { source?: string }): unknown {
  return typeof value !== 'number' || source === undefined || String(value) === source
    ? value
    : JSON.rawJSON(source);
}

/**
 * Matches numbers in objects and arrays that a double may not keep: with many digits, a fraction that ends in 0, an exponent, or
 * -0. Strings with code may match, which only costs time.
 */
const INEXACT = /[:,[]\s*(?:-0\s*[,\]}]|-?\d(?:[\d.]{15}|[\d.]*[eE]|\d*\.\d*0\s*[,\]}]|\.000000))/g;

/** Sampling parameters of a body have no text to keep, and are often `1.0`. */
const SAMPLING_NAME = `(?:${SAMPLING_LIST.map(([, { name }]) => name).join('|')})`;
const SAMPLING = new RegExp(`^${SAMPLING_NAME}$`);
const SAMPLING_AT_END = new RegExp(`"${SAMPLING_NAME}"$`);
const MAX_SAMPLING_NAME = 24;

/** Members of a body that models read: schemas and the variables of templates. The service itself reads other numbers. */
const KEPT = new Set(['parameters', 'input_schema', 'schema', 'chat_template_kwargs', 'templateVariables']);

/** Where a number is in a value, and its text. */
export type ExactNumber = readonly [path: readonly string[], text: string];

/**
 * Parses the body of a request. Keeps the texts of numbers in schemas, in the variables of templates and in the
 * `input` of earlier calls. With `exact`, which are collected there instead, the value can be sent to another thread.
 */
export function parseExactBody(text: string, exact?: ExactNumber[]): unknown {
  const plain: unknown = JSON.parse(text);
  // Most bodies have none. Then, nothing has to search the text, which takes as long as parsing it.
  if (!hasKeptNumber(plain, false) || !hasInexact(text, plain)) return plain;
  const value: unknown = JSON.parse(text, keepText);
  roundOthers(value, [], false, exact);
  return value;
}

/** Whether the text of a body may have a number whose text is kept, and which a double does not keep. */
function hasInexact(text: string, body: unknown): boolean {
  let keepsSampling: boolean | null = null;
  for (const { index } of text.matchAll(INEXACT)) {
    if (!SAMPLING_AT_END.test(text.slice(Math.max(0, index - MAX_SAMPLING_NAME), index))) return true;
    // The argument of a call can have the same name.
    keepsSampling ??= hasKeptNumber(body, false, SAMPLING);
    if (keepsSampling) return true;
  }
  return false;
}

/** Whether a value has a number whose text is kept. `named`: only members with such a name count. */
function hasKeptNumber(value: unknown, isKept: boolean, named: RegExp | null = null): boolean {
  if (typeof value !== 'object' || value === null)
    return isKept && typeof value === 'number' && named === null;
  if (Array.isArray(value)) {
    for (const item of value) if (hasKeptNumber(item, isKept, named)) return true;
    return false;
  }
  const holder = value as Record<string, unknown>;
  for (const key in holder) {
    const member = holder[key];
    if (typeof member === 'string') continue;
    const keeps = isKept || keepsNumbers(holder, key);
    if (named !== null && keeps && typeof member === 'number' && named.test(key)) return true;
    if (hasKeptNumber(member, keeps, named)) return true;
  }
  return false;
}

function keepsNumbers(holder: Readonly<Record<string, unknown>>, key: string): boolean {
  return KEPT.has(key) || (key === 'input' && holder['type'] === 'tool_use');
}

/** Whether a value has a number that keeps its text. */
export function hasRawNumber(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return isRawNumber(value) || Object.values(value).some(hasRawNumber);
}

/** Puts the numbers back that `parseExactBody` has collected. */
export function restoreExact(value: unknown, exact: readonly ExactNumber[]): void {
  for (const [path, text] of exact) {
    let holder = value;
    for (const key of path.slice(0, -1)) holder = (holder as Record<string, unknown>)[key];
    (holder as Record<string, unknown>)[path.at(-1) ?? ''] = JSON.rawJSON(text);
  }
}

/** Replaces the texts of numbers that are not kept. `exact`: see `parseExactBody`. */
function roundOthers(value: unknown, path: readonly string[], isKept: boolean, exact?: ExactNumber[]): void {
  if (typeof value !== 'object' || value === null) return;
  const holder = value as Record<string, unknown>; // Arrays have keys as well.
  for (const [key, member] of Object.entries(holder)) {
    const at = [...path, key];
    const keeps = isKept || keepsNumbers(holder, key);
    if (!isRawNumber(member)) roundOthers(member, at, keeps, exact);
    else if (!keeps) holder[key] = Number(member.rawJSON);
    else if (exact !== undefined) {
      exact.push([at, member.rawJSON]);
      holder[key] = Number(member.rawJSON);
    }
  }
}
