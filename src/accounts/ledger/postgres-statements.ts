import {
  CHECKPOINTED,
  OPENED,
  SETTLED,
  type LedgerColumn,
  type LedgerColumns,
} from '../../database/ledger-columns.ts';
import { INITIAL, namesOf } from './columns.ts';
import type { Statement } from './postgres-connection.ts';
import { USAGE_SUMS } from './roll-ups.ts';
import { CLIENT_DISCONNECTED, WAIVED, type Value } from './write.ts';

/**
 * Locks the row of the writing instance (`$1`) until commit. A statement writes nothing if that instance is marked as
 * dead. The lock does not block heartbeats. Reapers skip locked rows.
 */
const LIVE = `live as materialized (
  select epoch from instances where epoch = $1::int8 and live = 1 for key share)`;

/**
 * Equivalent to `state = 'open'`, but keeps the planner from using the index of open rows: it would scan the whole
 * index for each written row.
 */
const IS_OPEN = "ledger.state not in ('settled', 'interrupted')";

const IS_LIVE = 'select exists (select from live) as live';

const NOW_MS = '(extract(epoch from clock_timestamp()) * 1000)::int8';

/** The columns that the roll-ups read from an ended row. */
const ENDED = `account_id, key_id, model, (started_at / 86400000)::int4 as day, ledger.state, ledger.error_code,
  ledger.prompt_tokens, ledger.cached_tokens, ledger.completion_tokens, ledger.reasoning_tokens, ledger.billed,
  ledger.cost_pico`;

/** Adds the daily sums of `ended`, in primary key order to avoid deadlocks between transactions. */
const addUsage = (sums: string): string => `
  insert into usage_days (account_id, day, model, key_id, ${USAGE_SUMS.join(', ')})
  select account_id, day, model, key_id, ${sums}
  from ended group by 1, 2, 3, 4 order by 1, 2, 3, 4
  on conflict (account_id, day, model, key_id)
  do update set ${USAGE_SUMS.map((sum) => `${sum} = usage_days.${sum} + excluded.${sum}`).join(', ')}`;

const addLatencies = (count: string): string => `
  insert into latency_days (account_id, day, model, key_id, measure, bucket, count)
  select account_id, day, model, key_id, measure, bucket, ${count}
  from ended cross join lateral (values ('ttft', ttft), ('speed', speed)) as measured (measure, bucket)
  where bucket is not null
  group by 1, 2, 3, 4, 5, 6 order by 1, 2, 3, 4, 5, 6
  on conflict (account_id, day, model, key_id, measure, bucket)
  do update set count = latency_days.count + excluded.count`;

const ADD_USAGE = addUsage(`
    count(*),
    count(*) filter (where state = 'settled' and error_code <> '${CLIENT_DISCONNECTED}'),
    count(*) filter (where state = 'settled' and error_code = '${CLIENT_DISCONNECTED}'),
    count(*) filter (where state = 'interrupted'),
    sum(prompt_tokens)::int8, sum(cached_tokens)::int8, sum(completion_tokens)::int8, sum(reasoning_tokens)::int8,
    sum(case when billed = 1 then prompt_tokens + completion_tokens else 0 end)::int8,
    sum(cost_pico)::int8`);

/** Removes the charge of waived rows from the sums, and counts the rows that were no errors as errors. */
const WAIVE_USAGE = addUsage(`
    0, count(*) filter (where error_code is null or error_code = '${CLIENT_DISCONNECTED}'), -count(*) filter (where error_code = '${CLIENT_DISCONNECTED}'), 0, 0, 0, 0, 0,
    -sum(prompt_tokens + completion_tokens)::int8, -sum(cost_pico)::int8`);

const BUCKET: LedgerColumn = { kind: 'integer', initial: null };
/** The columns of `SettledValues`, in the same order. */
const SETTLEMENT = { id: OPENED.id, ttft: BUCKET, speed: BUCKET, ...SETTLED } as const;

/** The first parameter is the epoch; the others are arrays, one per column. */
export const OPEN: Statement = {
  name: 'ledger_open',
  text: `
    with ${LIVE}, written as (
      insert into ledger (${namesOf(OPENED).join(', ')}, epoch, ${INITIAL.names})
      select given.*, live.epoch, ${INITIAL.values} from ${given(OPENED)}, live)
    ${IS_LIVE}`,
};

/** The columns of a row that is inserted as settled, with its buckets. */
const ENDED_REQUEST = { ...OPENED, ttft: BUCKET, speed: BUCKET, ...SETTLED } as const;

