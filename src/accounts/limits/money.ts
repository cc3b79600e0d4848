/**
 * Limits count money in whole nano-dollars, rounded up: a million dollars of them are below 2^53, so that a number
 * of JavaScript and of Lua holds every budget exactly.
 */
const NANO_IN_USD = 1_000_000_000;

/** A decimal string of USD, of at most 9 decimals, in nano-dollars. */
export function nanoOfUsd(usd: string): number {
  const [whole = '0', decimals = ''] = usd.split('.');
  return Number(whole) * NANO_IN_USD + Number(decimals.padEnd(9, '0'));
}

/** Pico-dollars in nano-dollars, rounded up. */
export function nanoOfPico(pico: bigint): number {
  return Number((pico + 999n) / 1000n);
}

/** Nano-dollars as a decimal string of USD: `5`, `0.00125`. */
export function usdOfNano(nano: number): string {
  const whole = Math.floor(nano / NANO_IN_USD);
  const decimals = String(nano % NANO_IN_USD)
    .padStart(9, '0')
    .replace(/0+$/, '');
  return decimals === '' ? String(whole) : `${whole}.${decimals}`;
}
