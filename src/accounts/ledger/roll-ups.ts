import { SUMMED, type LedgerRow, type SummedName } from '../../database/ledger-columns.ts';
import { dayOf } from './days.ts';

/** Dimensions by which usage can be grouped. */
export const USAGE_DIMENSIONS = ['hour', 'day', 'model', 'key', 'account', 'client'] as const;
export type UsageDimension = (typeof USAGE_DIMENSIONS)[number];

/** `error_code` of a request whose client disconnected. */
export const CLIENT_DISCONNECTED = 'client_disconnected';

/** Outcomes of ended requests, with their condition in SQL. */
export const OUTCOMES = {
  completed: "state = 'settled' and error_code is null",
  error: `state = 'settled' and error_code <> '${CLIENT_DISCONNECTED}'`,
  client_disconnected: `state = 'settled' and error_code = '${CLIENT_DISCONNECTED}'`,
  interrupted: "state = 'interrupted'",
};
export type RequestOutcome = keyof typeof OUTCOMES;
// The keys of the object.
export const REQUEST_OUTCOMES = Object.keys(OUTCOMES) as RequestOutcome[];

/** The columns of a row that decide to which rows of the roll-ups it is added. Written when a request starts. */
export const ROLLED_UP_BY = ['account_id', 'key_id', 'model', 'started_at', 'client'] as const;

/** The columns of an ended row that the sums read. */
export type EndedRow = Pick<
  LedgerRow,
  (typeof ROLLED_UP_BY)[number] | 'state' | 'error_code' | 'billed' | SummedName
> & { cost_pico: bigint };

/** The columns of `EndedRow` that are written when a request ends. */
export const ENDED = ['state', 'error_code', 'billed', ...SUMMED.map(({ name }) => name), 'cost_pico'];

/** A column of `usage_days` and `client_days`: what an ended row adds to it. */
export interface Count {
  sql: string;
  of: (row: EndedRow) => number;
  /** Describes the sum to callers and operators. */
  description?: string | undefined;
}

/** The counts of usage, in the order of the JSON fields. */
export const COUNTS = {
  requests: { sql: '1', of: () => 1 },
  errors: requestsWith('error', 'Requests that ended with an error.'),
  aborted: requestsWith('client_disconnected', 'Requests whose client disconnected.'),
  interrupted: requestsWith('interrupted'),
  // `SUMMED` has exactly these names.
  ...(Object.fromEntries(
    SUMMED.map(({ name, sum }): [string, Count] => [
      name,
      { sql: name, of: (row) => row[name], description: sum?.description },
    ]),
  ) as Record<SummedName, Count>),
  billed_tokens: {
    sql: 'billed * (prompt_tokens + completion_tokens)',
    of: (row) => row.billed * (row.prompt_tokens + row.completion_tokens),
    description: 'Prompt and completion tokens that are charged.',
  },
} satisfies Record<string, Count>;
export type CountName = keyof typeof COUNTS;
// The keys of the object.
export const COUNT_NAMES = Object.keys(COUNTS) as CountName[];

/** All sums of usage: the counts, then the cost in pico-dollars. */
export const USAGE_SUMS: readonly { name: string; sql: string }[] = [
  ...Object.entries<Count>(COUNTS).map(([name, { sql }]) => ({ name, sql })),
  { name: 'cost_pico', sql: 'cost_pico' },
];

function requestsWith(outcome: RequestOutcome, description?: string): Count {
  return {
    sql: `case when ${OUTCOMES[outcome]} then 1 else 0 end`,
    of: (row) => Number(outcomeOf(row) === outcome),
    description,
  };
}

function outcomeOf({ state, error_code }: EndedRow): RequestOutcome {
  if (state === 'interrupted') return 'interrupted';
  if (error_code === null) return 'completed';
  return error_code === CLIENT_DISCONNECTED ? 'client_disconnected' : 'error';
}

/** What differs in a row whose request was rejected because it could not be settled in time. */
export const WAIVED = {
  billed: 0,
  cost_pico: 0n,
  finish_reason: null,
  error_code: 'storage_unavailable',
  http_status: 503,
} as const satisfies Partial<Record<keyof LedgerRow, unknown>>;

