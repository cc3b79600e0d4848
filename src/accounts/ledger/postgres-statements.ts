import { CHECKPOINTED, OPENED, SETTLED, type Column, type Columns } from '../../database/ledger-columns.ts';
import { INITIAL, namesOf } from './columns.ts';
import type { Statement } from './postgres-connection.ts';
import { USAGE_SUMS } from './roll-ups.ts';
import { HUNG_UP, WAIVED, type Value } from './write.ts';

/**
 * Every write holds the row of its own live instance (`$1`) until it commits, in a way that heartbeats do not wait
 * for and reapers do; without that row it writes nothing.
 */
const LIVE = `live as materialized (
  select epoch from instances where epoch = $1::int8 and live = 1 for key share)`;

/**
 * Says no more than `state = 'open'`, in words that keep the planner from the index of open rows: it would read all
 * of them for each that is written.
 */
const IS_OPEN = "ledger.state not in ('settled', 'interrupted')";

const IS_LIVE = 'select exists (select from live) as live';

const NOW_MS = '(extract(epoch from clock_timestamp()) * 1000)::int8';

/** What the roll-ups want of a row that has ended. */
const ENDED = `account_id, key_id, model, (started_at / 86400000)::int4 as day, ledger.state, ledger.error_code,
  ledger.prompt_tokens, ledger.cached_tokens, ledger.completion_tokens, ledger.billed, ledger.cost_pico`;

/** Sums of `ended` by day, added to what is there in the order of the keys: no two transactions wait crosswise. */
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
    count(*) filter (where state = 'settled' and error_code <> '${HUNG_UP}'),
    count(*) filter (where state = 'settled' and error_code = '${HUNG_UP}'),
    count(*) filter (where state = 'interrupted'),
    sum(prompt_tokens)::int8, sum(cached_tokens)::int8, sum(completion_tokens)::int8,
    sum(case when billed = 1 then prompt_tokens + completion_tokens else 0 end)::int8,
    sum(cost_pico)::int8`);

/** Makes errors of rows that had been added as billed. */
const WAIVE_USAGE = addUsage(`
    0, count(*), -count(*) filter (where error_code = '${HUNG_UP}'), 0, 0, 0, 0,
    -sum(prompt_tokens + completion_tokens)::int8, -sum(cost_pico)::int8`);

/** The columns of `SettledValues`. */
const BUCKET: Column = { kind: 'integer', initial: null };
const SETTLEMENT = { id: OPENED.id, ttft: BUCKET, speed: BUCKET, ...SETTLED } as const;

/** Their first parameter is the epoch; the others are arrays, one a column. */
export const OPEN: Statement = {
  name: 'ledger_open',
  text: `
    with ${LIVE}, written as (
      insert into ledger (${namesOf(OPENED).join(', ')}, epoch, ${INITIAL.names})
      select given.*, live.epoch, ${INITIAL.values} from ${given(OPENED)}, live)
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

/** Tells also the ids that were not open. */
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

/** Of rows that were settled with just these values; whichever copy it was. */
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

/** Which of the ids `$2` this copy has settled. */
export const SETTLED_BY: Statement = {
  name: 'ledger_settled_by',
  text: `select id from ledger where id = any ($2::text[]) and epoch = $1::int8 and state = 'settled'`,
};

export const REGISTER = `
  insert into instances (live, lease_until, started_at, pid)
  values (1, ${NOW_MS} + $1::int8, ${NOW_MS}, $2::int4) returning epoch`;

export const BEAT: Statement = {
  name: 'ledger_beat',
  text: `update instances set lease_until = ${NOW_MS} + $2::int8 where epoch = $1::int8 and live = 1`,
};

/** The instances whose lease has ended, but those that another reaper has, or whose own write is under way. */
export const EXPIRED = `
  select epoch from instances where live = 1 and lease_until < ${NOW_MS} and epoch <> $1::int8
  for update skip locked`;

export const BURY =
  'update instances set live = 0 where epoch = any ($1::int8[]) and live = 1 returning epoch';

/** Settles the open rows of dead instances; a statement after the lock was taken, so that it sees the last of them. */
export const INTERRUPT = `
  with ended as (
    update ledger set state = 'interrupted', ended_at = case when $2::boolean then ${NOW_MS} end
    where epoch = any ($1::int8[]) and state = 'open'
    returning ${ENDED}),
  days as (${ADD_USAGE})
  select count(*) as rows from ended`;

export const FORGET = `delete from instances where live = 0 and lease_until < $1::int8`;

function assignments(columns: Columns): string {
  return namesOf(columns)
    .map((name) => `${name} = given.${name}`)
    .join(', ');
}

function literal(value: Value): string {
  return typeof value === 'string' ? `'${value}'` : String(value);
}

/** The parameters from the `first` on as rows. */
function given(columns: Columns, first = 2): string {
  const arrays = Object.values(columns).map(
    ({ kind }, index) => `$${index + first}::${kind === 'text' ? 'text' : 'int8'}[]`,
  );
  return `unnest(${arrays.join(', ')}) as given (${namesOf(columns).join(', ')})`;
}
