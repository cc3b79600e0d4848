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
  const decimals = nano % NANO_IN_USD;
  if (decimals === 0) return String(whole);
  // Ten digits, of which the first is 1. Every receipt has such an amount, so this does without a regular expression.
  const digits = String(NANO_IN_USD + decimals);
  let end = digits.length;
  while (digits[end - 1] === '0') end--;
  return `${whole}.${digits.slice(1, end)}`;
}
