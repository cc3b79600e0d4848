/** Plain digits, or groups of three with one kind of separator. */
const WHOLE = /^(?:\d+|[1-9]\d{0,2}([\s,'_’])\d{3}(?:\1\d{3})*)$/;

/** Returns the digits of a typed whole number without thousands separators; null: not a whole number. */
export function typedWhole(text: string): string | null {
  const typed = text.trim();
  return WHOLE.test(typed) ? typed.replaceAll(/\D/g, '') : null;
}

/**
 * Returns a typed amount in USD as a decimal string without thousands separators; null: not an amount, or ambiguous. The
 * decimal mark is a point. A comma is refused unless a point follows, because many languages use it as the decimal mark.
 */
export function typedAmount(text: string): string | null {
  const [dollars = '', cents] = text
    .trim()
    .replace(/^\$/, '')
    .split(/\.(?=\d+$)/);
  const digits = typedWhole(dollars);
  if (digits === null || (cents === undefined && dollars.includes(','))) return null;
  return cents === undefined ? digits : `${digits}.${cents}`;
}
