import type { ItemOf } from '../api/client.ts';
import { money } from './money.ts';
import { whole } from './number.ts';
import { typedAmount, typedWhole } from './typed-number.ts';

type LimitStatus = ItemOf<'readLimits'>;

/** A limit by its API name. */
export type LimitName = LimitStatus['limit'];

/** The limits, in display order. `unit`: after a bound. `input`: after an input. `max`: as in the configuration. */
const LIMITS: Readonly<Record<LimitName, { label: string; unit: string; input: string; max: number }>> = {
  requests_per_minute: {
    label: 'Requests per minute',
    unit: 'requests per minute',
    input: 'requests',
    max: 1e11,
  },
  tokens_per_minute: { label: 'Tokens per minute', unit: 'tokens per minute', input: 'tokens', max: 1e11 },
  requests_in_flight: {
    label: 'Concurrent requests',
    unit: 'concurrent requests',
    input: 'requests',
    max: 1e6,
  },
  tokens_per_day: { label: 'Tokens per day', unit: 'tokens per day (UTC)', input: 'tokens, UTC', max: 1e12 },
  tokens_per_month: {
    label: 'Tokens per month',
    unit: 'tokens per month (UTC)',
    input: 'tokens, UTC',
    max: 1e12,
  },
  usd_per_month: { label: 'Spend per month', unit: 'per month (UTC)', input: 'USD, optional', max: 1e6 },
};

/** The names of the limits, in display order. */
export const LIMIT_NAMES = Object.keys(LIMITS) as LimitName[]; // `Object.keys` returns strings.

/** Whether a limit is in USD. */
export const isMoney = (limit: LimitName): limit is Extract<LimitName, `usd_${string}`> =>
  limit.startsWith('usd_');

/** Returns the unit of an input for a limit, such as "requests". */
export const limitInput = (limit: LimitName): string => LIMITS[limit].input;

/** Returns the largest bound that a limit can have. */
const limitMax = (limit: LimitName): number => LIMITS[limit].max;

/** Returns the label of a limit, such as "Requests per minute". */
export const limitLabel = (limit: LimitName): string => LIMITS[limit].label;

/** Formats an amount of a limit. `amount`: requests, tokens, or USD as a decimal string. */
export const limitAmount = (limit: LimitName, amount: LimitStatus['bound']): string =>
  isMoney(limit) ? money(String(amount)) : whole(Number(amount));

/** Formats a limit, such as "600 requests per minute". */
export const limitText = (limit: LimitName, bound: LimitStatus['bound']): string =>
  `${limitAmount(limit, bound)} ${LIMITS[limit].unit}`;

/** Returns the limits that are set, in display order. */
export function limitsSet(
  limits: Readonly<Partial<Record<LimitName, LimitStatus['bound'] | undefined>>>,
): { limit: LimitName; bound: LimitStatus['bound'] }[] {
  return LIMIT_NAMES.flatMap((limit) => {
    const bound = limits[limit];
    return bound === undefined ? [] : [{ limit, bound }];
  });
}

/** Formats the remaining amount of a limit, 0 at least. */
export function limitLeft({ limit, bound, used }: Pick<LimitStatus, 'limit' | 'bound' | 'used'>): string {
  const left = pico(bound) - pico(used);
  const digits = (left > 0n ? left : 0n).toString().padStart(13, '0');
  const decimal = `${digits.slice(0, -12)}.${digits.slice(-12)}`;
  return isMoney(limit) ? money(decimal) : whole(Number(decimal));
}

/** Converts to units of 10^-12, exactly. */
function pico(amount: LimitStatus['bound']): bigint {
  const [digits = '0', fraction = ''] = String(amount).split('.');
  return BigInt(digits + fraction.padEnd(12, '0').slice(0, 12));
}

/** The calendar windows of limits. Each function returns the start of the window that ends at `end`, in Unix milliseconds. */
const WINDOWS = {
  day: (end: Date) => end.setUTCDate(end.getUTCDate() - 1),
  month: (end: Date) => end.setUTCMonth(end.getUTCMonth() - 1),
};
export type LimitWindow = keyof typeof WINDOWS;

