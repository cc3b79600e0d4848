import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../support/fast-check.ts';
import type { Usage } from '../../../src/core/generation.ts';
import { UsageMeter } from '../../../src/replicas/wire/usage-meter.ts';

const usage = (
  promptTokens: number,
  completionTokens: number,
  cachedTokens = 0,
  reasoningTokens = 0,
): Usage => ({ promptTokens, completionTokens, cachedTokens, reasoningTokens });

const received = (tokens: number, reasoningTokens = 0) => ({ tokens, reasoningTokens });

test('without reports, the prompt is estimated and completion tokens are counted', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.record(received(2), null, 0);
  meter.record(received(1), null, 0);
  assert.equal(meter.promptTokens, null);
  assert.deepEqual(meter.total(), { usage: usage(7, 3), usageSource: 'estimated' });
});

test('a report replaces the estimate and the count, and later tokens are added', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.record(received(2), usage(9, 5, 4), 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 5, 4), usageSource: 'engine' });
  meter.record(received(1), null, 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 6, 4), usageSource: 'estimated' });
});

test('a report stays exact if only chunks without tokens follow', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.record(received(2), usage(9, 5), 0);
  meter.record(received(0), null, 0);
  meter.record(received(0), null, null);
  assert.deepEqual(meter.total(), { usage: usage(9, 5), usageSource: 'engine' });
});

test('reported zeros are ignored if there was a prompt or text', () => {
  const none = new UsageMeter({ promptTokens: 7 });
  none.record(received(3), usage(0, 0), null);
  assert.deepEqual(none.total(), { usage: usage(7, 3), usageSource: 'estimated' });
  const prompt = new UsageMeter({ promptTokens: 7 });
  prompt.record(received(3), usage(0, 4), null);
  assert.deepEqual(prompt.total(), { usage: usage(7, 4), usageSource: 'estimated' });
  const completion = new UsageMeter({ promptTokens: 7 });
  completion.record(received(3), usage(9, 0), null);
  assert.deepEqual(completion.total(), { usage: usage(9, 3), usageSource: 'estimated' });
});

test('reported zeros are accepted if there is no text, if only the prompt was echoed, or if the prompt is empty', () => {
  const silent = new UsageMeter({ promptTokens: 7 });
  silent.record(received(0), usage(9, 0), null);
  assert.deepEqual(silent.total(), { usage: usage(9, 0), usageSource: 'engine' });
  const echo = new UsageMeter({ promptTokens: 7, echo: true });
  echo.record(received(1), usage(9, 0), 0);
  assert.deepEqual(echo.total(), { usage: usage(9, 0), usageSource: 'engine' });
  const empty = new UsageMeter({ promptTokens: 0 });
  empty.record(received(1), usage(0, 1), null);
  assert.deepEqual(empty.total(), { usage: usage(0, 1), usageSource: 'engine' });
});

test('counts by choice are added up in any order of chunks, until a chunk has the total', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(3), { minLength: 1, maxLength: 50 }), (order) => {
      const meter = new UsageMeter({ promptTokens: 1, perChoice: true });
      const counts = [0, 0, 0, 0];
      for (const choice of order) {
        counts[choice] = (counts[choice] ?? 0) + 1;
        meter.record(received(1), usage(250, counts[choice] ?? 0), choice);
      }
      assert.deepEqual(meter.total(), { usage: usage(250, order.length), usageSource: 'engine' });
      meter.record(received(0), usage(250, order.length), null);
      assert.deepEqual(meter.total(), { usage: usage(250, order.length), usageSource: 'engine' });
    }),
  );
});

test('falling counts do not make the total negative', () => {
  const meter = new UsageMeter({ promptTokens: 1, perChoice: true });
  meter.record(received(1), usage(9, 1000), 0);
  meter.record(received(0), usage(9, 1), null);
  meter.record(received(0), usage(9, 1), 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 1), usageSource: 'engine' });
});

test('without reports, the tokens of reasoning are counted', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.record(received(2, 2), null, 0);
  meter.record(received(3), null, 0);
  assert.deepEqual(meter.total(), { usage: usage(7, 5, 0, 2), usageSource: 'estimated' });
});

test('reasoning that is not reported is estimated as a share of the reported completion', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.record(received(20, 20), null, 0);
  meter.record(received(10), usage(9, 90), 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 90, 0, 60), usageSource: 'engine' });
});

test('reported reasoning is not estimated, and later reasoning is added to it', () => {
  const meter = new UsageMeter({ promptTokens: 7 });
  meter.record(received(5, 5), usage(9, 5, 0, 4), 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 5, 0, 4), usageSource: 'engine' });
  meter.record(received(2, 1), null, 0);
  assert.deepEqual(meter.total(), { usage: usage(9, 7, 0, 5), usageSource: 'estimated' });
});

test('reasoning is never more than the completion', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(3), fc.nat(3), fc.option(fc.tuple(fc.nat(9), fc.nat(99))), fc.nat(1))),
      fc.boolean(),
      (chunks, perChoice) => {
        const meter = new UsageMeter({ promptTokens: 1, perChoice });
        for (const [tokens, reasoning, report, choice] of chunks) {
          const reported = report === null ? null : usage(9, report[0], 0, report[1]);
          meter.record(received(tokens, Math.min(tokens, reasoning)), reported, choice);
          const { completionTokens, reasoningTokens } = meter.total().usage;
          assert.ok(reasoningTokens >= 0 && reasoningTokens <= completionTokens);
        }
      },
    ),
  );
});
