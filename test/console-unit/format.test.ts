import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { exactMoney, exactMoneyColumn, money, moneyColumn } from '../../console/src/format/money.ts';
import { bytes, percentColumn } from '../../console/src/format/number.ts';
import { ago, duration, localTime, utcSpan, wait } from '../../console/src/format/time.ts';
import { ROOT } from '../docs/markdown.ts';
import { dropSettings } from '../support/environment.ts';

dropSettings();

describe('money', () => {
  test('of a single amount has cents, or three significant digits below a dollar', () => {
    assert.deepEqual(['0', '1234567.8', '0.5', '0.000123456', '-2.5'].map(money), [
      '$0.00',
      '$1,234,567.80',
      '$0.50',
      '$0.000123',
      '−$2.50',
    ]);
  });

  test('of a single amount is rounded as in a column', () => {
    for (const usd of ['2.139', '2.135', '2.134', '999.999'])
      assert.equal(money(usd), moneyColumn([usd])(usd));
    assert.deepEqual(['0.09267', '0.9996'].map(money), ['$0.0927', '$1.00']);
  });

  test('of a tiny amount is short enough to be read in full', () => {
    assert.deepEqual(['0.0000012', '0.00000004', '0.000000000001'].map(money), [
      '$0.000001',
      '<$0.000001',
      '<$0.000001',
    ]);
  });

  test('in a column has as many decimals in every row as the largest amount requires', () => {
    const column = (...amounts: string[]) => amounts.map(moneyColumn(amounts));
    assert.deepEqual(column('1234.567', '0.1', '0.001', '0'), ['$1,234.57', '$0.10', '<$0.01', '$0.00']);
    assert.deepEqual(column('0.05', '0.00123', '0'), ['$0.0500', '$0.0012', '$0.0000']);
    assert.deepEqual(column('0.00043', '0.0000004'), ['$0.000430', '<$0.000001']);
    assert.deepEqual(column('0', '0'), ['$0.00', '$0.00']);
    assert.deepEqual(column('-1.005', '0.995'), ['−$1.01', '$1.00']);
  });

  test('is exact on hover, and in receipts with aligned decimals', () => {
    assert.equal(exactMoney('1234.500000000001'), '$1,234.500000000001');
    assert.equal(exactMoney('3'), '$3.00');
    const amounts = ['0.0001', '12', '-0.25'];
    assert.deepEqual(amounts.map(exactMoneyColumn(amounts)), ['$0.0001', '$12.0000', '−$0.2500']);
  });
});

describe('percentages', () => {
  test('in a column have one decimal, and only exact 0 and 1 are shown as 0.0% and 100.0%', () => {
    const shares = [0, 0.0001, 0.125, 0.5, 0.9999, 1].map((share) => percentColumn(share).replace(/\s/, ''));
    assert.deepEqual(shares, ['0.0%', '<0.1%', '12.5%', '50.0%', '>99.9%', '100.0%']);
  });
});

test('bytes are in units of 1000, as in the messages of the service', () => {
  assert.deepEqual([0, 999, 98_400_000, 20_800_000_000].map(bytes), ['0 B', '999 B', '98.4 MB', '20.8 GB']);
});

test('numbers and times are in English in browsers with another language, with the 24 hours of its users', () => {
  const script = `
    const { percent, whole, oneDecimal } = await import('./console/src/format/number.ts');
    const { ago, dateTime } = await import('./console/src/format/time.ts');
    const at = '2026-11-22T18:05:00Z';
    console.log([whole(1234567), oneDecimal(0.25), percent(0.125), ago(at, Date.parse(at) + 120_000), dateTime(at)].join('|'));
  `;
  const env = { ...process.env, LC_ALL: 'de_DE.UTF-8', TZ: 'UTC' };
  const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', script], {
    cwd: ROOT,
    env,
    encoding: 'utf8',
  });
  assert.equal(stdout.trim(), '1,234,567|0.3|12.5%|2 min. ago|Nov 22, 2026, 18:05');
});

describe('times', () => {
  test('days ago are days of the calendar', () => {
    const local = (...parts: [number, number, number, number, number]) => new Date(...parts);
    const now = local(2026, 10, 22, 0, 30).getTime();
    const before = (...parts: [number, number, number, number, number]) =>
      ago(local(...parts).toISOString(), now);
    assert.equal(before(2026, 10, 21, 0, 15), 'yesterday');
    assert.equal(before(2026, 10, 20, 23, 30), '2 days ago');
    assert.equal(before(2026, 10, 20, 1, 0), '2 days ago');
    assert.equal(before(2026, 10, 23, 23, 59), 'tomorrow');
  });

  test('a remaining time is rounded up to whole seconds', () => {
    assert.deepEqual([0, 1, 1001, 59_001, 250_000].map(wait), [
      '0 s',
      '1 s',
      '2 s',
      '1 min 0 s',
      '4 min 10 s',
    ]);
  });

  test('durations that round to 1000 ms, 60 s or 60 min are shown in the next unit', () => {
    assert.deepEqual([0, 0.42, 9.96, 999.6, 9996, 59_960, 3_599_600, 7_500_000, 200_000_000].map(duration), [
      '0 ms',
      '0.4 ms',
      '10 ms',
      '1.00 s',
      '10.0 s',
      '1 min 0 s',
      '1 h 0 min',
      '2 h 5 min',
      '2 d 7 h',
    ]);
  });

  test('UTC days and local times are labeled as such', () => {
    assert.match(utcSpan('day')(Date.parse('2026-11-22') / 1000), /22.* UTC$/);
    assert.match(utcSpan('hour')(Date.parse('2026-11-22T23:00:00Z') / 1000), /22.*23.* UTC$/);
    assert.match(localTime('2026-12-01T00:00:00.000Z'), / local time$/);
  });

  test('only one folder contains the formatting of numbers and times', async () => {
    const source = join(ROOT, 'console', 'src');
    for await (const path of glob('**/*.{ts,tsx}', { cwd: source })) {
      if (path.startsWith('format')) continue;
      assert.doesNotMatch(await readFile(join(source, path), 'utf8'), /\bIntl\.|\.toLocale/, path);
    }
  });
});
