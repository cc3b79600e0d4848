import { useSyncExternalStore } from 'react';

/** Returns the current UTC day. Updates while the page is open. */
export const useToday = (): string => useHour().slice(0, 10);

/** Returns the current UTC hour, such as `2026-11-21T16:00:00Z`. */
export const useHour = (): string => useSyncExternalStore(everyHalfMinute, hour);

const hour = (): string => `${new Date().toISOString().slice(0, 13)}:00:00Z`;

function everyHalfMinute(look: () => void): () => void {
  const timer = setInterval(look, 30_000);
  return () => clearInterval(timer);
}
