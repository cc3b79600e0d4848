/**
 * Formats an amount in USD with cents; amounts below $1 get three significant digits. `usd` is a decimal string and is
 * never converted to a float.
 */
export function money(usd: string): string {
  const [whole = '0', fraction = ''] = usd.replace('-', '').split('.');
  const sign = usd.startsWith('-') ? '−' : '';
  const grouped = whole.replaceAll(/\B(?=(\d{3})+$)/g, ',');
  const zeros = /^0*/.exec(fraction)?.[0].length ?? 0;
  const digits = whole === '0' && zeros < fraction.length ? Math.max(2, zeros + 3) : 2;
  const kept = fraction.slice(0, digits).replace(/0+$/, '').padEnd(2, '0');
  return `${sign}$${grouped}.${kept}`;
}

/** Formats an amount in whole cents for table columns: rounded down, `<$0.01` for smaller amounts. */
export function cents(usd: string): string {
  const [whole = '0', fraction = ''] = usd.replace('-', '').split('.');
  const kept = fraction.slice(0, 2).padEnd(2, '0');
  if (/^0*$/.test(whole + kept) && /[1-9]/.test(fraction)) return '<$0.01';
  return money(`${usd.startsWith('-') ? '-' : ''}${whole}.${kept}`);
}

/** Converts an amount to a float, for charts and sorting only. */
export const inexact = (usd: string): number => Number(usd);
