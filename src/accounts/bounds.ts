import { ServiceError } from '../core/errors.ts';

/** Default number of items on a page. */
export const DEFAULT_PAGE = 50;

/** Maximum items on a page. */
export const MAX_PAGE = 1000;

/** A page ends before the row with which its large columns have more bytes, but has at least one row. */
export const MAX_PAGE_BYTES = 1_000_000;

/** Maximum requests on a page of the request log. */
export const MAX_REQUESTS_PAGE = 200;

/** Maximum characters of the name of an account, key or user. */
export const MAX_NAME = 100;

/** Maximum accounts that a user can become a member of. All of them are read for each request of a session. */
export const MAX_MEMBERSHIPS = 1000;

/** Maximum characters of an email address. */
export const MAX_EMAIL = 254;

/**
 * Control characters, format characters, and line and paragraph separators of Unicode. They are written as
 * character ranges, because every JSON Schema validator supports ranges and few support `\p{Cf}`.
 */
export const HIDDEN_CHARACTERS =
  '\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u0600-\\u0605\\u061c\\u06dd\\u070f\\u0890\\u0891\\u08e2\\u180e\\u200b-\\u200f' +
  '\\u2028-\\u202e\\u2060-\\u2064\\u2066-\\u206f\\ufeff\\ufff9-\\ufffb\u{110bd}\u{110cd}\u{13430}-\u{1343f}' +
  '\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0001}\u{e0020}-\u{e007f}';

/** A name: no hidden characters, and at least one character other than a space. */
export const NAME = new RegExp(
  `^[^${HIDDEN_CHARACTERS}]*[^\\s${HIDDEN_CHARACTERS}][^${HIDDEN_CHARACTERS}]*$`,
  'u',
);

/** What separates and quotes addresses in a list, or is hidden, is no part of one. */
const ADDRESS_PART = `[^\\s@,;:<>()"\\[\\]\\\\${HIDDEN_CHARACTERS}]+`;
/** A minimal check of an email address. Spaces around it are accepted, and are removed by `checkedEmail`. */
export const EMAIL = new RegExp(`^ *${ADDRESS_PART}@${ADDRESS_PART} *$`, 'u');

/** An ID in a path, query or body. */
export const ID = /^[A-Za-z0-9_-]{1,64}$/;

/** The ID of a request or an audit entry, which is also the cursor of their lists. */
export const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** The cursor of all other lists: creation time in Unix milliseconds, and ID. */
export const POSITION_CURSOR = /^([0-9]{1,15})\.([A-Za-z0-9_-]{1,64})$/;

/** Maximum days on a page of hourly usage. Hourly usage has no roll-ups, so every request of these days is read. */
export const MAX_HOURLY_DAYS = 7;

/** The cursor of usage: a JSON array in base64url. */
export const USAGE_CURSOR = /^W[A-Za-z0-9_-]{1,4000}$/;

/** Maximum keys that can be revoked together. */
export const MAX_REVOKED = 100;

/** Maximum tags of a key. */
export const MAX_TAGS = 20;

/** A tag: 1 to 40 characters, none of them hidden or a comma, and no space at either end. */
export const TAG = new RegExp(
  `^[^\\s,${HIDDEN_CHARACTERS}](?:[^,${HIDDEN_CHARACTERS}]{0,38}[^\\s,${HIDDEN_CHARACTERS}])?$`,
  'u',
);

/** Describes a tag in errors. */
export const TAG_EXPECTED =
  'expected 1 to 40 characters, without commas, control characters, or spaces at the ends';

/** Whether text has `min` to `max` characters, counted in code points as in JSON Schema. */
export function hasLength(text: string, min: number, max: number): boolean {
  if (text.length < min || text.length > 2 * max) return false;
  const { length } = Array.from(text);
  return length >= min && length <= max;
}

/** Maximum models in the `allowed_models` or the `limits` of a key. */
export const MAX_MODELS = 100;

/**
 * Trims and checks a name. Refuses control characters, because names are printed in terminals and logs. Throws a
 * `ServiceError` `invalid_value` (param `name`).
 */
export function checkedName(name: string, owner: 'account' | 'key' | 'user'): string {
  if (hasLength(name, 1, MAX_NAME) && NAME.test(name) && name.isWellFormed()) return name.trim();
  throw new ServiceError(
    'invalid_value',
    `The name of ${owner === 'account' ? 'an' : 'a'} ${owner} must be 1 to ${MAX_NAME} characters long and must not contain control characters.`,
    { param: 'name' },
  );
}
