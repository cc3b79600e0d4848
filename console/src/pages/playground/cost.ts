import type { Usage } from '../../api/generate.ts';

/** USD per million tokens, decimal strings of at most 6 decimals. */
export interface Pricing {
  prompt: string;
  completion: string;
}

/** $1 is 10^12 of what is counted in here, and a price of a million tokens so many of them a token. */
const DECIMALS = 12;
const PRICE_DECIMALS = 6;

/**
 * What a request costs in USD, a decimal string, exactly as the service counts it: every prompt token, cached ones
 * too, and every completion token.
 */
export function costOf({ promptTokens, completionTokens }: Usage, { prompt, completion }: Pricing): string {
  const pico = BigInt(promptTokens) * scaled(prompt) + BigInt(completionTokens) * scaled(completion);
  const digits = pico.toString().padStart(DECIMALS + 1, '0');
  const fraction = digits.slice(-DECIMALS).replace(/0+$/, '');
  return digits.slice(0, -DECIMALS) + (fraction === '' ? '' : `.${fraction}`);
}

function scaled(usd: string): bigint {
  const [whole = '', fraction = ''] = usd.split('.');
  return BigInt(whole + fraction.padEnd(PRICE_DECIMALS, '0'));
}
