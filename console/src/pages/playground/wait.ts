import { duration } from '../../format/time.ts';

/** Formats a remaining time in whole seconds. */
export function wait(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}
