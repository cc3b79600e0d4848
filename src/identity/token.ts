import { createHash, randomBytes } from 'node:crypto';

/** Returns a random 256-bit token for a link, base64url. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Returns the SHA-256 of a token, as 64 lowercase hexadecimal digits. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}
