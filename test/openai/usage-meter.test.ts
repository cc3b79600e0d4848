import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { UsageMeter } from '../../src/openai/usage-meter.ts';

const usage = (promptTokens: number, completionTokens: number, cachedTokens = 0) => ({
  promptTokens,
  completionTokens,
  cachedTokens,
});

test('without any report the prompt is the estimate and the completion what came', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.note(2, null, 0);
  meter.note(1, null, 0);
  assert.equal(meter.promptTokens, null);
  assert.deepEqual(meter.total(), { usage: usage(7, 3), usageSource: 'estimated' });
});

test('a report replaces the estimate and the count, and what comes after it is added', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.note(2, usage(9, 5, 4), 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 5, 4), usageSource: 'engine' });
  meter.note(1, null, 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 6, 4), usageSource: 'estimated' });
});

test('zero tokens of a prompt, or of text that came, are not a report', () => {
  const none = new UsageMeter({ promptTokens: 7 });
  none.note(3, usage(0, 0), null);
  assert.deepEqual(none.total(), { usage: usage(7, 3), usageSource: 'estimated' });
  const prompt = new UsageMeter({ promptTokens: 7 });
  prompt.note(3, usage(0, 4), null);
  assert.deepEqual(prompt.total(), { usage: usage(7, 4), usageSource: 'estimated' });
  const completion = new UsageMeter({ promptTokens: 7 });
  completion.note(3, usage(9, 0), null);
  assert.deepEqual(completion.total(), { usage: usage(9, 3), usageSource: 'estimated' });
});

test('zero tokens are a report where nothing came, where only the prompt was echoed, and of an empty prompt', () => {
  const silent = new UsageMeter({ promptTokens: 7 });
  silent.note(0, usage(9, 0), null);
  assert.deepEqual(silent.total(), { usage: usage(9, 0), usageSource: 'engine' });
  const echo = new UsageMeter({ promptTokens: 7, echo: true });
  echo.note(1, usage(9, 0), 0);
  assert.deepEqual(echo.total(), { usage: usage(9, 0), usageSource: 'engine' });
  const empty = new UsageMeter({ promptTokens: 0 });
  empty.note(1, usage(0, 1), null);
  assert.deepEqual(empty.total(), { usage: usage(0, 1), usageSource: 'engine' });
});

test('counts of single choices add up, however their chunks come, until a chunk has the total', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3), { minLength: 1, maxLength: 50 }), (order) => {
      const meter = new UsageMeter({ promptTokens: 1, perChoice: true });
      const said = [0, 0, 0, 0];
      for (const choice of order) {
        said[choice] = (said[choice] ?? 0) + 1;
        meter.note(1, usage(250, said[choice] ?? 0), choice);
      }
      assert.deepEqual(meter.total(), { usage: usage(250, order.length), usageSource: 'engine' });
      meter.note(0, usage(250, order.length), null);
      assert.deepEqual(meter.total(), { usage: usage(250, order.length), usageSource: 'engine' });
    }),
  );
});

test('counts that fall never make the sum of a response less than zero', () => {
  const meter = new UsageMeter({ promptTokens: 1, perChoice: true });
  meter.note(1, usage(9, 1000), 0);
  meter.note(0, usage(9, 1), null);
  meter.note(0, usage(9, 1), 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 1), usageSource: 'engine' });
});
