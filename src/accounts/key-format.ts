import { hash, randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { Secret } from '../support/secret.ts';

/**
 * Creates a key: `sk-sluice-`, 43 characters for 256 random bits, and a checksum of 6 characters. Secret scanners look
 * for the prefix; the checksum detects typos and lookalikes without querying the database.
 */
export function createKeyText(): Secret {
  const random = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), RANDOM_LENGTH);
  return new Secret(PREFIX + random + checksum(random));
}

/** Whether the text has the format and checksum of a key. The key may not exist. */
export function isWellFormed(text: string): boolean {
  return (
    FORMAT.test(text) &&
    checksum(text.slice(PREFIX.length, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)
  );
}

/** Returns the parts that identify a key in lists. They leave more than 200 random bits secret. */
export function visibleParts(key: Secret): { prefix: string; lastFour: string } {
  const text = key.reveal();
  return { prefix: text.slice(0, PREFIX.length + 4), lastFour: text.slice(-4) };
}

/**
 * Returns the SHA-256 of a key in hexadecimal, which is stored instead of the key. A slow hash protects guessable
 * passwords; 256 random bits cannot be guessed, so a fast hash is sufficient and costs a microsecond per request.
 * Looking up by hash leaks nothing by timing, because callers cannot choose the hash.
 */
export function hashKey(key: string): string {
  return hash('sha256', key);
}

const PREFIX = 'sk-sluice-';
/** 62^43 is the first power of 62 above 2^256. */
const RANDOM_LENGTH = 43;
/** 62^6 is above 2^32. */
const CHECKSUM_LENGTH = 6;
/** Length of a key, in characters. */
export const KEY_LENGTH = PREFIX.length + RANDOM_LENGTH + CHECKSUM_LENGTH;
const FORMAT = /^sk-sluice-[0-9A-Za-z]{49}$/;

const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

function checksum(random: string): string {
  let rest = crc32(random);
  let text = '';
  for (let i = 0; i < CHECKSUM_LENGTH; i += 1) {
    text = DIGITS.charAt(rest % 62) + text;
    rest = Math.floor(rest / 62);
  }
  return text;
}

function base62(value: bigint, length: number): string {
  let rest = value;
  let text = '';
  for (let i = 0; i < length; i += 1) {
    text = DIGITS.charAt(Number(rest % 62n)) + text;
    rest /= 62n;
  }
  return text;
}
