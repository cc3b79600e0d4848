import { useAccountNames, useKeyNames } from '../../api/names.ts';
import { useRead, useReads } from '../../api/queries.ts';
import type { Days } from '../../components/date-range-days.ts';
import type { Scope } from '../../shell/scope.tsx';
import { overTime, ranked, timesOf, type OverTime, type Sums } from './buckets.ts';
import type { Question, Split } from './question.ts';

/** Most parts that are drawn by themselves; the rest is drawn as one. */
const MOST_PARTS = 5;
const EVERY_MS = 60_000;

/** What the service is asked with for the usage of these days. */
export function usageQuery(scope: Scope, { model, key }: Question, { from, to }: Days) {
  return {
    ...scope.query,
    ...(model !== null && { model }),
    ...(key !== null && { key_id: key }),
    from,
    to,
  };
}

/** All that was used in the days of a question, and in those before. */
export function useUsage(scope: Scope, question: Question) {
  const { unit, days, before } = question;
  const options = { keep: true, everyMs: EVERY_MS };
  const now = usageQuery(scope, question, days);
  const then = usageQuery(scope, question, before);
  const all = useRead('readUsage', { query: now }, options);
  const allBefore = useRead('readUsage', { query: then }, options);
  const over = useRead('readUsage', { query: { ...now, by: unit } }, options);
  const overBefore = useRead('readUsage', { query: { ...then, by: unit } }, options);
  const reads = [all, allBefore, over, overBefore];
  const times = timesOf(days, unit);
  const timesBefore = timesOf(before, unit);
  return {
    error: reads.find(({ error }) => error !== null)?.error ?? null,
    refetch: () => reads.forEach((read) => void read.refetch()),
    /** What is shown is of another question, until the answer to this one is there. */
    isStale: reads.some(({ isPlaceholderData }) => isPlaceholderData),
    times,
    all: all.data?.data[0],
    allBefore: allBefore.data?.data[0],
    over: over.data && overTime(times, over.data.data),
    overBefore: overBefore.data && fitted(overTime(timesBefore, overBefore.data.data), times.length),
  };
}

/** Months are not equally long: as many as there are times. */
const fitted = (over: OverTime, count: number): OverTime =>
  Array.from({ length: count }, (_, index) => over[index] ?? null);

/** What a split is called in a question and in its answer. */
const PARTS = {
  model: { column: 'model', filter: 'model' },
  key: { column: 'key_id', filter: 'key_id' },
  account: { column: 'account_id', filter: 'account_id' },
} as const;

/** What the sums are of. */
export const partOf = (sums: Sums, by: Exclude<Split, 'status'>): string => sums[PARTS[by].column] ?? '';

/** A part of the usage. */
export interface Part {
  id: string;
  label: string;
  over: OverTime;
}

/** The parts that used the most, over time; null until they are there, and where nothing is taken apart. */
export function useParts(scope: Scope, question: Question, times: readonly number[]): Part[] | null {
  const { split, unit, days } = question;
  const by = split === 'status' ? null : split;
  const base = usageQuery(scope, question, days);
  const sums = useRead(
    'readUsage',
    { query: { ...base, by: by ?? 'model' } },
    { enabled: by !== null, everyMs: EVERY_MS },
  );
  const most = by === null ? [] : ranked(sums.data?.data ?? []).slice(0, MOST_PARTS);
  const ids = by === null ? [] : most.map((row) => partOf(row, by));
  const reads = useReads(
    'readUsage',
    by === null ? [] : ids.map((id) => ({ query: { ...base, [PARTS[by].filter]: id, by: unit } })),
  );
  const nameOf = useNames(scope, by, ids);
  if (by === null || sums.data === undefined) return null;
  const parts = ids.flatMap((id, index) => {
    const read = reads[index];
    if (read === undefined) return [];
    const short = shortName(nameOf(id), by);
    const isAlone = ids.filter((other) => shortName(nameOf(other), by) === short).length === 1;
    const full = by === 'model' ? id : `${nameOf(id)} (${id.slice(-4)})`;
    return [{ id, label: isAlone ? short : full, over: overTime(times, read.data) }];
  });
  return parts.length === ids.length ? parts : null;
}

/** Of a model without who made it: below a chart there is little room. */
const shortName = (name: string, by: Split): string =>
  by === 'model' ? (name.split('/').at(-1) ?? name) : name;

/** Names of models, keys or accounts by their ids. */
export function useNames(scope: Scope, by: Split | null, ids: readonly string[]): (id: string) => string {
  const keys = useKeyNames(scope.query, by === 'key' ? ids : []);
  const accounts = useAccountNames(by === 'account');
  return by === 'key' ? keys : by === 'account' ? accounts : (id) => id;
}
