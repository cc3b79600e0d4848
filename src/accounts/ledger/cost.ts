import type { Usage } from '../../core/generation.ts';

/**
 * Money is in whole pico-dollars ($1 is 10^12), never in floats. Prices have at most 6 decimals in USD per
 * million tokens, so that a price per token is a whole number of pico-dollars.
 */
const PICO_DECIMALS = 12;

/** Pico-dollars per token; below 10^15. */
export interface TokenPrice {
  prompt: number;
  completion: number;
  /** Of cached prompt tokens; at most `prompt`. Null: the same as `prompt`. */
  inputCacheRead: number | null;
}

/** One line of a cost breakdown. The lines of a request add up to its cost. */
export interface CostLine {
  /** The name of its price. `waived` cancels the charge of a request that failed because of the service. */
  what: 'prompt' | 'input_cache_read' | 'completion' | 'waived';
  tokens: number;
  /** Pico-dollars per token. */
  pricePico: number;
  pico: bigint;
}

/** The counts that have a price. */
type BilledTokens = Readonly<Pick<Usage, 'promptTokens' | 'cachedTokens' | 'completionTokens'>>;

/** Returns the cost of a request in pico-dollars. */
export function costOf(
  { promptTokens, cachedTokens, completionTokens }: BilledTokens,
  price: TokenPrice,
): bigint {
  const { prompt, inputCacheRead, completion } = price;
  const cost = times(promptTokens, prompt) + times(completionTokens, completion);
  return inputCacheRead === null ? cost : cost - times(cachedTokens, prompt - inputCacheRead);
}

/** Returns the cost breakdown of a request. If it is not `billed`, the last line cancels the cost. */
export function costLines(usage: BilledTokens, price: TokenPrice, billed: boolean): CostLine[] {
  const { promptTokens, cachedTokens, completionTokens } = usage;
  const { prompt, inputCacheRead, completion } = price;
  const lines =
    inputCacheRead === null
      ? [costLine('prompt', promptTokens, prompt)]
      : [
          costLine('prompt', promptTokens - cachedTokens, prompt),
          costLine('input_cache_read', cachedTokens, inputCacheRead),
        ];
  lines.push(costLine('completion', completionTokens, completion));
  const tokens = promptTokens + completionTokens;
  if (!billed) lines.push({ what: 'waived', tokens, pricePico: 0, pico: -costOf(usage, price) });
  return lines;
}

function costLine(what: CostLine['what'], tokens: number, pricePico: number): CostLine {
  return { what, tokens, pricePico, pico: times(tokens, pricePico) };
}

/** Formats pico-dollars in USD, exactly and without trailing zeros: `"0.00001215"`, `"3"`, `"-0.5"`. */
export function usdText(pico: bigint): string {
  const digits = (pico < 0n ? -pico : pico).toString().padStart(PICO_DECIMALS + 1, '0');
  const whole = digits.slice(0, -PICO_DECIMALS);
  const fraction = digits.slice(-PICO_DECIMALS).replace(/0+$/, '');
  return `${pico < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`;
}

const USD = /^(\d{1,6})(?:\.(\d{1,12}))?$/;

/**
 * Converts USD to pico-dollars, exactly: `"0.01"` is 10,000,000,000. Null: not a decimal of up to 6 digits and 12
 * decimals.
 */
export function picoOfUsd(text: string): bigint | null {
  const [, whole, fraction = ''] = USD.exec(text) ?? [];
  return whole === undefined ? null : BigInt(whole + fraction.padEnd(PICO_DECIMALS, '0'));
}

/** Formats pico-dollars per token as USD per million tokens. */
export function perMillionText(pricePico: number): string {
  return usdText(BigInt(pricePico) * 1_000_000n);
}

/** An amount in pico-dollars is `high * HALF + low`. */
const HALF = 1_000_000_000;

/**
 * Returns SQL for the sums of the high and low halves of an amount, because SQLite fails when a sum of pico-dollars
 * exceeds 64 bits. `wholeSum` combines them.
 */
export function halfSums(amount: string): string {
  const half = (part: string) => `cast(coalesce(sum((${amount}) ${part}), 0) as text)`;
  return `${half(`/ ${HALF}`)} as high_pico, ${half(`% ${HALF}`)} as low_pico`;
}

/** Combines `halfSums` into pico-dollars. */
export function wholeSum({ high_pico, low_pico }: { high_pico: string; low_pico: string }): bigint {
  return BigInt(high_pico) * BigInt(HALF) + BigInt(low_pico);
}

/** Multiplies as numbers if the product is a safe integer; `bigint` multiplication takes ten times as long. */
function times(tokens: number, pricePico: number): bigint {
  const product = tokens * pricePico;
  return Number.isSafeInteger(product) ? BigInt(product) : BigInt(tokens) * BigInt(pricePico);
}
