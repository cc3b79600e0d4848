import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Time-based one-time passwords of authenticator apps: RFC 6238 with SHA-1, 6 digits, 30 seconds. */

const STEP_MS = 30_000;
const DIGITS = 6;
/** RFC 4648. */
const BASE32 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Returns a random secret in base32, with the 160 bits that RFC 4226 recommends. */
export function newTotpSecret(): string {
  return toBase32(randomBytes(20));
}

/** Returns the number of the time step. */
export function totpStep(nowMs: number): number {
  return Math.floor(nowMs / STEP_MS);
}

export function totpCode(secret: string, step: number): string {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const digest = createHmac('sha1', fromBase32(secret)).update(counter).digest();
  const offset = digest.readUInt8(digest.length - 1) & 0x0f;
  const number = digest.readUInt32BE(offset) & 0x7fff_ffff;
  return String(number % 10 ** DIGITS).padStart(DIGITS, '0');
}

/**
 * Returns the time step of a code. Accepts the previous, the current and the next step, because clocks differ. Null:
 * the code is invalid.
 */
export function matchingStep(secret: string, code: string, nowMs: number): number | null {
  const digits = code.replaceAll(/\s/g, '');
  if (!/^\d{6}$/.test(digits)) return null;
  const current = totpStep(nowMs);
  const steps = [current - 1, current, current + 1];
  return steps.find((step) => equal(totpCode(secret, step), digits)) ?? null;
}

/** Returns the `otpauth:` URI for the QR code. */
export function totpUri(secret: string, issuer: string, email: string): string {
  const label = `${encodeURIComponent(issuer)}:${encodeURIComponent(email)}`;
  return `otpauth://totp/${label}?secret=${secret}&issuer=${encodeURIComponent(issuer)}`;
}

/** Returns random base32 characters, five bits each. */
export function randomBase32(length: number): string {
  return toBase32(randomBytes(Math.ceil((length * 5) / 8))).slice(0, length);
}

const equal = (a: string, b: string): boolean => timingSafeEqual(Buffer.from(a), Buffer.from(b));

function toBase32(bytes: Uint8Array): string {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, '0')).join('');
  return (bits.match(/.{1,5}/g) ?? [])
    .map((five) => BASE32.charAt(Number.parseInt(five.padEnd(5, '0'), 2)))
    .join('');
}

function fromBase32(text: string): Buffer {
  const bits = Array.from(text, (character) => BASE32.indexOf(character).toString(2).padStart(5, '0')).join(
    '',
  );
  return Buffer.from((bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)));
}
