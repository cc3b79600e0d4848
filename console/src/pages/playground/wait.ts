import { duration } from '../../format/time.ts';

/** How long there is still to wait, in whole seconds: what counts down has no use for less. */
export function wait(ms: number): string {
  const seconds = Math.ceil(ms / 1000);
  return seconds < 60 ? `${seconds} s` : duration(seconds * 1000);
}
