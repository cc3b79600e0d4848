/** How long what people sign in with lives. All in milliseconds. */

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;

/** The longest life of a session. */
export const SESSION_MS = 30 * DAY_MS;

/** How long a session lives on in which nothing is done. */
export const IDLE_MS = 7 * DAY_MS;

/** How long a second factor may take. */
export const PENDING_MS = 10 * MINUTE_MS;

/** How old a sign-in may be that stands in for the password of somebody who has none. */
export const FRESH_MS = 10 * MINUTE_MS;

/** How long the link for the first operator opens. */
export const SETUP_MS = 60 * MINUTE_MS;

/** How long a link to a new password opens. */
export const RESET_MS = 60 * MINUTE_MS;

/** How long an invitation stands. */
export const INVITATION_MS = 7 * DAY_MS;