/** Returns the calendar window of a limit; null: it has none. */
export function windowOf(limit: LimitName): LimitWindow | null {
  const window = limit.slice(limit.lastIndexOf('_') + 1);
  return window in WINDOWS ? (window as LimitWindow) : null; // Checked.
}

/** What a daily or monthly limit will have used at its end, at the average pace since its start. */
export interface Forecast {
  window: LimitWindow;
  /** Share of the bound at the end of the window: above 1 if the limit will be reached. */
  share: number;
  /** Amount at the end, as `limitAmount` takes it. */
  amount: string;
  /** When the limit will be reached, in Unix milliseconds; null: not before its end. */
  reachedAtMs: number | null;
}

/** Share of a window after which there is a forecast: 72 minutes, or a day and a half. */
const MIN_ELAPSED = 0.05;

/** Returns the forecast of a limit per day or month; null for others, or if little of the time has passed. */
export function forecastOf(
  {
    limit,
    bound,
    used,
    reserved,
    resets_at: resetsAt,
  }: Pick<LimitStatus, 'limit' | 'bound' | 'used' | 'reserved' | 'resets_at'>,
  nowMs: number,
): Forecast | null {
  const window = windowOf(limit);
  if (resetsAt === null || window === null) return null;
  const endMs = Date.parse(resetsAt);
  const startMs = WINDOWS[window](new Date(endMs));
  const elapsed = (nowMs - startMs) / (endMs - startMs);
  // Running requests give most of what they have reserved back.
  const [spent, limited] = [Number(used) - Number(reserved), Number(bound)];
  if (elapsed < MIN_ELAPSED || elapsed >= 1 || spent <= 0 || limited <= 0) return null;
  const amount = spent / elapsed;
  const share = amount / limited;
  const reachedAtMs = share <= 1 || spent >= limited ? null : startMs + ((nowMs - startMs) * limited) / spent;
  return {
    window,
    share,
    amount: isMoney(limit) ? amount.toFixed(6) : String(Math.round(amount)),
    reachedAtMs,
  };
}

/** The input of limits, as text; empty: none. */
export type TypedLimits = Readonly<Record<LimitName, string>>;

/** Numbers by the names of the limits, and USD as decimal strings. */
type Limits = { [Name in LimitName]?: (Name extends `usd_${string}` ? string : number) | undefined };

/** Returns the initial input for limits. */
export function typedLimits(limits: Limits): TypedLimits {
  const texts = LIMIT_NAMES.map((name) => [name, String(limits[name] ?? '')]);
  // `Object.fromEntries` loses the names.
  return Object.fromEntries(texts) as TypedLimits;
}

/** Returns the errors of the input by the names of the parameters, such as `limits.tokens_per_day`. */
export function limitErrors(typed: TypedLimits): Record<string, string> {
  const wrong = LIMIT_NAMES.filter((name) => limitOf(name, typed[name]) === undefined);
  return Object.fromEntries(
    wrong.map((name) => [
      `limits.${name}`,
      isMoney(name)
        ? 'Enter an amount in USD with a decimal point, such as 25 or 2.50.'
        : `Enter a whole number from 1 to ${whole(limitMax(name))}.`,
    ]),
  );
}

/** Converts valid input to a change of limits, which removes those that are null. */
export function limitsChange(typed: Partial<TypedLimits>): { [Name in keyof Limits]: Limits[Name] | null } {
  const names = LIMIT_NAMES.filter((name) => name in typed);
  return Object.fromEntries(names.map((name) => [name, limitOf(name, typed[name] ?? '')]));
}

/** Null: none; undefined: the text is not valid. */
function limitOf(name: LimitName, text: string): number | string | null | undefined {
  if (text.trim() === '') return null;
  if (isMoney(name)) {
    const amount = typedAmount(text);
    return amount !== null && /^\d{1,6}(\.\d{1,6})?$/.test(amount) ? amount : undefined;
  }
  const count = Number(typedWhole(text) ?? Number.NaN);
  return count >= 1 && count <= limitMax(name) ? count : undefined;
}
