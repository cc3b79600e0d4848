import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ItemOf } from '../../console/src/api/client.ts';
import { fold } from '../../console/src/components/fold.ts';
import {
  countOf,
  errorOf,
  isRefusedId,
  timelineOf,
  type Refusal,
} from '../../console/src/pages/requests/timeline.ts';
import { barsOf, daysOfPeriod, periodOf, statusCounts } from '../../console/src/requests/bars.ts';
import { canBeRefused, filtersOf } from '../../console/src/requests/filters.ts';

const HOUR = '2026-11-21T16:00:00Z';
const NEVER = { range: null, from: null, to: null };

describe('bars', () => {
  test('cover the chosen time until now, by hour up to two days', () => {
    const text = (range: Parameters<typeof periodOf>[0]) => {
      const { fromMs, toMs, unit } = periodOf(range, HOUR);
      return [fromMs, toMs].map((ms) => new Date(ms).toISOString().slice(0, 13)).concat(unit);
    };
    assert.deepEqual(text(NEVER), ['2026-10-22T00', '2026-11-22T00', 'day']);
    assert.deepEqual(text({ ...NEVER, range: 'today' }), ['2026-11-21T00', '2026-11-21T17', 'hour']);
    assert.deepEqual(text({ ...NEVER, range: '7d' }), ['2026-11-15T00', '2026-11-22T00', 'day']);
    assert.deepEqual(text({ range: null, from: '2026-11-20T01:30:00Z', to: '2026-11-20T02:30:00Z' }), [
      '2026-11-20T01',
      '2026-11-20T03',
      'hour',
    ]);
    // An open end, and an open start.
    assert.deepEqual(text({ ...NEVER, from: '2026-11-20' }), ['2026-11-20T00', '2026-11-21T17', 'hour']);
    assert.deepEqual(text({ ...NEVER, to: '2026-11-11' }), ['2026-10-12T00', '2026-11-11T00', 'day']);
    // At most a year.
    assert.deepEqual(text({ ...NEVER, from: '2001-01-01' }), ['2025-11-20T00', '2026-11-22T00', 'day']);
    const future = periodOf({ ...NEVER, from: '2027-01-01' }, HOUR);
    assert.deepEqual(barsOf(future, [], []), []);
    assert.deepEqual(daysOfPeriod(periodOf({ ...NEVER, range: 'today' }, HOUR)), {
      from: '2026-11-21',
      to: '2026-11-22',
    });
  });

  test('show periods without requests, and count refused requests beside the others', () => {
    const toMs = Date.parse(HOUR) + 3_600_000;
    const usage = [
      { hour: '2026-11-21T16:00:00.000Z', requests: 9, errors: 2, aborted: 3, interrupted: 1 },
      { hour: '2026-11-20T16:00:00.000Z', requests: 100, errors: 0, aborted: 0, interrupted: 0 },
    ] as unknown as ItemOf<'readUsage'>[];
    const refusals = [{ hour: '2026-11-20T17:00:00.000Z', count: 5 }];
    const bars = barsOf({ fromMs: toMs - 86_400_000, toMs, unit: 'hour' }, usage, refusals);
    const none = { completed: 0, failed: 0, refused: 0, disconnected: 0, interrupted: 0 };
    assert.equal(bars.length, 24);
    assert.deepEqual(bars[0], {
      ...none,
      from: '2026-11-20T17:00:00Z',
      to: '2026-11-20T18:00:00Z',
      refused: 5,
    });
    assert.deepEqual(bars.at(-1), {
      ...none,
      from: '2026-11-21T16:00:00Z',
      to: '2026-11-21T17:00:00Z',
      completed: 6,
      failed: 3,
      disconnected: 3,
      interrupted: 1,
    });
    const counts = { completed: 3, error: 2, client_disconnected: 3, interrupted: 1, refused: 5 };
    assert.deepEqual(statusCounts(bars), counts);
    // The hours of a day are added up.
    const day = periodOf({ ...NEVER, from: '2026-11-14', to: '2026-11-21' }, HOUR);
    const ofDay = barsOf(day, [], [...refusals, { hour: '2026-11-20T23:00:00.000Z', count: 2 }]);
    assert.equal(ofDay.length, 7);
    assert.equal(ofDay.at(-1)?.refused, 7);
  });
});

type Request = ItemOf<'listRequests'>;

const request = (id: string, minute: number, code: string | null = null, key = 'k'): Request =>
  ({
    id,
    started_at: `2026-11-21T16:${String(minute).padStart(2, '0')}:00.000Z`,
    state: 'settled',
    error_code: code,
    http_status: code === null ? 200 : 503,
    model: 'a/b',
    key_id: key,
  }) as Request;

const refusal = (minute: number, count: number, code = 'queue_full'): Refusal => ({
  account_id: 'acct',
  account_name: 'Acme',
  key_id: 'k',
  key_name: 'app',
  code,
  param: null,
  count,
  last_at: `2026-11-21T16:${String(minute).padStart(2, '0')}:30.000Z`,
  message: 'No.',
});

describe('the timeline', () => {
  const requests = [request('d', 40), request('c', 30), request('b', 20)];
  const refusals = [refusal(35, 7), refusal(10, 2, 'model_not_found')];
  const ids = (hasMore: boolean) =>
    timelineOf(requests, refusals, hasMore).map(({ id }) => (isRefusedId(id) ? 'refused' : id));

  test('has refused requests among the others, down to the last request that is loaded', () => {
    assert.deepEqual(ids(false), ['d', 'refused', 'c', 'b', 'refused']);
    assert.deepEqual(ids(true), ['d', 'refused', 'c', 'b']);
    assert.equal(countOf(timelineOf(requests, refusals, false)), 12);
  });

  test('folds adjacent requests with the same error', () => {
    const entries = timelineOf(
      [
        request('g', 59, 'queue_full'),
        request('f', 58, 'queue_full'),
        request('e', 57, 'queue_full', 'other'),
        request('d', 56),
        request('c', 55),
        request('b', 54, 'client_disconnected'),
        request('a', 53, 'client_disconnected'),
      ],
      [],
      false,
    );
    const rows = (isExpanded: boolean) =>
      fold(entries, errorOf, () => isExpanded).map(({ entry, group }) =>
        group === null ? entry.id : `${entry.id}+${group.length - 1}`,
      );
    assert.deepEqual(rows(false), ['g+1', 'e', 'd', 'c', 'b', 'a']);
    assert.deepEqual(rows(true), ['g+1', 'g', 'f', 'e', 'd', 'c', 'b', 'a']);
  });

  test('has refused requests only if every filter can match them', () => {
    const can = (query: string) => canBeRefused(filtersOf(new URLSearchParams(query)));
    for (const query of ['', 'key=k', 'range=7d', 'status=refused', 'status=queue_full'])
      assert.ok(can(query), query);
    for (const query of ['model=a', 'client=c', 'status=error', 'status=5xx', 'tokens=1', 'note=retried'])
      assert.ok(!can(query), query);
  });
});
