import { useSyncExternalStore } from 'react';
import { dayAt } from './date-range-days.ts';

/** The day of UTC that it is; it turns while the page is open. */
export const useToday = (): string => useSyncExternalStore(everyHalfMinute, today);

const today = (): string => dayAt(Date.now());

function everyHalfMinute(look: () => void): () => void {
  const timer = setInterval(look, 30_000);
  return () => clearInterval(timer);
}
