import { dayOf } from './days.ts';
import { COUNTS, type EndedRow } from './sums.ts';
import { WAIVED } from './write.ts';

type DayKey = [account: string, day: number, model: string, key: string];

/** A row to add to `usage_days`: its key, then its `USAGE_SUMS`. */
export type UsageSums = [...DayKey, ...counts: number[], costPico: bigint];

/** A row to add to `latency_days`: its key, the measure, the bucket and the count. */
export type LatencyCount = [...DayKey, measure: 'ttft' | 'speed', bucket: number, count: number];

const counts = Object.values(COUNTS).map(({ of }) => of);

/** Sums what a batch adds to the roll-ups. Rows are sorted by key, to avoid deadlocks between transactions. */
export class RollUps {
  readonly #days = new Map<string, { key: DayKey; counts: number[]; cost: bigint }>();
  readonly #latencies = new Map<string, LatencyCount>();

  /** Adds an ended row and its buckets in `latency_days`; null: none. */
  add(row: EndedRow, ttft: number | null, speed: number | null): void {
    this.#sum(row, [ttft, speed], 1);
  }

  /** Replaces a row that was added before by the waived one, which has no latencies. */
  waive(row: EndedRow, ttft: number | null, speed: number | null): void {
    this.#sum(row, [ttft, speed], -1);
    this.#sum({ ...row, ...WAIVED }, [null, null], 1);
  }

  get days(): UsageSums[] {
    return sorted(this.#days).map(({ key, counts: sums, cost }) => [...key, ...sums, cost]);
  }

  get latencies(): LatencyCount[] {
    return sorted(this.#latencies);
  }

  #sum(row: EndedRow, [ttft, speed]: [ttft: number | null, speed: number | null], times: 1 | -1): void {
    const key: DayKey = [row.account_id, dayOf(row.started_at), row.model, row.key_id];
    const name = key.join('\n');
    let day = this.#days.get(name);
    if (day === undefined) this.#days.set(name, (day = { key, counts: counts.map(() => 0), cost: 0n }));
    for (const [index, of] of counts.entries())
      day.counts[index] = (day.counts[index] ?? 0) + times * of(row);
    day.cost += times === 1 ? row.cost_pico : -row.cost_pico;
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

function sorted<T>(rows: ReadonlyMap<string, T>): T[] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
}
