import { both, together, useRead, useReads, type QueryState } from '../../api/queries.ts';
import { addDays, dayAt, type Days } from '../../components/date-range-days.ts';
import { groupName, groupOf, GROUPS, type Group } from '../../format/usage-groups.ts';
import type { Scope } from '../../state/account.ts';
import { indexNow, overTime, sumsOf, timesOf, untilSameHour, type OverTime } from './buckets.ts';
import type { Selection } from './selection.ts';

/** Maximum number of groups in a chart; the rest is combined. */
const MAX_PARTS = 5;
const EVERY_MS = 60_000;

/** Returns the API query for the usage of these days. */
export function usageQuery(scope: Scope, { model, key }: Selection, { from, to }: Days) {
  return {
    ...scope.query,
    ...(model !== null && { model }),
    ...(key !== null && { key_id: key }),
    from,
    to,
  };
}

/** Loads the usage of the selected and the previous period. `hour`: the current one, ISO 8601. */
export function useUsage(scope: Scope, selection: Selection, hour: string) {
  const { unit, days, before } = selection;
  const options = { keep: true, everyMs: EVERY_MS };
  const now = usageQuery(scope, selection, days);
  const then = usageQuery(scope, selection, before);
  const all = useRead('readUsage', { query: now }, options);
  const allBefore = useRead('readUsage', { query: then }, options);
  const over = useRead('readUsage', { query: { ...now, by: unit } }, options);
  const overBefore = useRead('readUsage', { query: { ...then, by: unit } }, options);
  const times = timesOf(days, unit);
  const timesBefore = timesOf(before, unit);
  const running = indexNow(times, unit, hour);
  const startedAt = unit === 'day' && running !== undefined ? timesBefore[running] : undefined;
  // The day before that corresponds to today, whose hours until now are compared.
  const day = dayAt((startedAt ?? 0) * 1000);
  const dayBefore = { from: day, to: addDays(day, 1) };
  const hoursOfDay = useRead(
    'readUsage',
    { query: { ...then, ...dayBefore, by: 'hour' } },
    { keep: true, enabled: startedAt !== undefined },
  );
  const hoursBefore = hoursOfDay.data && overTime(timesOf(dayBefore, 'hour'), hoursOfDay.data.data);
  const begun = new Date(hour).getUTCHours() + 1;
  return {
    /** The data is of the previous selection while the new one loads. */
    isStale: [all, allBefore, over, overBefore].some(({ isPlaceholderData }) => isPlaceholderData),
    times,
    all: mapped(all, ({ data: [sums] }) => sums),
    /** Of the previous period, up to the same hour. */
    allBefore: mapped(
      both(allBefore, overBefore),
      ([
        {
          data: [sums],
        },
        { data },
      ]) => {
        if (sums === undefined || running === undefined) return sums;
        const whole = overTime(timesBefore, data);
        const hours = startedAt === undefined ? null : hoursBefore && { before: hoursBefore, begun };
        return hours === undefined
          ? undefined
          : sumsOf(untilSameHour({ running, before: whole, hours }), sums);
      },
    ).data,
    isRunning: running !== undefined,
    over: mapped(over, ({ data }) => overTime(times, data)),
    overBefore: mapped(overBefore, ({ data }) => fitted(overTime(timesBefore, data), times.length)),
  };
}

/** Models whose savings are summed. */
const MAX_SAVING = 1000;

/**
 * Returns how much less the cached tokens of the selected period cost than uncached ones, in USD, at the current prices
 * of the models that are still served; null: nothing, or not loaded. The ledger has only what was charged.
 */
export function useSaved(scope: Scope, selection: Selection): string | null {
  const query = { ...usageQuery(scope, selection, selection.days), by: 'model', top: MAX_SAVING };
  const byModel = useRead('readUsage', { query }, { keep: true });
  const served = useRead('listServedModels', undefined);
  const prices = new Map(served.data?.data.map(({ id, pricing }) => [id, pricing]));
  let saved = 0;
  for (const { model, cached_tokens: cached } of byModel.data?.data ?? []) {
    const price = prices.get(model ?? '');
    if (price?.input_cache_read == null) continue;
    // USD per million tokens.
    saved += (cached * (Number(price.prompt) - Number(price.input_cache_read))) / 1e6;
  }
  return saved > 0 ? saved.toFixed(9) : null;
}

function mapped<From, To>(
  { data, error, refetch }: QueryState<From>,
  map: (data: From) => To | undefined,
): QueryState<To> {
  return { data: data && map(data), error, refetch };
}

/** Cuts or pads the list to `count` entries, because months differ in length. */
const fitted = (over: OverTime, count: number): OverTime =>
  Array.from({ length: count }, (_, index) => over[index] ?? null);

/** A group of the usage. */
export interface UsageSeries {
  id: string;
  label: string;
  over: OverTime;
}

/** Loads the groups with the most usage. Never has data if usage is not grouped. */
export function useParts(
  scope: Scope,
  selection: Selection,
  times: readonly number[],
): QueryState<UsageSeries[]> {
  const { split, unit, days } = selection;
  const by = split === 'none' ? null : split;
  const base = usageQuery(scope, selection, days);
  const sums = useRead(
    'readUsage',
    { query: { ...base, by: by ?? 'model', top: MAX_PARTS } },
    { enabled: by !== null, everyMs: EVERY_MS },
  );
  const most = sums.data?.data ?? [];
  const ids = by === null ? [] : most.map((row) => groupOf(row, by));
  const reads = useReads(
    'readUsage',
    by === null ? [] : ids.map((id) => ({ query: { ...base, [GROUPS[by].id]: id, by: unit } })),
    // Like the total, of which they are parts.
    { everyMs: EVERY_MS },
  );
  const state = together([sums, ...reads]);
  if (by === null || sums.data === undefined) return { data: undefined, ...state };
  const names = most.map((row) => groupName(row, by));
  const parts = ids.flatMap((id, index) => {
    const [read, name] = [reads[index]?.data, names[index]];
    if (read === undefined || name === undefined) return [];
    const short = shortName(name, by);
    const isAlone = names.filter((other) => shortName(other, by) === short).length === 1;
    const full = by === 'model' ? id : `${name} (${id.slice(-4)})`;
    return [{ id, label: isAlone ? short : full, over: overTime(times, read.data) }];
  });
  return { data: parts.length === ids.length ? parts : undefined, ...state };
}

/** Shortens a model id to the part after the namespace, for chart legends. */
const shortName = (name: string, by: Group): string =>
  by === 'model' ? (name.split('/').at(-1) ?? name) : name;
