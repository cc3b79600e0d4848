import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { costLines, costOf, picoPerToken, usdText } from '../../../src/accounts/ledger/cost.ts';

const price = fc.integer({ min: 0, max: 999_999_999_999_999 });
const tokens = fc.integer({ min: 0, max: 10_000_000 });
const usage = fc.record({ promptTokens: tokens, completionTokens: tokens, cachedTokens: tokens });

test('a price in USD per million tokens is a whole number of pico-dollars per token', () => {
  assert.equal(picoPerToken('0.15'), 150_000);
  assert.equal(picoPerToken('0.000001'), 1);
  assert.equal(picoPerToken('2'), 2_000_000);
  assert.equal(picoPerToken('0'), 0);
  assert.equal(picoPerToken('999999999.999999'), 999_999_999_999_999);
});

test('every price that the configuration accepts is exact', () => {
  fc.assert(
    fc.property(price, (pico) => {
      const digits = pico.toString().padStart(7, '0');
      assert.equal(picoPerToken(`${digits.slice(0, -6)}.${digits.slice(-6)}`), pico);
    }),
  );
});

test('a price that is not a decimal is refused', () => {
  for (const text of ['', '-1', '1e3', '.5', '1.', '0.0000001', '1234567890', ' 1', 'NaN']) {
    assert.throws(() => picoPerToken(text), RangeError, text);
  }
});

test('a cost of any size is tokens times price', () => {
  fc.assert(
    fc.property(usage, price, price, (used, prompt, completion) => {
      assert.equal(
        costOf(used, { prompt, completion }),
        BigInt(used.promptTokens) * BigInt(prompt) + BigInt(used.completionTokens) * BigInt(completion),
      );
    }),
  );
});

test('the cost lines add up to the cost, or to zero if the request is not billed', () => {
  fc.assert(
    fc.property(usage, price, price, fc.boolean(), (used, prompt, completion, billed) => {
      const lines = costLines(used, { prompt, completion }, billed);
      const sum = lines.reduce((total, { pico }) => total + pico, 0n);
      assert.equal(sum, billed ? costOf(used, { prompt, completion }) : 0n);
    }),
  );
});

test('amounts are formatted without trailing zeros', () => {
  assert.equal(usdText(12_150_000n), '0.00001215');
  assert.equal(usdText(3_000_000_000_000n), '3');
  assert.equal(usdText(0n), '0');
  assert.equal(usdText(-1n), '-0.000000000001');
});

test('formatting an amount loses no digits', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), (pico) => {
      const [dollars = '', decimals = ''] = usdText(pico).split('.');
      assert.equal(BigInt(dollars + decimals.padEnd(12, '0')), pico);
      assert.equal(usdText(-pico), pico === 0n ? '0' : `-${usdText(pico)}`);
    }),
  );
});
