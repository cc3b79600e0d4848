import { sql, type RawBuilder } from 'kysely';

/** An amount in pico-dollars is `high * HALF + low`. */
const HALF = 1_000_000_000;

/**
 * Selects the sums of the high and low halves of an amount, because SQLite fails when a sum of pico-dollars
 * exceeds 64 bits. `wholeSum` combines them.
 */
export function halfSums(amount: RawBuilder<unknown>) {
  return [
    sql<string>`cast(coalesce(sum(${amount} / ${sql.lit(HALF)}), 0) as text)`.as('high_pico'),
    sql<string>`cast(coalesce(sum(${amount} % ${sql.lit(HALF)}), 0) as text)`.as('low_pico'),
  ] as const;
}

/** Combines `halfSums` into pico-dollars. */
export function wholeSum({ high_pico, low_pico }: { high_pico: string; low_pico: string }): bigint {
  return BigInt(high_pico) * BigInt(HALF) + BigInt(low_pico);
}
