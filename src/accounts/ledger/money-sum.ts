import { sql, type RawBuilder } from 'kysely';

/** Where the two halves of an amount part. */
const HALF = 1_000_000_000;

/**
 * Sums of pico-dollars may pass 64 bits, at which SQLite gives up; those of the two halves of each amount do not.
 * Spread into a select; `wholeSum` puts the two together.
 */
export function halfSums(amount: RawBuilder<unknown>) {
  return [
    sql<string>`cast(coalesce(sum(${amount} / ${sql.lit(HALF)}), 0) as text)`.as('high_pico'),
    sql<string>`cast(coalesce(sum(${amount} % ${sql.lit(HALF)}), 0) as text)`.as('low_pico'),
  ] as const;
}

/** The sum in pico-dollars. */
export function wholeSum({ high_pico, low_pico }: { high_pico: string; low_pico: string }): bigint {
  return BigInt(high_pico) * BigInt(HALF) + BigInt(low_pico);
}
