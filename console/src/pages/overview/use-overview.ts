import { useKeys, useRead } from '../../api/queries.ts';
import { addDays, monthOf, useHour } from '../../components/date-range-days.ts';
import type { Period } from '../../requests/bars.ts';
import { requestsPath, type Filters } from '../../requests/filters.ts';
import { scopeInQuery, type Scope } from '../../state/account.ts';

/** Refetch interval of the page, in milliseconds. */
const EVERY_MS = 15_000;

const HOURS = 24;

export const MAX_FAILED = 200;

/** Reads all that the page shows, and returns it with the paths of its links. `accountId`: whose limits are shown. */
export function useOverview(scope: Scope, accountId: string | null) {
  const hour = useHour();
  const today = hour.slice(0, 10);
  const days = { from: addDays(today, -1), to: addDays(today, 1) };
  const toMs = Date.parse(hour) + 3_600_000;
  const period: Period = { fromMs: toMs - HOURS * 3_600_000, toMs, unit: 'hour' };
  const since = new Date(period.fromMs).toISOString();
  const { query } = scope;
  const options = { everyMs: EVERY_MS, keep: true };
  const usageOf = (more: { from: string; by?: string; top?: number }) => ({
    query: { ...query, to: days.to, ...more },
  });
  const failed = { outcome: 'error', from: since, limit: MAX_FAILED } as const;
  const links = scopeInQuery(scope);
  return {
    period,
    latest: useRead('listRequests', { query: { ...query, limit: 1 } }, options),
    failed: useRead('listRequests', { query: { ...query, ...failed } }, options),
    refusals: useRead('listRefusals', { query: { ...query, hours: HOURS } }, options),
    refused: useRead('countRefusals', { query: { ...query, hours: HOURS } }, options),
    byHour: useRead('readUsage', usageOf({ ...days, by: 'hour' }), options),
    ofDays: useRead('readUsage', usageOf(days), options),
    byModel: useRead('readUsage', usageOf({ ...days, by: 'model' }), options),
    ofMonth: useRead('readUsage', usageOf({ from: monthOf(today) }), options),
    // Those with the most tokens, which are not always the most expensive.
    byKey: useRead('readUsage', usageOf({ from: monthOf(today), by: 'key', top: 100 }), options),
    models: useRead('listServedModels', undefined, options),
    keys: useKeys(query),
    limits: useRead(
      'readLimits',
      { query: { account_id: accountId ?? '' } },
      { ...options, enabled: accountId !== null },
    ),
    health: useRead('readHealth', undefined, { ...options, enabled: scope.all }),
    alerts: useRead('listAlerts', undefined, { ...options, enabled: scope.all }),
    usage: (filters: Record<string, string> = days) =>
      `/usage?${new URLSearchParams({ ...links, ...filters })}`,
    requests: (filters: Partial<Filters>) => requestsPath({ from: since, ...filters }, links),
    refusedPath: requestsPath({ status: 'refused', from: since }, links),
    days,
  };
}

export type OverviewReads = ReturnType<typeof useOverview>;
