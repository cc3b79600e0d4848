import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import {
  NO_USAGE,
  type Continuation,
  type GenerationRequest,
  type TextRequest,
} from '../../src/core/generation.ts';
import type { Sampling } from '../../src/core/sampling.ts';
import { GREEDY } from '../generation-requests.ts';
import {
  assertRefused,
  chat,
  complete,
  exactly,
  loadEngine,
  SKIP,
  text,
  type Completion,
} from './embedded-engine.ts';

const continuationOf = (tokenIds: readonly number[]): Continuation => ({
  promptTokenIds: null,
  tokenIds,
  text: '',
  usage: NO_USAGE,
});

describe('a generation that continues another', SKIP, () => {
  let engine: LlamaEngine;

  before(async () => {
    engine = await loadEngine();
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
  });

  /** Prefixes are cached, so that only new tokens are computed. */
  async function generate(request: GenerationRequest, continued: Continuation | null): Promise<Completion> {
    const result = await complete(engine, {
      ...request,
      cacheScope: 'test',
      tokenIds: true,
      continuation: continued,
    });
    assert.ok(result.usage.cachedTokens <= result.usage.promptTokens);
    return { ...result, usage: { ...result.usage, cachedTokens: 0 } };
  }

  /**
   * Continues the request after each of its tokens, and asserts that the text, the usage, the finish reason and the stop
   * sequence are the same as without an interruption. Returns the text before each interruption, indexed by the number of tokens;
   * `undefined` if the interruption is inside a character.
   */
  async function assertContinued(request: GenerationRequest): Promise<(string | undefined)[]> {
    const unbroken = await generate(request, null);
    const [whole = ''] = unbroken.texts;
    const tokenIds: number[] = [];
    /** The text that was sent, by the number of tokens. */
    const sent = new Map([[0, '']]);
    for (const event of unbroken.events) {
      if (event.type !== 'token') continue;
      const text = (sent.get(tokenIds.length) ?? '') + event.text;
      tokenIds.push(...(event.tokenIds ?? []));
      assert.equal(tokenIds.length, event.completionTokens, 'an event has all IDs since the last one');
      sent.set(tokenIds.length, text);
    }
    const texts = Array.from({ length: tokenIds.length + 1 }, (_, count) => sent.get(count));
    let last = '';
    for (const [count, before] of texts.entries()) {
      last = before ?? last;
      const rest = await generate(request, continuationOf(tokenIds.slice(0, count)));
      assert.equal(last + (rest.texts[0] ?? ''), whole, `after ${count} tokens`);
      assert.deepEqual(rest.reasons, unbroken.reasons);
      assert.deepEqual(rest.stopSequences, unbroken.stopSequences);
      assert.deepEqual(rest.usage, unbroken.usage);
    }
    return texts;
  }

  test('has the same text, with a format and characters of several tokens', async () => {
    const responseFormat = exactly('a 東 🙂');
    const texts = await assertContinued(chat('Write.', { maxTokens: 100, responseFormat }));
    assert.ok(texts.includes(undefined), 'no character consists of several tokens');
  });

  test('finds a stop sequence that began before the interruption', async () => {
    const responseFormat = exactly('one two three');
    const request = chat('Count.', { maxTokens: 100, responseFormat, stop: ['wo th'] });
    assert.deepEqual((await generate(request, null)).stopSequences, ['wo th']);
    const texts = await assertContinued(request);
    assert.ok(texts.includes('"one t'), 'no interruption is inside the stop sequence');
  });

  test('has the same text with penalties, which count the earlier tokens', async () => {
    // The biases and penalties exceed all differences between logits, so the counts alone determine the text.
    const logitBias = new Map([
      [260, 1000],
      [281, 700],
      [253, 500],
    ]);
    const penalized = (changed: Partial<Sampling>): GenerationRequest =>
      text('la', { maxTokens: 5, sampling: { ...GREEDY, logitBias, ...changed } });
    const { texts } = await generate(penalized({ frequencyPenalty: 220 }), null);
    assert.equal(new Set((texts[0] ?? '').split(' ')).size, 4, 'the text has three words');
    await assertContinued(penalized({ frequencyPenalty: 220 }));
    await assertContinued(penalized({ presencePenalty: 350 }));
    await assertContinued(penalized({ repetitionPenalty: 1.5 }));
  });

  test('ends at once if the earlier tokens were the last ones', async () => {
    const request = text('la', { maxTokens: 3, sampling: GREEDY });
    const { reasons, usage, texts } = await generate(request, continuationOf([260, 260, 260]));
    assert.deepEqual([texts, reasons, usage.completionTokens], [[], ['length'], 3]);
  });

  test('refuses tokens that the model does not have, or that the format does not allow', async () => {
    const refused = (more: Partial<TextRequest>, tokenIds: number[], param: string) =>
      assertRefused(
        engine,
        { ...text('x', more), continuation: continuationOf(tokenIds) },
        'invalid_value',
        param,
      );
    await refused({}, [260, 1_000_000], 'continuation.tokenIds[1]');
    await refused({ responseFormat: { type: 'json_object' } }, [260], 'continuation.tokenIds');
  });
});