/** Inserts settled rows. */
export const INSERT_ENDED: Statement = {
  name: 'ledger_insert_ended',
  text: `
    with ${LIVE}, given as materialized (select * from ${given(ENDED_REQUEST)}),
    written as (
      insert into ledger (${namesOf(OPENED).join(', ')}, epoch, ${namesOf(SETTLED).join(', ')})
      select ${namesOf(OPENED).join(', ')}, live.epoch, ${namesOf(SETTLED).join(', ')} from given, live
      returning id, ${ENDED}),
    ended as (select written.*, given.ttft, given.speed from written join given using (id)),
    days as (${ADD_USAGE}), latencies as (${addLatencies('count(*)')})
    ${IS_LIVE}`,
};

export const CHECKPOINT: Statement = {
  name: 'ledger_checkpoint',
  text: `
    with ${LIVE}, written as (
      update ledger set ${assignments(CHECKPOINTED)}
      from ${given({ id: OPENED.id, ...CHECKPOINTED })}, live
      where ledger.id = given.id and ledger.epoch = live.epoch and ${IS_OPEN})
    ${IS_LIVE}`,
};

/** Also returns the IDs whose rows were not open. */
export const SETTLE: Statement = {
  name: 'ledger_settle',
  text: `
    with ${LIVE}, ended as (
      update ledger set ${assignments(SETTLED)}
      from ${given(SETTLEMENT)}, live
      where ledger.id = given.id and ledger.epoch = live.epoch and ${IS_OPEN}
      returning ledger.id, ${ENDED}, given.ttft, given.speed),
    days as (${ADD_USAGE}), latencies as (${addLatencies('count(*)')})
    ${IS_LIVE}, array (select unnest($2::text[]) except select id from ended) as missing`,
};

/** Cancels the charge of rows that were settled, by any instance. */
export const WAIVE: Statement = {
  name: 'ledger_waive',
  text: `
    with ended as (
      update ledger set ${[...WAIVED].map(([name, value]) => `${name} = ${literal(value)}`).join(', ')}
      from ${given(SETTLEMENT, 1)}
      where ledger.id = given.id and ledger.state = 'settled' and ledger.billed = 1
      returning account_id, key_id, ledger.model, (ledger.started_at / 86400000)::int4 as day, given.ttft,
        given.speed, given.error_code, given.prompt_tokens, given.completion_tokens, given.cost_pico),
    days as (${WAIVE_USAGE}), latencies as (${addLatencies('-count(*)')})
    select`,
};

export const UNDELIVERED: Statement = {
  name: 'ledger_undelivered',
  text: `
    with ${LIVE}, written as (
      update ledger set delivered = 0 from unnest($2::text[]) as given (id), live
      where ledger.id = given.id and ledger.epoch = live.epoch and ledger.state = 'settled')
    ${IS_LIVE}`,
};

/** Selects the IDs in `$2` whose rows this instance has settled. */
export const SETTLED_BY: Statement = {
  name: 'ledger_settled_by',
  text: `select id from ledger where id = any ($2::text[]) and epoch = $1::int8 and state = 'settled'`,
};

export const REGISTER = `
  insert into instances (live, lease_until, started_at, pid)
  values (1, ${NOW_MS} + $1::int8, ${NOW_MS}, $2::int4) returning epoch`;

export const HEARTBEAT: Statement = {
  name: 'ledger_beat',
  text: `update instances set lease_until = ${NOW_MS} + $2::int8 where epoch = $1::int8 and live = 1`,
};

/** Selects instances with an expired lease, except those locked by another reaper or by their own write. */
export const EXPIRED = `
  select epoch from instances where live = 1 and lease_until < ${NOW_MS} and epoch <> $1::int8
  for update skip locked`;

/**
 * Waits for the writes of these instances: an update alone would not conflict with the lock of `LIVE`, and `INTERRUPT`
 * would miss the rows of a batch that is not committed yet.
 */
export const MARK_DEAD = `
  with locked as materialized (
    select epoch from instances where epoch = any ($1::int8[]) and live = 1 for update)
  update instances set live = 0 from locked where instances.epoch = locked.epoch returning instances.epoch`;

/** Settles the open rows of dead instances. Runs after `MARK_DEAD`, so that it sees their last writes. */
export const INTERRUPT = `
  with ended as (
    update ledger set state = 'interrupted', ended_at = case when $2::boolean then ${NOW_MS} end
    where epoch = any ($1::int8[]) and state = 'open'
    returning ${ENDED}),
  days as (${ADD_USAGE})
  select count(*) as rows from ended`;

export const DELETE_DEAD = `delete from instances where live = 0 and lease_until < $1::int8`;

function assignments(columns: LedgerColumns): string {
  return namesOf(columns)
    .map((name) => `${name} = given.${name}`)
    .join(', ');
}

function literal(value: Value): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

/** Converts the array parameters, starting at `$first`, to rows. */
function given(columns: LedgerColumns, first = 2): string {
  const arrays = Object.values(columns).map(
    ({ kind }, index) => `$${index + first}::${kind === 'text' ? 'text' : 'int8'}[]`,
  );
  return `unnest(${arrays.join(', ')}) as given (${namesOf(columns).join(', ')})`;
}
