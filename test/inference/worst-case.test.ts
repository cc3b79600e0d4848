import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { costOf } from '../../src/accounts/ledger/cost.ts';
import type { ModelCard } from '../../src/generation.ts';
import { clampUsage, worstCase } from '../../src/inference/worst-case.ts';
import type { ConfiguredModel } from '../../src/routing/served-model.ts';
import { chat, text } from '../engine/requests.ts';

/** The fields of a model that the worst case depends on. */
function modelOf(context: number, most: number, price: ConfiguredModel['price']): ConfiguredModel {
  // Only these two fields of a card are read.
  const card = { context_length: context, max_completion_tokens: most } as ModelCard;
  return { id: 'a/b', required: false, price, card: () => card };
}

const cases = fc.record({
  text: fc.string({ maxLength: 300, unit: 'binary' }),
  maxTokens: fc.option(fc.integer({ min: 1, max: 600 })),
  choices: fc.integer({ min: 1, max: 3 }),
  context: fc.integer({ min: 2, max: 500 }),
  most: fc.integer({ min: 1, max: 500 }),
  prompt: fc.nat(1000),
  completion: fc.nat(1000),
  /** The real counts as a fraction of the maximum. */
  promptShare: fc.double({ min: 0, max: 1, noNaN: true }),
  completionShare: fc.double({ min: 0, max: 1, noNaN: true }),
});

test('no possible usage of a request exceeds its worst case', () => {
  fc.assert(
    fc.property(cases, (given) => {
      const { text, maxTokens, choices, context, most, prompt, completion } = given;
      const price = { prompt, completion };
      const content = text.toWellFormed();
      const messages = [{ role: 'user' as const, content }];
      const request = { ...chat(), messages, maxTokens, choices };
      const worst = worstCase(request, modelOf(context, Math.min(most, context), price));
      const promptTokens = Math.min(
        Math.ceil(given.promptShare * (Buffer.byteLength(content) + 272)),
        context - 1,
      );
      const longest = Math.min(maxTokens ?? Infinity, most, context - promptTokens);
      const completionTokens = Math.floor(given.completionShare * longest) * choices;
      assert.ok(promptTokens + completionTokens <= worst.tokens);
      const usage = { promptTokens, completionTokens, cachedTokens: 0, reasoningTokens: 0 };
      assert.ok(costOf(usage, price) <= worst.pico);
      assert.equal(clampUsage(usage, worst, price), null);
    }),
    { numRuns: 2000 },
  );
});

test('usage reported by a replica counts up to the reservation, in tokens and in money', () => {
  const count = fc.oneof(fc.nat(2000), fc.maxSafeNat());
  const reported = fc.record({
    promptTokens: count,
    completionTokens: count,
    cachedTokens: count,
    reasoningTokens: fc.constant(0),
  });
  fc.assert(
    fc.property(cases, reported, fc.boolean(), (given, usage, isText) => {
      const { maxTokens, choices, context, most } = given;
      const price = { prompt: given.prompt, completion: given.completion };
      const content = given.text.toWellFormed();
      const request = isText
        ? { ...text({}, { prompts: [content, 'second'] }), maxTokens, choices }
        : { ...chat({}, { messages: [{ role: 'user', content }] }), maxTokens, choices };
      const worst = worstCase(request, modelOf(context, Math.min(most, context), price));
      const clamped = clampUsage(usage, worst, price) ?? usage;
      assert.ok(clamped.promptTokens + clamped.completionTokens <= worst.tokens);
      assert.ok(clamped.promptTokens >= 0 && clamped.completionTokens >= 0);
      assert.ok(costOf(clamped, price) <= worst.pico);
      assert.ok(clamped.promptTokens <= usage.promptTokens);
      assert.ok(clamped.completionTokens <= usage.completionTokens);
      assert.equal(clampUsage(clamped, worst, price), null);
    }),
    { numRuns: 2000 },
  );
});

test('one choice never reserves more than the context', () => {
  const model = modelOf(200, 200, { prompt: 1, completion: 2 });
  const request = { ...chat({ text: 'x'.repeat(1000) }), maxTokens: null };
  assert.equal(worstCase(request, model).tokens, 200);
});
