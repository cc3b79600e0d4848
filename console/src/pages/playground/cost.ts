import type { Usage } from '../../api/generate.ts';

/** USD per million tokens, decimal strings of at most 6 decimals. */
export interface Pricing {
  prompt: string;
  completion: string;
  /** Of cached prompt tokens; null: the same as `prompt`. */
  input_cache_read: string | null;
}

/** Amounts are integers of 10^-12 USD, so a price per million tokens with 6 decimals is an integer per token. */
const DECIMALS = 12;
const PRICE_DECIMALS = 6;

/** Returns the cost of a request in USD as a decimal string, computed exactly like the service. */
export function costOf(usage: Usage, { prompt, completion, input_cache_read: cached }: Pricing): string {
  const { promptTokens, cachedTokens, completionTokens } = usage;
  const pico =
    BigInt(promptTokens - cachedTokens) * scaled(prompt) +
    BigInt(cachedTokens) * scaled(cached ?? prompt) +
    BigInt(completionTokens) * scaled(completion);
  const digits = pico.toString().padStart(DECIMALS + 1, '0');
  const fraction = digits.slice(-DECIMALS).replace(/0+$/, '');
  return digits.slice(0, -DECIMALS) + (fraction === '' ? '' : `.${fraction}`);
}

function scaled(usd: string): bigint {
  const [whole = '', fraction = ''] = usd.split('.');
  return BigInt(whole + fraction.padEnd(PRICE_DECIMALS, '0'));
}
