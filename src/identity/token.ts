import { createHash, randomBytes } from 'node:crypto';

/** Returns a random 256-bit token for a link, base64url. */
export function newToken(): string {
  return randomBytes(32).toString('base64url');
}

/** Returns the SHA-256 of a token, as 64 lowercase hexadecimal digits. */
export function hashToken(token: string): string {
  return createHash('sha256').update(token).digest('hex');
}

/** Lifetimes of sessions and links, in milliseconds. */

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** Maximum lifetime of a session. */
export const SESSION_MS = 30 * DAY_MS;

/** Lifetime of an unused session. */
export const IDLE_MS = 7 * DAY_MS;

/** Time to enter the second factor. */
export const PENDING_MS = 10 * MINUTE_MS;

/** Maximum age of a sign-in that confirms a change by a user without a password. */
export const FRESH_MS = 10 * MINUTE_MS;

export const SETUP_MS = 60 * MINUTE_MS;
export const RESET_MS = 60 * MINUTE_MS;
export const INVITATION_MS = 7 * DAY_MS;
