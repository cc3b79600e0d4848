import { USAGE_COUNTS } from '../../api/client.ts';
import { csv, type Cell } from '../../components/csv.ts';
import { GROUPS, type Group } from '../../format/usage-groups.ts';
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

/** Returns the columns of a dimension: one, or ID and name. */
function frontOf(by: 'hour' | 'day' | Group): (readonly [string, (sums: Sums) => Cell])[] {
  if (by === 'hour' || by === 'day') return [[by, (sums) => sums[by]]];
  const { id, name } = GROUPS[by];
  return [[id, (sums) => sums[id]], ...(id === name ? [] : [[by, (sums: Sums) => sums[name]] as const])];
}

/** Formats rows as CSV (RFC 4180) with a header. The dimensions come first. */
export function csvOf(by: readonly ('hour' | 'day' | Group)[], rows: readonly Sums[]): string {
  const front = by.flatMap(frontOf);
  const heading = [...front, ...COLUMNS].map(([name]) => name);
  const lines = rows.map((row) => [...front, ...COLUMNS].map(([, of]) => of(row)));
  return csv([heading, ...lines]);
}
