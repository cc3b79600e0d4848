import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { formatTraceparent, isSampled, parseTraceparent } from '../../src/tracing/tracer.ts';

/** Any ID of this many hexadecimal digits. */
const hex = (digits: number) =>
  fc.bigInt({ min: 1n, max: 16n ** BigInt(digits) - 1n }).map((id) => id.toString(16).padStart(digits, '0'));

test('a traceparent that was written is read with the same values', () => {
  fc.assert(
    fc.property(hex(32), hex(16), fc.boolean(), (traceId, spanId, sampled) => {
      const context = { traceId, spanId, sampled };
      assert.deepEqual(parseTraceparent(formatTraceparent(context)), context);
    }),
  );
});

test('other versions are read like version 00, and may have more fields', () => {
  const [trace, span] = ['4bf92f3577b34da6a3ce929d0e0e4736', '00f067aa0ba902b7'];
  const expected = { traceId: trace, spanId: span, sampled: true };
  assert.deepEqual(parseTraceparent(`cc-${trace}-${span}-01-what-follows`), expected);
  assert.deepEqual(parseTraceparent(` 00-${trace}-${span}-03 `), expected);
  assert.deepEqual(parseTraceparent(`00-${trace}-${span}-02`), { ...expected, sampled: false });
  for (const invalid of [
    undefined,
    '',
    'x',
    [`00-${trace}-${span}-01`, `00-${trace}-${span}-01`],
    `ff-${trace}-${span}-01`,
    `00-${trace}-${span}-01-more`,
    `00-${trace}-${span}`,
    `00-${trace.toUpperCase()}-${span}-01`,
    `00-${'0'.repeat(32)}-${span}-01`,
    `00-${trace}-${'0'.repeat(16)}-01`,
    `00-${trace}-${span}-0g`,
    `00-${trace}x-${span}-01`,
  ]) {
    assert.equal(parseTraceparent(invalid), null, String(invalid));
  }
});

test('a share of all traces is sampled, and a larger share includes the smaller one', () => {
  fc.assert(
    fc.property(hex(32), fc.double({ min: 0, max: 1, noNaN: true }), (traceId, ratio) => {
      assert.equal(isSampled(traceId, 1), true);
      assert.equal(isSampled(traceId, 0), false);
      if (isSampled(traceId, ratio)) assert.ok(isSampled(traceId, Math.min(1, ratio * 1.5)));
    }),
  );
  const ids = Array.from({ length: 1000 }, (_, index) =>
    ((index * 16 ** 10 * 4398) % 16 ** 13).toString(16).padStart(32, '0'),
  );
  const sampled = ids.filter((id) => isSampled(id, 0.25)).length;
  assert.ok(sampled > 150 && sampled < 350, String(sampled));
});
