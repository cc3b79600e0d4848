/**
 * An amount as people read it: cents where it has them, and as many further digits as a small amount needs to show
 * three that count. `usd` is a decimal string, and is never put through a float.
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

/** An amount in whole cents, so that a column of them aligns: rounded down, and `<$0.01` where that would hide it. */
export function cents(usd: string): string {
  const [whole = '0', fraction = ''] = usd.replace('-', '').split('.');
  const kept = fraction.slice(0, 2).padEnd(2, '0');
  if (/^0*$/.test(whole + kept) && /[1-9]/.test(fraction)) return '<$0.01';
  return money(`${usd.startsWith('-') ? '-' : ''}${whole}.${kept}`);
}

/** An amount as a number for charts and orderings alone: it is not exact. */
export const inexact = (usd: string): number => Number(usd);
