/**
 * Limits count money in whole nano-dollars, rounded up: budgets up to a million dollars stay below 2^53, exact in
 * JavaScript and Lua numbers.
 */
const NANO_IN_USD = 1_000_000_000;

/** Converts a decimal string in USD, with at most 9 decimals, to nano-dollars. */
export function nanoOfUsd(usd: string): number {
  const [whole = '0', decimals = ''] = usd.split('.');
  return Number(whole) * NANO_IN_USD + Number(decimals.padEnd(9, '0'));
}

/** Converts pico-dollars to nano-dollars, rounded up. */
export function nanoOfPico(pico: bigint): number {
  return Number((pico + 999n) / 1000n);
}

/** Formats nano-dollars as a decimal string in USD: `5`, `0.00125`. */
export function usdOfNano(nano: number): string {
  const whole = Math.floor(nano / NANO_IN_USD);
  const decimals = String(nano % NANO_IN_USD)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return decimals === '' ? String(whole) : `${whole}.${decimals}`;
}
