import { USAGE_COUNTS } from '../../api/client.ts';
import { csv, type Cell } from '../../components/csv.ts';
import type { Sums } from './buckets.ts';

const COLUMNS: readonly (readonly [name: string, of: (sums: Sums) => Cell])[] = [
  ...USAGE_COUNTS.map(
    (count) => [count === 'aborted' ? 'client_disconnected' : count, (sums: Sums) => sums[count]] as const,
  ),
  ['cost_usd', (sums) => sums.cost_usd],
  ['ttft_ms_p50', (sums) => sums.ttft_ms?.p50 ?? null],
  ['ttft_ms_p95', (sums) => sums.ttft_ms?.p95 ?? null],
  ['tokens_per_second_p50', (sums) => sums.tokens_per_second?.p50 ?? null],
  ['tokens_per_second_p5', (sums) => sums.tokens_per_second?.p5 ?? null],
];

/** Columns per dimension: one, or id and name. */
const BY: Readonly<Record<string, readonly (readonly [string, (sums: Sums) => Cell])[]>> = {
  hour: [['hour', (sums) => sums.hour]],
  day: [['day', (sums) => sums.day]],
  model: [['model', (sums) => sums.model]],
  key: [
    ['key_id', (sums) => sums.key_id],
    ['key', (sums) => sums.key_name],
  ],
  client: [['client', (sums) => sums.client]],
  account: [
    ['account_id', (sums) => sums.account_id],
    ['account', (sums) => sums.account_name],
  ],
};

/** Formats rows as CSV (RFC 4180) with a header. The dimensions come first. */
export function csvOf(by: readonly string[], rows: readonly Sums[]): string {
  const front = by.flatMap((dimension) => BY[dimension] ?? []);
  const heading = [...front, ...COLUMNS].map(([name]) => name);
  const lines = rows.map((row) => [...front, ...COLUMNS].map(([, of]) => of(row)));
  return csv([heading, ...lines]);
}
