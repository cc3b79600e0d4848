import { isMoney, LIMIT_NAMES, limitMax, type LimitName } from './limits.ts';
import { whole } from './number.ts';
import { typedAmount, typedWhole } from './typed-number.ts';

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

/** Converts the input to limits, and returns the validation errors by the names of the parameters, such as `limits.tokens_per_day`. */
export function readLimits(texts: TypedLimits): { limits: Limits; errors: Readonly<Record<string, string>> } {
  const limits: Limits = {};
  const errors: Record<string, string> = {};
  for (const name of LIMIT_NAMES) {
    const text = texts[name];
    if (text.trim() === '') continue;
    if (isMoney(name)) {
      const amount = typedAmount(text);
      if (amount !== null && /^\d{1,6}(\.\d{1,6})?$/.test(amount)) limits[name] = amount;
      else errors[`limits.${name}`] = 'Enter an amount in USD with a decimal point, such as 25 or 2.50.';
      continue;
    }
    const count = typedWhole(text);
    const max = limitMax(name);
    if (Number(count) >= 1 && Number(count) <= max) limits[name] = Number(count);
    else errors[`limits.${name}`] = `Enter a whole number from 1 to ${whole(max)}.`;
  }
  return { limits, errors };
}
