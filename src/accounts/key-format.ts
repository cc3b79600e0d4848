import { randomBytes } from 'node:crypto';
import { crc32 } from 'node:zlib';
import { Secret } from '../secret.ts';

/**
 * A key reads `sk-sluice-`, 43 characters for 256 random bits, 6 for a checksum. The prefix is what secret scanners
 * look for; the checksum tells a key from a typing error, and from what only looks like one, without a database.
 */
export function createKeyText(): Secret {
  const random = base62(BigInt(`0x${randomBytes(32).toString('hex')}`), RANDOM_LENGTH);
  return new Secret(PREFIX + random + checksum(random));
}

/** Whether the text has the form of a key and its checksum; it need not be a key that was ever made. */
export function isWellFormed(text: string): boolean {
  return (
    FORM.test(text) && checksum(text.slice(PREFIX.length, -CHECKSUM_LENGTH)) === text.slice(-CHECKSUM_LENGTH)
  );
}

/**
 * What may be shown of a key to tell it from others. Four random characters and four of the checksum leave more
 * than 200 bits unknown.
 */
export function visibleParts(key: Secret): { prefix: string; lastFour: string } {
  const text = key.reveal();
  return { prefix: text.slice(0, PREFIX.length + 4), lastFour: text.slice(-4) };
}

const PREFIX = 'sk-sluice-';
/** 62^43 is the first power of 62 above 2^256. */
const RANDOM_LENGTH = 43;
/** 62^6 is above 2^32. */
const CHECKSUM_LENGTH = 6;
const FORM = /^sk-sluice-[0-9A-Za-z]{49}$/;

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
