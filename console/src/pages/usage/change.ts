import { percent, oneDecimal } from '../../format/number.ts';

/** The change of a number compared to the previous period. */
export interface Change {
  direction: 'up' | 'down' | 'same';
  /** Such as "+12%". */
  text: string;
}

/** Larger increases are shown as a factor instead of a percentage. */
const MANY_TIMES = 10;

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
