import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import { costLines, costOf, usdText } from '../../../src/accounts/ledger/cost.ts';
import { picoPerToken } from '../../../src/config/model.ts';

const price = fc.integer({ min: 0, max: 999_999_999_999_999 });
const prices = fc.tuple(price, price, fc.option(price)).map(([prompt, completion, cached]) => ({
  prompt,
  completion,
  inputCacheRead: cached === null ? null : cached % (prompt + 1),
}));
const tokens = fc.integer({ min: 0, max: 1_000_000_000 });
const usage = fc.tuple(tokens, tokens, tokens).map(([promptTokens, cached, completionTokens]) => ({
  promptTokens,
  cachedTokens: cached % (promptTokens + 1),
  completionTokens,
}));

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

test('a cost of any size is tokens times price, with cached tokens at their own price', () => {
  fc.assert(
    fc.property(usage, prices, ({ promptTokens, cachedTokens, completionTokens }, price) => {
      const { prompt, completion, inputCacheRead } = price;
      assert.equal(
        costOf({ promptTokens, cachedTokens, completionTokens }, price),
        BigInt(promptTokens - cachedTokens) * BigInt(prompt) +
          BigInt(cachedTokens) * BigInt(inputCacheRead ?? prompt) +
          BigInt(completionTokens) * BigInt(completion),
      );
    }),
  );
});

test('cached tokens never raise a cost, and never make it negative', () => {
  fc.assert(
    fc.property(usage, prices, (used, price) => {
      const cost = costOf(used, price);
      assert.ok(cost >= 0n && cost <= costOf({ ...used, cachedTokens: 0 }, price));
    }),
  );
});

test('the cost lines add up to the cost, or to zero if the request is not billed', () => {
  fc.assert(
    fc.property(usage, prices, fc.boolean(), (used, price, billed) => {
      const lines = costLines(used, price, billed);
      const sum = lines.reduce((total, { pico }) => total + pico, 0n);
      assert.equal(sum, billed ? costOf(used, price) : 0n);
    }),
  );
});

test('cached tokens have a cost line if they have a price of their own', () => {
  const used = { promptTokens: 10, cachedTokens: 8, completionTokens: 5 };
  const linesAt = (inputCacheRead: number | null) =>
    costLines(used, { prompt: 3, completion: 2, inputCacheRead }, true).map((line) => Object.values(line));
  const completion = ['completion', 5, 2, 10n];
  assert.deepEqual(linesAt(null), [['prompt', 10, 3, 30n], completion]);
  assert.deepEqual(linesAt(0), [['prompt', 2, 3, 6n], ['input_cache_read', 8, 0, 0n], completion]);
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
