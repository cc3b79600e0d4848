import { money } from '../format/money.ts';
import { fixed, oneDecimal, whole } from '../format/number.ts';
import { duration } from '../format/time.ts';

/** The unit of the values of a chart. `rate` is any number per second. */
export type Unit = 'count' | 'rate' | 'speed' | 'usd' | 'ms';

/** Formats a value for the tooltip and the table. Charted amounts are floats; rounding to 12 decimals removes floating-point noise. */
export function exactValue(unit: Unit, value: number): string {
  switch (unit) {
    case 'count':
      return whole(value);
    case 'rate':
      return oneDecimal(value);
    case 'speed':
      return `${oneDecimal(value)} tokens/s`;
    case 'usd':
      return money(value.toFixed(12));
    case 'ms':
      return duration(value);
  }
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** Round intervals of a second and longer, in milliseconds. */
const TIME_STEPS = [
  ...[SECOND, MINUTE].flatMap((unit) => [1, 2, 5, 10, 15, 30].map((count) => count * unit)),
  ...[1, 2, 6, 12, 24].map((hours) => hours * HOUR),
];

/** Returns 0 and the multiples of a round interval up to `top`: about `maxTicks` of them, and at least one. */
export function valueTicks(unit: Unit, top: number, maxTicks: number): number[] {
  if (!(top > 0)) return [0];
  const steps = stepsOf(unit, top);
  const step = steps.find((step) => step * (maxTicks + 1) > top * (1 + 1e-9)) ?? steps.at(-1) ?? top;
  // A tick at the top is kept despite rounding.
  return Array.from({ length: Math.floor(top / step + 1e-9) + 1 }, (_, index) => index * step);
}

/** Returns the round intervals that are not above `top`, down to a hundredth of it. */
function stepsOf(unit: Unit, top: number): number[] {
  const power = Math.floor(Math.log10(top));
  const decimal = [-2, -1, 0].flatMap((below) => [1, 2, 5].map((factor) => factor * 10 ** (power + below)));
  const round =
    unit === 'count'
      ? decimal.filter((step) => step >= 1)
      : unit === 'ms'
        ? [...decimal.filter((step) => step < SECOND), ...TIME_STEPS]
        : decimal;
  return round.filter((step) => step <= top).sort((a, b) => a - b);
}

/**
 * Formats the ticks that `valueTicks` returns, without rounding, in one unit and with the same number of decimals. Next
 * to counts such as `20K`, the 0 has no unit and no decimals.
 */
export function tickLabels(unit: Unit, ticks: readonly number[]): string[] {
  const top = ticks.at(-1) ?? 0;
  const step = ticks[1] ?? 1;
  const { size, suffix } = unit === 'ms' ? timeScale(top, step) : countScale(top);
  const decimals = decimalsOf(step / size);
  const digits = unit === 'usd' && decimals > 0 ? Math.max(2, decimals) : decimals;
  const prefix = unit === 'usd' ? '$' : '';
  const zero = unit !== 'ms' && suffix !== '' ? `${prefix}0` : null;
  return ticks.map((tick) => (tick === 0 && zero) || `${prefix}${fixed(tick / size, digits)}${suffix}`);
}

interface TickScale {
  size: number;
  suffix: string;
}

function timeScale(top: number, step: number): TickScale {
  if (top < SECOND) return { size: 1, suffix: ' ms' };
  if (top < 2 * MINUTE || step < MINUTE / 2) return { size: SECOND, suffix: ' s' };
  return top < 2 * HOUR || step < HOUR / 2 ? { size: MINUTE, suffix: ' min' } : { size: HOUR, suffix: ' h' };
}

function countScale(top: number): TickScale {
  if (top < 10_000) return { size: 1, suffix: '' };
  if (top < 1e6) return { size: 1e3, suffix: 'K' };
  return top < 1e9 ? { size: 1e6, suffix: 'M' } : { size: 1e9, suffix: 'B' };
}

/** Returns the number of decimals that multiples of a round interval need. */
const decimalsOf = (step: number): number => Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
