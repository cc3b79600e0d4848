import type { Usage } from '../../generation.ts';

/**
 * Money is whole pico-dollars: $1 is 10^12 of them, and a price of at most 6 decimals in USD per million tokens is
 * a whole number of them a token. Nothing here goes through a float.
 */
const PICO_DECIMALS = 12;
/** A million tokens take 6 of the 12 decimals away. */
const PRICE_DECIMALS = 6;

/** What a token costs, in whole pico-dollars; below 10^15. */
export interface TokenPrice {
  prompt: number;
  completion: number;
}

/** One line of how a cost came about. The lines of a request add up to its cost. */
export interface CostLine {
  /** `waived` takes back what a fault of ours ended. */
  what: 'prompt' | 'completion' | 'waived';
  tokens: number;
  /** Pico-dollars a token. */
  pricePico: number;
  pico: bigint;
}

/**
 * Pico-dollars a token of a price in USD per million tokens: `"0.15"` is 150,000. Exact. Throws a `RangeError` for
 * what is not a decimal of up to 9 digits and 6 decimals.
 */
export function picoPerToken(usdPerMillion: string): number {
  return Number(scaled(usdPerMillion, PRICE_DECIMALS));
}

/** What a request costs: every prompt token, cached ones too, and every completion token. Pico-dollars. */
export function costOf(usage: Readonly<Usage>, price: TokenPrice): bigint {
  return times(usage.promptTokens, price.prompt) + times(usage.completionTokens, price.completion);
}

/** How the cost of a request came about; what is not `billed` is taken back by a last line. */
export function costLines(usage: Readonly<Usage>, price: TokenPrice, billed: boolean): CostLine[] {
  const { promptTokens, completionTokens } = usage;
  const lines: CostLine[] = [
    {
      what: 'prompt',
      tokens: promptTokens,
      pricePico: price.prompt,
      pico: times(promptTokens, price.prompt),
    },
    {
      what: 'completion',
      tokens: completionTokens,
      pricePico: price.completion,
      pico: times(completionTokens, price.completion),
    },
  ];
  const tokens = promptTokens + completionTokens;
  if (!billed) lines.push({ what: 'waived', tokens, pricePico: 0, pico: -costOf(usage, price) });
  return lines;
}

/** USD as people write it, exact: `"0.00001215"`, `"3"`, `"-0.5"`; no zeros at its end. */
export function usdText(pico: bigint): string {
  const digits = (pico < 0n ? -pico : pico).toString().padStart(PICO_DECIMALS + 1, '0');
  const whole = digits.slice(0, -PICO_DECIMALS);
  const fraction = digits.slice(-PICO_DECIMALS).replace(/0+$/, '');
  return `${pico < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

/** Pico-dollars of a decimal text in USD such as `"25.00"`, exact. Throws a `RangeError` for what is none. */
export function picoOfUsd(usd: string): bigint {
  return scaled(usd, PICO_DECIMALS);
}

/** Most often both fit a number exactly, which costs a tenth of a multiplication of two bigints. */
function times(tokens: number, pricePico: number): bigint {
  const product = tokens * pricePico;
  return Number.isSafeInteger(product) ? BigInt(product) : BigInt(tokens) * BigInt(pricePico);
}

function scaled(text: string, decimals: number): bigint {
  const [, whole, fraction = ''] = /^(\d{1,9})(?:\.(\d+))?$/.exec(text) ?? [];
  if (whole === undefined || fraction.length > decimals) {
    throw new RangeError(`expected a decimal with at most ${decimals} decimals, not ${JSON.stringify(text)}`);
  }
  return BigInt(whole + fraction.padEnd(decimals, '0'));
}