/** The primary key of `usage_days`. */
export const DAY_KEY = ['account_id', 'day', 'model', 'key_id'] as const;

/** The primary key of `client_days`. */
export const CLIENT_KEY = [...DAY_KEY, 'client'] as const;

type DayKey = [account: string, day: number, model: string, key: string];
type ClientKey = [...DayKey, client: string];

/** A row to add to a table of sums: its key, then its `USAGE_SUMS`. */
type SumsOf<Key extends DayKey | ClientKey> = [...Key, ...counts: number[], costPico: bigint];

/** A row to add to `latency_days`: its key, the measure, the bucket and the count. */
export type LatencyCount = [...DayKey, measure: 'ttft' | 'speed', bucket: number, count: number];

const counts = Object.values(COUNTS).map(({ of }) => of);

interface Sums<Key> {
  key: Key;
  counts: number[];
  cost: bigint;
}

interface Day extends Sums<DayKey> {
  /** Counts by bucket. */
  ttft: Map<number, number>;
  speed: Map<number, number>;
}

/** Sums what a batch adds to the roll-ups. Rows are sorted by key, to avoid deadlocks between transactions. */
export class RollUps {
  readonly #days = new Map<string, Day>();
  readonly #clients = new Map<string, Sums<ClientKey>>();

  /** Adds an ended row and its buckets in `latency_days`; null: none. */
  add(row: EndedRow, ttft: number | null, speed: number | null): void {
    this.#sum(row, ttft, speed, 1);
  }

  /** Replaces a row that was added before by the waived one, which has no latencies. */
  waive(row: EndedRow, ttft: number | null, speed: number | null): void {
    this.#sum(row, ttft, speed, -1);
    this.#sum({ ...row, ...WAIVED }, null, null, 1);
  }

  get days(): SumsOf<DayKey>[] {
    return sorted(this.#days).map(([, { key, counts: sums, cost }]) => [...key, ...sums, cost]);
  }

  get clients(): SumsOf<ClientKey>[] {
    return sorted(this.#clients).map(([, { key, counts: sums, cost }]) => [...key, ...sums, cost]);
  }

  get latencies(): LatencyCount[] {
    return sorted(this.#days).flatMap(([, { key, ttft, speed }]) => [
      ...sorted(speed).map(([bucket, count]): LatencyCount => [...key, 'speed', bucket, count]),
      ...sorted(ttft).map(([bucket, count]): LatencyCount => [...key, 'ttft', bucket, count]),
    ]);
  }

  #sum(row: EndedRow, ttft: number | null, speed: number | null, times: 1 | -1): void {
    const name = `${row.account_id}\n${dayOf(row.started_at)}\n${row.model}\n${row.key_id}`;
    let day = this.#days.get(name);
    if (day === undefined) {
      day = { ...emptySums(dayKeyOf(row)), ttft: new Map(), speed: new Map() };
      this.#days.set(name, day);
    }
    add(day, row, times);
    if (ttft !== null) day.ttft.set(ttft, (day.ttft.get(ttft) ?? 0) + times);
    if (speed !== null) day.speed.set(speed, (day.speed.get(speed) ?? 0) + times);
    if (row.client === null) return;
    const nameOfClient = `${name}\n${row.client}`;
    let client = this.#clients.get(nameOfClient);
    if (client === undefined)
      this.#clients.set(nameOfClient, (client = emptySums([...dayKeyOf(row), row.client])));
    add(client, row, times);
  }
}

function dayKeyOf(row: EndedRow): DayKey {
  return [row.account_id, dayOf(row.started_at), row.model, row.key_id];
}

function emptySums<Key>(key: Key): Sums<Key> {
  return { key, counts: counts.map(() => 0), cost: 0n };
}

function add(sums: Sums<unknown>, row: EndedRow, times: 1 | -1): void {
  // The iterator of an array would allocate memory for each element.
  for (let index = 0; index < counts.length; index++)
    sums.counts[index] = (sums.counts[index] ?? 0) + times * (counts[index]?.(row) ?? 0);
  sums.cost += times === 1 ? row.cost_pico : -row.cost_pico;
}

function sorted<K extends string | number, T>(rows: ReadonlyMap<K, T>): [K, T][] {
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1));
}
