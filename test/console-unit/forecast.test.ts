import assert from 'node:assert/strict';
import { test } from 'node:test';
import { forecastOf } from '../../console/src/format/limits.ts';

const MONTH = {
  limit: 'usd_per_month',
  bound: '100',
  reserved: '0',
  resets_at: '2026-12-01T00:00:00.000Z',
} as const;
const DAY = {
  limit: 'tokens_per_day',
  bound: 24_000,
  reserved: 0,
  resets_at: '2026-11-28T00:00:00.000Z',
} as const;
const at = Date.parse;

test('a forecast assumes the average pace since the start of the day or month', () => {
  assert.deepEqual(forecastOf({ ...MONTH, used: '30' }, at('2026-11-16T00:00:00Z')), {
    window: 'month',
    share: 0.6,
    amount: '60.000000',
    reachedAtMs: null,
  });
  assert.deepEqual(forecastOf({ ...DAY, used: 12_000 }, at('2026-11-27T06:00:00Z')), {
    window: 'day',
    share: 2,
    amount: '48000',
    reachedAtMs: at('2026-11-27T12:00:00Z'),
  });
});

test('a forecast does not count what running requests have reserved', () => {
  const sixth = at('2026-11-27T06:00:00Z');
  const settled = forecastOf({ ...DAY, used: 2000 }, sixth);
  assert.deepEqual(forecastOf({ ...DAY, used: 34_768, reserved: 32_768 }, sixth), settled);
  assert.equal(forecastOf({ ...DAY, used: 32_768, reserved: 32_768 }, sixth), null);
});

test('the time at which a limit is reached is told only before it is reached', () => {
  assert.equal(forecastOf({ ...DAY, used: 24_000 }, at('2026-11-27T06:00:00Z'))?.reachedAtMs, null);
});

test('there is no forecast for other limits, without usage, or from too little of the time', () => {
  const noon = at('2026-11-27T12:00:00Z');
  assert.equal(forecastOf({ ...DAY, limit: 'tokens_per_minute', used: 5 }, noon), null);
  assert.equal(forecastOf({ ...DAY, used: 0 }, noon), null);
  assert.equal(forecastOf({ ...DAY, resets_at: null, used: 5 }, noon), null);
  assert.equal(forecastOf({ ...DAY, used: 5 }, at('2026-11-27T01:00:00Z')), null);
  assert.equal(
    forecastOf({ ...DAY, used: 5 }, at('2026-11-28T00:00:00Z')),
    null,
    'the clock of the browser is ahead',
  );
});
