import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { USAGE_COUNTS } from '../../console/src/api/client.ts';
import {
  indexNow,
  isFree,
  overTime,
  rest,
  sumsOf,
  untilSameHour,
  timesOf,
  valuesOf,
  type Sums,
} from '../../console/src/pages/usage/buckets.ts';
import { changeOf, changeOfShare } from '../../console/src/pages/usage/change.ts';
import { csvOf } from '../../console/src/pages/usage/csv.ts';

const SUMS: Sums = {
  hour: null,
  day: null,
  model: null,
  key_id: null,
  account_id: null,
  key_name: null,
  account_name: null,
  client: null,
  member_id: null,
  member_name: null,
  tag: null,
  requests: 10,
  errors: 1,
  aborted: 2,
  interrupted: 3,
  prompt_tokens: 100,
  cached_tokens: 40,
  cache_miss_tokens: 25,
  completion_tokens: 50,
  reasoning_tokens: 30,
  billed_tokens: 150,
  cost_usd: '0.000000000001',
  ttft_ms: { p50: 20, p95: 40.5 },
  tokens_per_second: null,
};

describe('usage over time', () => {
  const days = { from: '2026-11-20', to: '2026-11-23' };

  test('has an entry for each UTC day or hour, used or not', () => {
    assert.equal(timesOf(days, 'day').length, 3);
    assert.equal(timesOf(days, 'hour').length, 72);
    const over = overTime(timesOf(days, 'day'), [{ ...SUMS, day: '2026-11-21' }]);
    assert.deepEqual(valuesOf(over, 'requests'), [0, 10, 0]);
    assert.deepEqual(valuesOf(over, 'completed'), [0, 4, 0]);
    assert.deepEqual(valuesOf(over, 'uncached'), [0, 60, 0]);
    assert.deepEqual(valuesOf(over, 'answer'), [0, 20, 0]);
    const hours = overTime(timesOf(days, 'hour'), [{ ...SUMS, hour: '2026-11-20T02:00:00.000Z' }]);
    assert.equal(valuesOf(hours, 'tokens').indexOf(150), 2);
  });

  test('the rest is the total minus the parts, and never negative', () => {
    assert.deepEqual(
      rest(
        [10, 5, 0],
        [
          [4, 5, 0],
          [1, 0, 0],
        ],
      ),
      [5, 0, 0],
    );
    assert.deepEqual(rest([0.3], [[0.1], [0.2000001]]), [0]);
  });

  test('the current hour or day is found, if it is in the range', () => {
    const now = '2026-11-21T16:00:00Z';
    assert.equal(indexNow(timesOf(days, 'day'), 'day', now), 1);
    assert.equal(indexNow(timesOf(days, 'hour'), 'hour', now), 40);
    assert.equal(indexNow(timesOf({ from: '2026-10-01', to: '2026-11-01' }, 'day'), 'day', now), undefined);
  });

  test('a period without charges is free', () => {
    assert.equal(isFree([null, { ...SUMS, cost_usd: '0' }]), true);
    assert.equal(isFree([null, SUMS]), false);
    assert.equal(isFree(undefined), false);
  });

  test('with constant traffic, a running day does not differ from the days before', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 30 }), fc.integer({ min: 1, max: 24 }), (running, begun) => {
        const hour = { ...SUMS, requests: 100 };
        const day = { ...SUMS, requests: 2400 };
        const before = Array.from({ length: 31 }, () => day);
        const hours = { before: Array.from({ length: 24 }, () => hour), begun };
        const entries = untilSameHour({ running, before, hours });
        assert.equal(sumsOf(entries, SUMS).requests, running * 2400 + begun * 100);
        assert.equal(untilSameHour({ running: undefined, before, hours: null }), before);
      }),
    );
  });

  test('an incomplete day is compared to the same number of hours', () => {
    const over = [{ ...SUMS, cost_usd: '0.5' }, null, { ...SUMS, cost_usd: '0.25' }];
    const entries = untilSameHour({ running: 1, before: over, hours: null });
    const until = sumsOf(entries, SUMS);
    assert.deepEqual([until.requests, until.prompt_tokens, Number(until.cost_usd)], [10, 100, 0.5]);
    const twice = sumsOf([SUMS, SUMS], SUMS);
    for (const count of USAGE_COUNTS) assert.equal(twice[count], 2 * SUMS[count], count);
  });
});

describe('a change', () => {
  const text = (now: number | null, before: number | null) => changeOf(now, before)?.text ?? null;

  test('is a percentage, a factor or "new"', () => {
    assert.match(text(112, 100) ?? '', /^\+12\s?%$/);
    assert.match(text(50, 100) ?? '', /^−50\s?%$/);
    assert.equal(text(100, 100), '0%');
    assert.equal(text(0, 0), '0%');
    assert.equal(text(3, 0), 'new');
    assert.equal(text(500, 10), '50×');
    assert.match(text(0, 4) ?? '', /^−100\s?%$/);
  });

  test('of a share is a number of percentage points', () => {
    const points = (now: number | null, before: number | null) => changeOfShare(now, before)?.text ?? null;
    assert.equal(points(0.04, 0.02), '+2 points');
    assert.equal(points(0.0105, 0.033), '−2.3 points');
    assert.equal(points(0.5, 0), '+50 points');
    assert.equal(points(0.0201, 0.02), '0 points');
    assert.equal(points(null, 0.02), null);
  });

  test('is null if one of the values is unknown', () => {
    assert.equal(text(null, 1), null);
    assert.equal(text(1, null), null);
  });
});

describe('usage as CSV', () => {
  test('has ISO dates, exact amounts, and dimensions first', () => {
    const csv = csvOf(['day', 'model'], [{ ...SUMS, day: '2026-11-21', model: 'a/b' }]);
    const [heading, line, end] = csv.split('\r\n');
    assert.match(heading ?? '', /^day,model,requests,errors,client_disconnected,interrupted,/);
    assert.equal(line, '2026-11-21,a/b,10,1,2,3,100,40,25,50,30,150,0.000000000001,20,40.5,,');
    assert.equal(end, '');
  });

  test('quotes fields where needed, and escapes names that look like formulas', () => {
    const csv = csvOf(
      ['key'],
      [
        { ...SUMS, key_id: 'key_1', key_name: '=SUM(A1)' },
        { ...SUMS, key_id: 'key_2', key_name: 'mine, "quoted"' },
      ],
    );
    assert.match(csv, /\r\nkey_1,'=SUM\(A1\),10,/);
    assert.match(csv, /\r\nkey_2,"mine, ""quoted""",10,/);
  });
});
