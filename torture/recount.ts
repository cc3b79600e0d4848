import { bucketOf } from '../test/support/latency-buckets.ts';
import type { RollUpSums, LedgerRow } from './ledger.ts';

const DAY_MS = 86_400_000;

/** Computes the expected roll-ups from the rows. */
export function recount(rows: readonly LedgerRow[]): RollUpSums {
  const sums: RollUpSums = { days: new Map(), clients: new Map(), latencies: new Map() };
  for (const row of rows) {
    const day = [row.account_id, Math.floor(row.started_at / DAY_MS), row.model, row.key_id].join(' ');
    const settled = row.state === 'settled';
    const aborted = row.error_code === 'client_disconnected';
    const counts = [
      1,
      Number(settled && row.error_code !== null && !aborted),
      Number(settled && aborted),
      Number(!settled),
      row.prompt_tokens,
      row.cached_tokens,
      row.completion_tokens,
      row.reasoning_tokens,
      row.billed ? row.prompt_tokens + row.completion_tokens : 0,
    ];
    add(sums.days, day, counts, row.cost_pico);
    if (row.client !== null) add(sums.clients, `${day} ${row.client}`, counts, row.cost_pico);
    for (const [measure, value] of latenciesOf(row)) {
      const bucket = `${day} ${measure} ${bucketOf(value)}`;
      sums.latencies.set(bucket, (sums.latencies.get(bucket) ?? 0) + 1);
    }
  }
  return sums;
}

function add(sums: RollUpSums['days'], name: string, counts: readonly number[], costPico: bigint): void {
  const previous = sums.get(name);
  // The last element is the cost.
  const cost = BigInt(previous?.at(-1) ?? 0) + costPico;
  sums.set(name, [...counts.map((count, index) => Number(previous?.[index] ?? 0) + count), cost]);
}

/** Returns the TTFT in milliseconds and the throughput in tokens per second, if the row has them. */
function latenciesOf(row: LedgerRow): [measure: 'ttft' | 'speed', value: number][] {
  if (row.state !== 'settled' || row.first_token_at === null || row.ended_at === null) return [];
  if (row.error_code !== null && row.error_code !== 'client_disconnected') return [];
  const latencies: [measure: 'ttft' | 'speed', value: number][] = [
    ['ttft', row.first_token_at - row.started_at],
  ];
  const after = row.completion_tokens - 1;
  const tookMs = row.ended_at - row.first_token_at;
  if (after > 0 && tookMs > 0) latencies.push(['speed', (after * 1000) / tookMs]);
  return latencies;
}

/** Describes the differences between two sets of roll-ups. */
export function differencesOf(actual: RollUpSums, expected: RollUpSums): string[] {
  return [
    ...compareTable('usage_days', actual.days, expected.days),
    ...compareTable('client_days', actual.clients, expected.clients),
    ...compareTable('latency_days', actual.latencies, expected.latencies),
  ];
}

function compareTable(
  table: string,
  actual: ReadonlyMap<string, { toString(): string }>,
  expected: ReadonlyMap<string, { toString(): string }>,
): string[] {
  return [...new Set([...actual.keys(), ...expected.keys()])].flatMap((key) => {
    const [found, computed] = [actual, expected].map((sums) => sums.get(key)?.toString() ?? 'none');
    return found === computed ? [] : [`${table} of ${key} is ${found}; the rows add up to ${computed}`];
  });
}
