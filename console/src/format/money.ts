/** Of amounts that are not exact, so that they fit where they are shown. */
const MAX_DECIMALS = 6;

/**
 * Formats a single amount in USD, rounded to cents, or below $1 to three significant digits and at most 6 decimals. `usd`
 * is a decimal string and is never converted to a float. Use `moneyColumn` for a column of amounts.
 */
export function money(usd: string): string {
  const { whole, fraction } = partsOf(usd);
  const zeros = /^0*/.exec(fraction)?.[0].length ?? 0;
  const digits =
    whole === '0' && zeros < fraction.length ? Math.min(Math.max(2, zeros + 3), MAX_DECIMALS) : 2;
  return rounded(usd, digits).replace(/(\.\d{2,}?)0+$/, '$1');
}

/** Formats an amount in USD with all of its digits. */
export const exactMoney = (usd: string): string =>
  written(usd, partsOf(usd).fraction.replace(/0+$/, '').padEnd(2, '0'));

/** Returns a formatter for a column with these amounts. The largest amount decides the number of decimals, 2 to 6. */
export function moneyColumn(amounts: Iterable<string>): (usd: string) => string {
  const largest = largestOf(amounts, (usd) => Math.abs(inexact(usd)));
  const decimals = largest === 0 || largest >= 1 ? 2 : largest >= 0.01 ? 4 : MAX_DECIMALS;
  return (usd) => rounded(usd, decimals);
}

/** Like `moneyColumn`, with as many decimals as the most precise amount needs. */
export function exactMoneyColumn(amounts: Iterable<string>): (usd: string) => string {
  const decimals = Math.max(
    2,
    largestOf(amounts, (usd) => partsOf(usd).fraction.replace(/0+$/, '').length),
  );
  return (usd) => written(usd, partsOf(usd).fraction.padEnd(decimals, '0').slice(0, decimals));
}

/** Returns the largest value of any number of amounts; 0 for none. */
function largestOf(amounts: Iterable<string>, valueOf: (usd: string) => number): number {
  let largest = 0;
  for (const usd of amounts) largest = Math.max(largest, valueOf(usd));
  return largest;
}

/** Converts an amount to a float, for charts and sorting only. */
export const inexact = (usd: string): number => Number(usd);

/** Rounds half up; amounts that would become 0 are shown as `<$0.01`. */
function rounded(usd: string, decimals: number): string {
  const { whole, fraction } = partsOf(usd);
  const digits = BigInt(whole + fraction.padEnd(decimals + 1, '0').slice(0, decimals + 1));
  const units = (digits + 5n) / 10n;
  if (units === 0n && /[1-9]/.test(fraction)) return `<${written('0', '1'.padStart(decimals, '0'))}`;
  const text = units.toString().padStart(decimals + 1, '0');
  return written(`${usd.startsWith('-') ? '-' : ''}${text.slice(0, -decimals)}`, text.slice(-decimals));
}

function partsOf(usd: string): { whole: string; fraction: string } {
  const [whole = '0', fraction = ''] = usd.replace('-', '').split('.');
  return { whole, fraction };
}

/** Formats the sign and grouped whole dollars of an amount, with the given fraction. */
function written(usd: string, fraction: string): string {
  const grouped = partsOf(usd).whole.replaceAll(/\B(?=(\d{3})+$)/g, ',');
  return `${usd.startsWith('-') ? '−' : ''}$${grouped}.${fraction}`;
}
