import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assert as check, constantFrom, integer, oneof, property, tuple } from '../support/fast-check.ts';
import {
  addDays,
  countDays,
  daysBefore,
  daysOf,
  isDay,
  monthOf,
} from '../../console/src/components/date-range-days.ts';
import { filtersOf, NO_FILTERS, requestsPath, toQuery } from '../../console/src/requests/filters.ts';
import { moment } from '../../src/http/api/contract/schemas.ts';
import { selectionOf } from '../../console/src/pages/usage/selection.ts';

describe('days', () => {
  test('preset ranges end today, and months are calendar months', () => {
    assert.deepEqual(daysOf('today', '2026-11-22'), { from: '2026-11-22', to: '2026-11-23' });
    assert.deepEqual(daysOf('7d', '2026-03-03'), { from: '2026-02-25', to: '2026-03-04' });
    assert.deepEqual(daysOf('month', '2026-01-31'), { from: '2026-01-01', to: '2026-02-01' });
    assert.deepEqual(daysOf('last-month', '2026-01-31'), { from: '2025-12-01', to: '2026-01-01' });
    assert.equal(countDays(daysOf('90d', '2026-11-22')), 90);
  });

  test('the previous period has the same length; months are compared to months', () => {
    assert.deepEqual(daysBefore({ from: '2026-11-16', to: '2026-11-23' }, '7d'), {
      from: '2026-11-09',
      to: '2026-11-16',
    });
    // The same days of the previous month; February has no 30th.
    assert.deepEqual(daysBefore(daysOf('month', '2026-11-22'), 'month'), {
      from: '2026-10-01',
      to: '2026-10-23',
    });
    assert.deepEqual(daysBefore(daysOf('month', '2026-03-30'), 'month'), {
      from: '2026-02-01',
      to: '2026-03-01',
    });
    assert.deepEqual(daysBefore(daysOf('last-month', '2026-03-30'), 'last-month'), {
      from: '2026-01-01',
      to: '2026-02-01',
    });
  });

  test('invalid days are rejected', () => {
    for (const text of ['', '2026-02-30', '2026-2-3', '2026-11-21T00:00:00Z', 'today'])
      assert.ok(!isDay(text), text);
    assert.ok(isDay('2028-02-29'));
    assert.equal(addDays('2026-12-31', 1), '2027-01-01');
    assert.equal(monthOf('2026-01-15', -1), '2025-12-01');
  });
});

describe('the URL of the usage page', () => {
  const selection = (query: string, all = false) =>
    selectionOf(new URLSearchParams(query), '2026-11-22', all);

  test('the default range is thirty days', () => {
    const { range, days, unit, split } = selection('');
    assert.deepEqual([range, countDays(days), unit, split], ['30d', 30, 'day', 'none']);
  });

  test('a custom range wins over a preset, and short ranges are shown by hour', () => {
    const { range, days, unit } = selection('range=7d&from=2026-11-01&to=2026-11-03');
    assert.deepEqual([range, days, unit], [null, { from: '2026-11-01', to: '2026-11-03' }, 'hour']);
  });

  test('invalid values are ignored', () => {
    for (const query of [
      'range=ever',
      'from=2026-11-05&to=2026-11-05',
      'from=x&to=y',
      'from=2027-01-01&to=2027-02-01',
    ]) {
      assert.equal(selection(query).range, '30d', query);
    }
    assert.equal(selection('split=account').split, 'none');
    assert.equal(selection('split=account', true).split, 'account');
    assert.equal(selection('split=toString').split, 'none');
    assert.equal(selection('split=status').split, 'none');
    assert.equal(countDays(selection('from=1990-01-01&to=2026-11-22').days), 366);
  });
});

describe('the URL of the request log', () => {
  const queryOf = (query: string) => toQuery(filtersOf(new URLSearchParams(query)), '2026-11-22');

  test('is converted to the API query', () => {
    assert.deepEqual(queryOf(''), {});
    assert.deepEqual(queryOf('key=key_1&model=a%2Fb&client=OpenAI+Python&status=4xx'), {
      key_id: 'key_1',
      model: 'a/b',
      client: 'OpenAI Python',
      status_class: 4,
    });
    assert.deepEqual(queryOf('status=error'), { outcome: 'error' });
    assert.deepEqual(queryOf('status=running'), { state: 'open' });
    assert.deepEqual(queryOf('status=queue_full'), { error_code: 'queue_full' });
    assert.deepEqual(queryOf('range=today'), { from: '2026-11-22T00:00:00Z', to: '2026-11-23T00:00:00Z' });
    assert.deepEqual(queryOf('from=2026-11-21T13:00:00Z&to=2026-11-22'), {
      from: '2026-11-21T13:00:00Z',
      to: '2026-11-22T00:00:00Z',
    });
    assert.deepEqual(queryOf('from=yesterday&to=2026-11-21T13:00:00'), {});
    assert.deepEqual(queryOf('duration=2&ttft=0.0015&tokens=1,000&cost=0.01&note=retried'), {
      min_duration_ms: 2000,
      min_tokens: 1000,
      min_cost_usd: '0.01',
      note: 'retried',
    });
    assert.deepEqual(queryOf('duration=-1&ttft=86400.001&tokens=1.5&cost=1e3&note=toString'), {});
  });

  test('times that the API would refuse are ignored', () => {
    const two = (max: number) => integer({ min: 0, max }).map((value) => String(value).padStart(2, '0'));
    const day = tuple(constantFrom('0000', '1900', '2026', '2028', '9999'), two(13), two(32));
    const zone = oneof(
      constantFrom('Z', '', 'z', '-00:00'),
      tuple(constantFrom('+', '-'), two(25), two(60)).map(
        ([sign, hours, minutes]) => `${sign}${hours}:${minutes}`,
      ),
    );
    const seconds = oneof(
      constantFrom('', ':', ':00.', ':59.123456789'),
      two(61).map((value) => `:${value}`),
    );
    const time = tuple(two(25), two(61), seconds, zone);
    let accepted = 0;
    check(
      property(day, time, (days, [hours, minutes, rest, offset]) => {
        const text = `${days.join('-')}T${hours}:${minutes}${rest}${offset}`;
        const { from } = queryOf(`from=${encodeURIComponent(text)}`);
        if (from !== undefined) accepted++;
        const isAccepted = moment.safeParse(text).success;
        assert.equal(from, isAccepted ? text : undefined, text);
      }),
      { numRuns: 3000 },
    );
    assert.ok(accepted > 0);
  });

  test('restores the same filters', () => {
    const filters = {
      ...NO_FILTERS,
      key: 'key_1',
      model: 'a/b',
      status: '5xx',
      from: '2026-11-01',
      duration: '1.25',
      tokens: '1000',
      note: 'truncated' as const,
    };
    const path = requestsPath(filters, { scope: 'all' });
    assert.deepEqual(filtersOf(new URL(path, 'http://x').searchParams), filters);
    assert.match(path, /scope=all/);
    assert.equal(requestsPath({}), '/requests');
  });
});
