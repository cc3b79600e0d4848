import { bucketOf } from '../src/accounts/ledger/histogram.ts';
import type { RollUpSums, Row } from './ledger.ts';

const DAY_MS = 86_400_000;

/** The roll-ups as they have to be, counted from the rows. */
export function recount(rows: readonly Row[]): RollUpSums {
  const sums: RollUpSums = { days: new Map(), latencies: new Map() };
  for (const row of rows) {
    const day = [row.account_id, Math.floor(row.started_at / DAY_MS), row.model, row.key_id].join(' ');
    const settled = row.state === 'settled';
    const hungUp = row.error_code === 'hung_up';
    const counts = [
      1,
      Number(settled && row.error_code !== null && !hungUp),
      Number(settled && hungUp),
      Number(!settled),
      row.prompt_tokens,
      row.cached_tokens,
      row.completion_tokens,
      row.billed ? row.prompt_tokens + row.completion_tokens : 0,
    ];
    const before = sums.days.get(day);
    // The last is money.
    const cost = BigInt(before?.at(-1) ?? 0) + row.cost_pico;
    sums.days.set(day, [...counts.map((count, index) => Number(before?.[index] ?? 0) + count), cost]);
    for (const [measure, value] of latenciesOf(row)) {
      const bucket = `${day} ${measure} ${bucketOf(value)}`;
      sums.latencies.set(bucket, (sums.latencies.get(bucket) ?? 0) + 1);
    }
  }
  return sums;
}

/** Milliseconds to the first token and tokens a second after it, of answers. */
function latenciesOf(row: Row): [measure: 'ttft' | 'speed', value: number][] {
  if (row.state !== 'settled' || row.first_token_at === null || row.ended_at === null) return [];
  if (row.error_code !== null && row.error_code !== 'hung_up') return [];
  const latencies: [measure: 'ttft' | 'speed', value: number][] = [
    ['ttft', row.first_token_at - row.started_at],
  ];
  const after = row.completion_tokens - 1;
  const tookMs = row.ended_at - row.first_token_at;
  if (after > 0 && tookMs > 0) latencies.push(['speed', (after * 1000) / tookMs]);
  return latencies;
}

/** Where two readings of the roll-ups differ, in words. */
export function differencesOf(found: RollUpSums, wanted: RollUpSums): string[] {
  return [
    ...differing('usage_days', found.days, wanted.days),
    ...differing('latency_days', found.latencies, wanted.latencies),
  ];
}

function differing(
  table: string,
  found: ReadonlyMap<string, { toString(): string }>,
  wanted: ReadonlyMap<string, { toString(): string }>,
): string[] {
  return [...new Set([...found.keys(), ...wanted.keys()])].flatMap((key) => {
    const [is, shouldBe] = [found, wanted].map((sums) => sums.get(key)?.toString() ?? 'none');
    return is === shouldBe ? [] : [`${table} of ${key} is ${is}; its rows say ${shouldBe}`];
  });
}
