import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  array,
  assert as check,
  constantFrom,
  integer,
  oneof,
  property,
  string,
} from '../support/fast-check.ts';
import { csv } from '../../console/src/components/csv.ts';
import { compareValues, nextOrder, orderOf } from '../../console/src/components/table-order.ts';

test('the first click sorts numbers from the largest and texts from A, the second turns the order, the third ends it', () => {
  for (const [numeric, clicks] of [
    [true, ['-cost', 'cost', null]],
    [false, ['cost', '-cost', null]],
  ] as const) {
    let order = orderOf(null);
    for (const expected of clicks) {
      const text = nextOrder('cost', numeric, order);
      assert.equal(text, expected);
      order = orderOf(text);
    }
    assert.equal(nextOrder('name', false, orderOf('-cost')), 'name');
  }
});

test('decimal strings are compared as numbers, texts as people do, and missing values are last', () => {
  const order = (values: (string | number | null)[], descending: boolean) =>
    values.toSorted((a, b) => compareValues(a, b, descending));
  assert.deepEqual(order(['0.15', '10', null, '0.9', '9'], false), ['0.15', '0.9', '9', '10', null]);
  assert.deepEqual(order(['0.15', '10', null, '0.9', '9'], true), ['10', '9', '0.9', '0.15', null]);
  assert.deepEqual(order(['key-10', 'Key-9', 'a'], false), ['a', 'Key-9', 'key-10']);
  assert.deepEqual(order(['2026-11-02T00:00:00Z', '2025-12-31T00:00:00Z'], true), [
    '2026-11-02T00:00:00Z',
    '2025-12-31T00:00:00Z',
  ]);
});

test('a CSV file has the values of the cells, and no cell begins a formula', () => {
  const cell = oneof(
    string({ unit: constantFrom('a', '"', ',', '\r', '\n', '=', '-', '+', '@', '1') }),
    integer(),
  );
  check(
    property(array(cell, { minLength: 1, maxLength: 4 }), (cells) => {
      const read = parse(csv([cells]));
      assert.equal(read.length, cells.length);
      for (const [index, value] of cells.entries()) {
        const text = String(value);
        const isNumber = /^-?\d+$/.test(text);
        assert.equal(read[index], /^[=+\-@\t\r]/.test(text) && !isNumber ? `'${text}` : text);
      }
    }),
  );
});

/** Parses one record of RFC 4180. */
function parse(text: string): string[] {
  assert.ok(text.endsWith('\r\n'));
  const cells: string[] = [];
  const pattern = /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n$)/y;
  for (;;) {
    const [, quoted, plain, end] = pattern.exec(text) ?? assert.fail(text);
    cells.push(quoted?.replaceAll('""', '"') ?? plain ?? '');
    if (end === '\r\n') return cells;
  }
}
