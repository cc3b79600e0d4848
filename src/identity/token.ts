import { createHash, randomBytes } from 'node:crypto';

/** A secret of 256 bits for a link, in letters that an address takes as they are. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** What is kept of a secret that nobody could guess: SHA-256, 64 lower-case hexadecimal digits. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
