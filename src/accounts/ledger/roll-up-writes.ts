import { SUMMED, type LedgerRow } from '../../database/ledger-columns.ts';
import { DAY_MS } from './days.ts';
import { bucketSql } from './histogram.ts';
import { OUTCOMES, USAGE_SUMS } from './roll-ups.ts';

/** The primary key of `usage_days`. */
export const DAY_KEY = ['account_id', 'day', 'model', 'key_id'] as const;

/** The primary key of `client_days`. */
const CLIENT_KEY = [...DAY_KEY, 'client'] as const;

/** The columns of an ended row that the roll-ups read. */
export const ROLLED_UP: readonly string[] = [
  'account_id',
  'key_id',
  'model',
  'client',
  'started_at',
  'first_token_at',
  'ended_at',
  'state',
  'error_code',
  'billed',
  ...SUMMED.map(({ name }) => name),
  'cost_pico',
];

/**
 * Returns the statements that add `rows`, which have the columns `ROLLED_UP`, to the three tables of sums. `times` is SQL: how
 * often a row counts.
 */
export function addRollUps(rows: string, times = '1'): string[] {
  const sums = USAGE_SUMS.map(({ name, sql }) => ({ name, sql: `${times} * (${sql})` }));
  return [
    addition('usage_days', DAY_KEY, sums, rows),
    addition('client_days', CLIENT_KEY, sums, `${rows} where client is not null`),
    addition(
      'latency_days',
      [...DAY_KEY, 'measure', 'bucket'],
      [{ name: 'count', sql: times }],
      `${rows} cross join ${MEASURES} where ${BUCKET} is not null`,
    ),
  ];
}

/** Adds sums to the rows with their keys, in the order of the primary key to avoid deadlocks between transactions. */
function addition(
  table: string,
  key: readonly string[],
  sums: readonly { name: string; sql: string }[],
  rows: string,
): string {
  const keys = key.join(', ');
  return `
    insert into ${table} (${[...key, ...sums.map(({ name }) => name)].join(', ')})
    select ${[...key.map(selected), ...sums.map(({ sql }) => `sum(${sql})`)].join(', ')}
    from ${rows} group by ${keys} order by ${keys}
    on conflict (${keys}) do update
    set ${sums.map(({ name }) => `${name} = ${table}.${name} + excluded.${name}`).join(', ')}`;
}

function selected(key: string): string {
  if (key === 'day') return `started_at / ${DAY_MS} as day`;
  return key === 'bucket' ? `${BUCKET} as bucket` : key;
}

/** The measures of `latency_days`, one per row. */
export const MEASURES = "(select 'ttft' as measure union all select 'speed') as measures";

/** SQL for the bucket of an ended row in a measure: TTFT in milliseconds, tokens per second after it. Null: none. */
export const BUCKET = `
  case when first_token_at is null or not (${OUTCOMES.completed} or ${OUTCOMES.client_disconnected}) then null
    when measure = 'ttft' then ${bucketSql('first_token_at - started_at')}
    when completion_tokens > 1 and ended_at > first_token_at
    then ${bucketSql('(completion_tokens - 1) * 1000.0 / (ended_at - first_token_at)')} end`;

/** What differs in a row whose request was rejected because it could not be settled in time. */
export const WAIVED = {
  billed: 0,
  cost_pico: 0n,
  finish_reason: null,
  error_code: 'storage_unavailable',
  http_status: 503,
} as const satisfies Partial<Record<keyof LedgerRow, unknown>>;

/** SQL that assigns the values of `WAIVED`. */
export const WAIVED_VALUES = Object.entries(WAIVED)
  .map(([name, value]) => `${name} = ${literal(value)}`)
  .join(', ');

/** Like `addRollUps`: replaces rows that were added before by the waived ones. */
export function waiveRollUps(rows: string): string[] {
  const waived: Readonly<Record<string, string | number | bigint | null>> = WAIVED;
  const values = ROLLED_UP.map((name) =>
    name in waived ? `${literal(waived[name] ?? null)} as ${name}` : name,
  );
  const changes = `(
    select ${ROLLED_UP.join(', ')}, -1 as times from ${rows}
    union all select ${values.join(', ')}, 1 from ${rows}) as changes`;
  return addRollUps(changes, 'times');
}

function literal(value: string | number | bigint | null): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}
