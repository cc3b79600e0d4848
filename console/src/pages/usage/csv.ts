import type { Sums } from './buckets.ts';

/** What a column holds; money as the exact decimal text that the service told. */
type Cell = string | number | null;

const COLUMNS: readonly (readonly [name: string, of: (sums: Sums) => Cell])[] = [
  ['requests', (sums) => sums.requests],
  ['errors', (sums) => sums.errors],
  ['hung_up', (sums) => sums.aborted],
  ['interrupted', (sums) => sums.interrupted],
  ['prompt_tokens', (sums) => sums.prompt_tokens],
  ['cached_tokens', (sums) => sums.cached_tokens],
  ['completion_tokens', (sums) => sums.completion_tokens],
  ['billed_tokens', (sums) => sums.billed_tokens],
  ['cost_usd', (sums) => sums.cost_usd],
  ['ttft_ms_p50', (sums) => sums.ttft_ms?.p50 ?? null],
  ['ttft_ms_p95', (sums) => sums.ttft_ms?.p95 ?? null],
  ['tokens_per_second_p50', (sums) => sums.tokens_per_second?.p50 ?? null],
  ['tokens_per_second_p95', (sums) => sums.tokens_per_second?.p95 ?? null],
];

/** What sums can be by: a column of its own, or two where an id has a name. */
const BY: Readonly<Record<string, readonly (readonly [string, (sums: Sums, nameOf: Names) => Cell])[]>> = {
  hour: [['hour', (sums) => sums.hour]],
  day: [['day', (sums) => sums.day]],
  model: [['model', (sums) => sums.model]],
  key: [
    ['key_id', (sums) => sums.key_id],
    ['key', (sums, nameOf) => nameOf.key(sums.key_id ?? '')],
  ],
  account: [
    ['account_id', (sums) => sums.account_id],
    ['account', (sums, nameOf) => nameOf.account(sums.account_id ?? '')],
  ],
};

/** Names by ids. */
interface Names {
  key: (id: string) => string;
  account: (id: string) => string;
}

/** Sums as CSV (RFC 4180, with a heading): a row each, with what they are by in front. */
export function csvOf(by: readonly string[], rows: readonly Sums[], nameOf: Names): string {
  const front = by.flatMap((dimension) => BY[dimension] ?? []);
  const heading = [...front, ...COLUMNS].map(([name]) => name);
  const lines = rows.map((row) => [
    ...front.map(([, of]) => of(row, nameOf)),
    ...COLUMNS.map(([, of]) => of(row)),
  ]);
  return [heading, ...lines].map((line) => `${line.map(cell).join(',')}\r\n`).join('');
}

/** A text that a spreadsheet would take for a formula is made plain text, since people choose names. */
function cell(value: Cell): string {
  if (value === null) return '';
  if (typeof value === 'number') return String(value);
  const plain = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(plain) ? `"${plain.replaceAll('"', '""')}"` : plain;
}
