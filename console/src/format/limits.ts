import type { Element } from '../api/client.ts';
import { money } from './money.ts';
import { whole } from './number.ts';

type Standing = Element<'readLimits'>;

/** A limit by the name that the interface has for it. */
export type LimitName = Standing['limit'];

/** Each limit in the order in which people read them: what it bounds, and what follows its number. */
const LIMITS: Readonly<Record<LimitName, { label: string; unit: string }>> = {
  requests_per_minute: { label: 'Requests per minute', unit: 'requests per minute' },
  tokens_per_minute: { label: 'Tokens per minute', unit: 'tokens per minute' },
  requests_in_flight: { label: 'Requests at once', unit: 'requests at once' },
  tokens_per_day: { label: 'Tokens per day', unit: 'tokens per day (UTC)' },
  tokens_per_month: { label: 'Tokens per month', unit: 'tokens per month (UTC)' },
  usd_per_month: { label: 'Spend per month', unit: 'per month (UTC)' },
};

/** What a limit bounds, such as "Requests per minute". */
export const limitLabel = (limit: LimitName): string => LIMITS[limit].label;

/** An amount of what a limit bounds: requests or tokens, or USD as a decimal string. */
export const limitAmount = (limit: LimitName, amount: Standing['bound']): string =>
  limit === 'usd_per_month' ? money(String(amount)) : whole(Number(amount));

/** A limit in words, such as "600 requests per minute". */
export const limitWords = (limit: LimitName, bound: Standing['bound']): string =>
  `${limitAmount(limit, bound)} ${LIMITS[limit].unit}`;

/** Those limits that are set, in the order in which people read them. */
export function limitsSet(
  limits: Readonly<Partial<Record<LimitName, Standing['bound'] | undefined>>>,
): { limit: LimitName; bound: Standing['bound'] }[] {
  // The keys of the record above are its names.
  return (Object.keys(LIMITS) as LimitName[]).flatMap((limit) => {
    const bound = limits[limit];
    return bound === undefined ? [] : [{ limit, bound }];
  });
}

/** What is left of a limit, never less than nothing: as an amount of what it bounds. */
export function limitLeft({ limit, bound, used }: Pick<Standing, 'limit' | 'bound' | 'used'>): string {
  const left = pico(bound) - pico(used);
  const digits = (left > 0n ? left : 0n).toString().padStart(13, '0');
  const decimal = `${digits.slice(0, -12)}.${digits.slice(-12)}`;
  return limit === 'usd_per_month' ? money(decimal) : whole(Number(decimal));
}

/** Exactly, with twelve digits after the point. */
function pico(amount: Standing['bound']): bigint {
  const [digits = '0', fraction = ''] = String(amount).split('.');
  return BigInt(digits + fraction.padEnd(12, '0').slice(0, 12));
}
