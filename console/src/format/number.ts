import { NUMBERS } from './locale.ts';

const WHOLE = new Intl.NumberFormat(NUMBERS);
const COMPACT = new Intl.NumberFormat(NUMBERS, { notation: 'compact', maximumFractionDigits: 1 });
const PERCENT = new Intl.NumberFormat(NUMBERS, { style: 'percent', maximumFractionDigits: 1 });
const PERCENT_COLUMN = new Intl.NumberFormat(NUMBERS, {
  style: 'percent',
  minimumFractionDigits: 1,
  maximumFractionDigits: 1,
});
const ONE = new Intl.NumberFormat(NUMBERS, { maximumFractionDigits: 1 });

/** Formats a count, such as `1,234,567`. */
export const whole = (value: number): string => WHOLE.format(value);

/** Formats a count with its noun, such as "1 request" or "1,200 requests". `noun` is singular. */
export const counted = (count: number, noun: string): string =>
  `${whole(count)} ${count === 1 ? noun : `${noun}s`}`;

/** Formats a count briefly, such as `1.2M`. Show the exact number next to it or on hover. */
export const compact = (value: number): string => COMPACT.format(value);

/** Formats a single share from 0 to 1, such as `12.5%`. */
export const percent = (share: number): string => PERCENT.format(share);

/** Formats a share for table columns: always with one decimal. Only 0 is `0.0%`, and only 1 is `100.0%`. */
export function percentColumn(share: number): string {
  if (share > 0 && share < 0.0005) return `<${PERCENT_COLUMN.format(0.001)}`;
  if (share < 1 && share >= 0.9995) return `>${PERCENT_COLUMN.format(0.999)}`;
  return PERCENT_COLUMN.format(share);
}

/** Formats with at most one decimal, such as `41.3`. */
export const oneDecimal = (value: number): string => ONE.format(value);

const FIXED = Array.from(
  { length: 13 },
  (_, digits) =>
    new Intl.NumberFormat(NUMBERS, { minimumFractionDigits: digits, maximumFractionDigits: digits }),
);

/** Formats with exactly this number of decimals, up to 12. */
export const fixed = (value: number, decimals: number): string => (FIXED[decimals] ?? WHOLE).format(value);

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** Formats bytes in units of 1000, like the messages of the service: `98.4 MB`. */
export function bytes(count: number): string {
  let value = count;
  let unit = 0;
  while (value >= 1000 && unit < BYTE_UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? value : ONE.format(value)} ${BYTE_UNITS[unit] ?? ''}`;
}
