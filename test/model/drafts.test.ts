import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import { NO_USAGE, type TextRequest } from '../../src/core/generation.ts';
import { GREEDY } from '../generation-requests.ts';
import { temporaryFolder } from '../harness.ts';
import { always, complete, loadEngine, MODELS, text } from './embedded-engine.ts';
import { RANDOM_ATTENTION, type RandomModel, writeRandomModel } from './random-models.ts';

/** Maximum difference of a log probability that is computed in batches of other sizes. */
const TOLERANCE = 0.01;

const LETTERS = ['a', 'b', 'c'] as const;

for (const name of Object.keys(RANDOM_ATTENTION))
  describe(`drafts of ${name}`, () => {
    let folder: Awaited<ReturnType<typeof temporaryFolder>>;
    let drafting: LlamaEngine;
    let plain: LlamaEngine;

    before(async () => {
      folder = await temporaryFolder();
      const file = join(folder.path, 'random.gguf');
      writeRandomModel(name as RandomModel, file); // `Object.keys` returns strings.
      const load = (drafts: boolean) =>
        loadEngine({ file, slots: 4, contextTokens: 512, gpuLayers: 0, drafts });
      drafting = await load(true);
      plain = await load(false);
    });

    after(async () => {
      await drafting[Symbol.asyncDispose]();
      await plain[Symbol.asyncDispose]();
      await folder[Symbol.asyncDispose]();
    });

    /** Returns the text of a request's choices, their tokens and log probabilities, and how they ended. */
    async function outputOf(engine: LlamaEngine, request: TextRequest) {
      const { events, texts, reasons, stopSequences, usage } = await complete(engine, {
        ...request,
        tokenIds: true,
      });
      const tokenIds = texts.map((): number[] => []);
      const logprobs = texts.map((): number[] => []);
      for (const event of events) {
        if (event.type !== 'token') continue;
        tokenIds[event.choice]?.push(...(event.tokenIds ?? []));
        logprobs[event.choice]?.push(...(event.logprobs ?? []).map(({ logprob }) => logprob));
      }
      return { output: { texts, reasons, stopSequences, usage, tokenIds }, logprobs: logprobs.flat() };
    }

    /** Asserts that the request has the same output with drafts and without, and returns it. */
    async function assertSame(request: TextRequest) {
      const [drafted, expected] = [await outputOf(drafting, request), await outputOf(plain, request)];
      assert.deepEqual(drafted.output, expected.output);
      assert.equal(drafted.logprobs.length, expected.logprobs.length);
      for (const [at, logprob] of expected.logprobs.entries())
        assert(Math.abs(logprob - (drafted.logprobs[at] ?? NaN)) < TOLERANCE, `token ${at}`);
      return expected.output;
    }

    /** Texts of three letters, which repeat themselves to different degrees. */
    const REQUESTS = fc.record({
      prompt: fc.string({ unit: fc.constantFrom(...LETTERS), minLength: 1, maxLength: 30 }),
      repeated: fc.integer({ min: 1, max: 3 }),
      bias: fc.constantFrom(5, 20, 50),
      temperature: fc.constantFrom(0, 0.5, 2),
      penalty: fc.constantFrom(0, 0, 0.5),
      seed: fc.nat(1000),
      logprobs: fc.constantFrom(null, 0, 2),
      choices: fc.constantFrom(1, 1, 1, 2, 5),
      maxTokens: fc.integer({ min: 1, max: 100 }),
      cut: fc.double({ min: 0, max: 1, noNaN: true }),
    });

    test('a request has the same output as without drafts', async () => {
      await fc.assert(
        fc.asyncProperty(
          REQUESTS,
          async ({ prompt, repeated, bias, temperature, penalty, seed, cut, ...more }) => {
            const logitBias = new Map(LETTERS.map((letter) => [letter.charCodeAt(0), bias] as const));
            const sampling = { ...GREEDY, temperature, seed, logitBias, frequencyPenalty: penalty };
            const request = text(prompt.repeat(repeated), { ...more, sampling });
            const { texts, tokenIds } = await assertSame(request);
            const at = Math.floor(cut * (texts[0]?.length ?? 0));
            await assertSame({ ...request, stop: [(texts[0] ?? '').slice(at, at + 12)] });
            if (request.choices > 1) return;
            const sent = (tokenIds[0] ?? []).slice(0, Math.floor(cut * (tokenIds[0]?.length ?? 0)));
            const continuation = { promptTokenIds: null, tokenIds: sent, text: '', usage: NO_USAGE };
            await assertSame({ ...request, continuation });
          },
        ),
        { numRuns: 12 },
      );
    });

    test('drafts that are right shorten a text, and are never longer than the rest of it', async () => {
      const before = drafting.health();
      await assertSame(text('x', { maxTokens: 60, sampling: always(97) }));
      const health = drafting.health();
      const increase = (count: 'completionTokens' | 'draftTokens' | 'acceptedDraftTokens') =>
        (health[count] ?? 0) - (before[count] ?? 0);
      assert.equal(increase('completionTokens'), 60);
      assert.equal(increase('draftTokens'), 3 + 3 + 7 + 7 + 15 + 7);
      assert.equal(increase('acceptedDraftTokens'), increase('draftTokens'));
    });
  });

for (const { name, file, options } of MODELS)
  describe(`drafts of ${name}`, options, () => {
    test('a draft ends where penalties change the text', async () => {
      // The biases and penalties exceed all differences between logits, so the counts alone determine the text.
      const logitBias = new Map([
        [260, 4000],
        [281, 3900],
        [253, 1000],
      ]);
      const scores = new Map(logitBias);
      const expected = Array.from({ length: 44 }, () => {
        const [token, score] = [...scores].reduce((best, entry) => (entry[1] > best[1] ? entry : best));
        scores.set(token, score - 200);
        return token;
      });
      await using engine = await loadEngine({ file, slots: 1, gpuLayers: 0 });
      const sampling = { ...GREEDY, logitBias, frequencyPenalty: 200 };
      const request = text('la', { maxTokens: expected.length, logprobs: 0, tokenIds: true, sampling });
      const { events, usage, logprobs } = await complete(engine, request);
      const tokenIds = events.flatMap((event) => (event.type === 'token' ? (event.tokenIds ?? []) : []));
      assert.deepEqual(tokenIds, expected);
      assert.deepEqual([usage.completionTokens, logprobs.length], [expected.length, expected.length]);
      const { draftTokens, acceptedDraftTokens } = engine.health();
      assert.deepEqual([draftTokens, acceptedDraftTokens], [23, 21]);
    });
  });
