import { dayOf } from './days.ts';
import { CLIENT_DISCONNECTED } from './write.ts';

/** The columns of an ended row that the roll-ups need. */
export interface EndedRow {
  account_id: string;
  key_id: string;
  model: string;
  started_at: number;
  state: 'settled' | 'interrupted';
  error_code: string | null;
  prompt_tokens: number;
  cached_tokens: number;
  completion_tokens: number;
  reasoning_tokens: number;
  billed: number;
  cost_pico: bigint;
}

/** The columns of `usage_days` that are sums, in the order of `UsageSums`. */
export const USAGE_SUMS = [
  'requests',
  'errors',
  'aborted',
  'interrupted',
  'prompt_tokens',
  'cached_tokens',
  'completion_tokens',
  'reasoning_tokens',
  'billed_tokens',
  'cost_pico',
];

type DayKey = [account: string, day: number, model: string, key: string];

/** A row to add to `usage_days`: its key, then its sums in the order of the columns. */
export type UsageSums = [...DayKey, ...counts: number[], costPico: bigint];

/** A row to add to `latency_days`: its key, the measure, the bucket and the count. */
export type LatencyCount = [...DayKey, measure: 'ttft' | 'speed', bucket: number, count: number];

/** Sums what a batch adds to the roll-ups. Rows are sorted by key, to avoid deadlocks between transactions. */
export class RollUps {
  readonly #days = new Map<string, { key: DayKey; counts: number[]; cost: bigint }>();
  readonly #latencies = new Map<string, LatencyCount>();

  add(row: EndedRow, ttftBucket: number | null, speedBucket: number | null): void {
    const settled = row.state === 'settled';
    const counts = [
      1,
      Number(settled && isError(row)),
      Number(settled && row.error_code === CLIENT_DISCONNECTED),
      Number(!settled),
      row.prompt_tokens,
      row.cached_tokens,
      row.completion_tokens,
      row.reasoning_tokens,
      row.billed === 1 ? row.prompt_tokens + row.completion_tokens : 0,
    ];
    this.#sum(row, counts, row.cost_pico, [ttftBucket, speedBucket], 1);
  }

  /** Removes the charge and the latencies of a billed row that was added before, and counts it as an error if it was none. */
  waive(row: EndedRow, ttftBucket: number | null, speedBucket: number | null): void {
    const aborted = Number(row.error_code === CLIENT_DISCONNECTED);
    const counts = [
      0,
      Number(!isError(row)),
      -aborted,
      0,
      0,
      0,
      0,
      0,
      -(row.prompt_tokens + row.completion_tokens),
    ];
    this.#sum(row, counts, -row.cost_pico, [ttftBucket, speedBucket], -1);
  }

  get days(): UsageSums[] {
    return sorted(this.#days).map(({ key, counts, cost }) => [...key, ...counts, cost]);
  }

  get latencies(): LatencyCount[] {
    return sorted(this.#latencies);
  }

  #sum(
    row: EndedRow,
    counts: number[],
    cost: bigint,
    [ttft, speed]: [ttft: number | null, speed: number | null],
    times: 1 | -1,
  ): void {
    const key: DayKey = [row.account_id, dayOf(row.started_at), row.model, row.key_id];
    const name = key.join('\n');
    const day = this.#days.get(name);
    if (day === undefined) {
      this.#days.set(name, { key, counts, cost });
    } else {
      day.counts = day.counts.map((sum, index) => sum + (counts[index] ?? 0));
      day.cost += cost;
    }
    if (ttft !== null) this.#count(name, key, 'ttft', ttft, times);
    if (speed !== null) this.#count(name, key, 'speed', speed, times);
  }

  #count(name: string, key: DayKey, measure: 'ttft' | 'speed', bucket: number, times: number): void {
    const latencyKey = `${name}\n${measure}\n${bucket}`;
    const known = this.#latencies.get(latencyKey);
    if (known === undefined) this.#latencies.set(latencyKey, [...key, measure, bucket, times]);
    else known[6] += times;
  }
}

function isError({ error_code }: EndedRow): boolean {
  return error_code !== null && error_code !== CLIENT_DISCONNECTED;
}

function sorted<T>(rows: ReadonlyMap<string, T>): T[] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}
