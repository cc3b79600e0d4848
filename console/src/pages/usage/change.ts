import { percent, oneDigit } from '../../format/number.ts';

/** How a number stands to the one before it. */
export interface Change {
  direction: 'up' | 'down' | 'same';
  /** Such as "up 12%". */
  text: string;
}

/** From this many times as much on, percent say nothing any more. */
const MANY_TIMES = 10;

/** Compares a number with the one before; null where there is nothing to compare. */
export function changeOf(now: number | null, before: number | null): Change | null {
  if (now === null || before === null) return null;
  if (now === before) return { direction: 'same', text: 'as before' };
  if (before === 0) return { direction: 'up', text: 'none before' };
  const share = now / before - 1;
  if (Math.abs(share) < 0.0005) return { direction: 'same', text: 'as before' };
  if (now / before >= MANY_TIMES) return { direction: 'up', text: `up ${oneDigit(now / before)} times` };
  return share > 0
    ? { direction: 'up', text: `up ${percent(share)}` }
    : { direction: 'down', text: `down ${percent(-share)}` };
}
