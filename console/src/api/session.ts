import { sessionEnded } from './client.ts';

let controller = new AbortController();
let lastUserId: string | null = null;

/** Returns a signal that aborts, with an `ApiError`, when the current session ends. */
export const sessionSignal = (): AbortSignal => controller.signal;

/** Called with each response for the session. `userId` null: it has no user. */
export function noteSession(userId: string | null): void {
  if (lastUserId !== null && lastUserId !== userId) {
    controller.abort(sessionEnded());
    controller = new AbortController();
  }
  lastUserId = userId;
}
