import { percent, oneDecimal } from '../../format/number.ts';

/** The change of a number compared to the previous period. */
export interface Change {
  direction: 'up' | 'down' | 'same';
  /** Such as "+12%", or "+1.5 points" for a share. */
  text: string;
}

/** Larger increases are shown as a factor instead of a percentage. */
const MANY_TIMES = 10;

/** Compares two shares from 0 to 1, in percentage points; null: one of them is unknown. */
export function changeOfShare(now: number | null, before: number | null): Change | null {
  if (now === null || before === null) return null;
  const points = oneDecimal(Math.abs(now - before) * 100);
  if (points === '0') return { direction: 'same', text: '0 points' };
  return now > before
    ? { direction: 'up', text: `+${points} points` }
    : { direction: 'down', text: `−${points} points` };
}

/** Compares a number to the previous one; null: one of them is unknown. */
export function changeOf(now: number | null, before: number | null): Change | null {
  if (now === null || before === null) return null;
  if (now === before) return { direction: 'same', text: '0%' };
  if (before === 0) return { direction: 'up', text: 'new' };
  const share = now / before - 1;
  if (Math.abs(share) < 0.0005) return { direction: 'same', text: '0%' };
  if (now / before >= MANY_TIMES) return { direction: 'up', text: `${oneDecimal(now / before)}×` };
  return share > 0
    ? { direction: 'up', text: `+${percent(share)}` }
    : { direction: 'down', text: `−${percent(-share)}` };
}
