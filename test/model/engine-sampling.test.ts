import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { ServiceError } from '../../src/errors.ts';
import type { GenerationRequest } from '../../src/generation.ts';
import { type Answer, answerOf, chat, GREEDY, loadEngine, refusalOf, SKIP, text } from './engine-answers.ts';

/** Words that stood in the text before. */
function repeats(said: string): number {
  const words = said.toLowerCase().match(/\w+/g) ?? [];
  return words.length - new Set(words).size;
}

describe('sampling in the embedded engine', SKIP, () => {
  let engine: LlamaEngine;

  before(async () => {
    engine = await loadEngine();
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
  });

  const answer = (request: GenerationRequest, signal?: AbortSignal): Promise<Answer> =>
    answerOf(engine, request, signal);
  const textOf = async (request: GenerationRequest): Promise<string> =>
    (await answer(request)).texts[0] ?? '';
  const refused = (request: GenerationRequest, code: string, param: string): Promise<ServiceError> =>
    refusalOf(engine, request, code, param);

  const draw = (seed: number | null): Promise<string> =>
    textOf(chat('Tell me a story.', { sampling: { ...GREEDY, temperature: 1.5, seed } }));

  test('a seed makes a draw reproducible, and another seed another draw', async () => {
    assert.equal(await draw(7), await draw(7));
    assert.notEqual(await draw(7), await draw(8));
    assert.notEqual(await draw(null), await draw(null));
    assert.equal(await draw(0xffff_ffff), await draw(0xffff_ffff), 'the largest seed is one like any other');
  });

  test('top_k, min_p and top_p that leave one candidate make every draw the likeliest', async () => {
    const request = chat('Tell me a story.');
    const greedy = await textOf(request);
    for (const cut of [{ topK: 1 }, { minP: 1 }, { topP: 0.0001 }, { topP: 0.0001, topK: 0 }]) {
      const sampling = { ...GREEDY, temperature: 1.5, seed: 7, ...cut };
      assert.equal(await textOf({ ...request, sampling }), greedy, JSON.stringify(cut));
    }
    assert.notEqual(await draw(7), greedy);
  });

  test('gives as many choices as asked for, more than it has slots, computing the prompt once', async () => {
    const request = chat('Tell me a story.', {
      choices: 6,
      maxTokens: 8,
      sampling: { ...GREEDY, temperature: 1.5, seed: 3 },
    });
    const { texts, reasons, usage } = await answer(request);
    assert.equal(new Set(texts).size, 6, 'choices differ');
    assert.deepEqual(
      reasons,
      Array.from({ length: 6 }, () => 'length'),
    );
    assert.equal(usage.completionTokens, 48);
    const one = await answer({ ...request, choices: 1 });
    assert.equal(usage.promptTokens, one.usage.promptTokens, 'the prompt counts once');
  });

  test('several prompts make a choice each, in order, with the prompt before it where asked for', async () => {
    const { texts, usage } = await answer(
      text('', { prompts: ['1, 2, 3,', 'A, B, C,'], echo: true, maxTokens: 3 }),
    );
    assert.match(texts[0] ?? '', /^1, 2, 3, ?4/);
    assert.match(texts[1] ?? '', /^A, B, C, ?D/);
    assert.equal(usage.completionTokens, 6);
  });

  test('log probabilities are those of the model, to a thousandth', async () => {
    const { logprobs, texts } = await answer(
      text('The capital of France is', {
        maxTokens: 3,
        logprobs: 5,
        sampling: { ...GREEDY, temperature: 1, seed: 5 },
      }),
    );
    assert.equal(logprobs.length, 3);
    assert.equal(logprobs.map((each) => each.token).join(''), texts[0]);
    for (const { token, logprob, bytes, top } of logprobs) {
      assert(logprob <= 0);
      assert.equal(Buffer.from(bytes ?? []).toString(), token);
      assert.equal(top.length, 5);
      assert.deepEqual(
        top,
        top.toSorted((a, b) => b.logprob - a.logprob),
      );
      const listed = top.find((other) => other.token === token);
      if (listed !== undefined) assert(Math.abs(listed.logprob - logprob) < 1e-6);
    }
    const mass = logprobs[0]?.top.reduce((sum, each) => sum + Math.exp(each.logprob), 0) ?? 0;
    assert(mass > 0.2 && mass <= 1);
    const zero = await answer(text('The capital of France is', { maxTokens: 1, logprobs: 0 }));
    assert.deepEqual(zero.logprobs[0]?.top, []);
    const best = logprobs[0]?.top[0];
    assert(best !== undefined && Math.abs((zero.logprobs[0]?.logprob ?? 0) - best.logprob) < 1e-3);
  });

  test('log probabilities of a stop sequence stay with it', async () => {
    const whole = await textOf(text('1, 2, 3, 4, 5,', { maxTokens: 8 }));
    const stop = whole.slice(-2);
    const { texts, logprobs } = await answer(
      text('1, 2, 3, 4, 5,', { maxTokens: 8, logprobs: 0, stop: [stop] }),
    );
    assert(
      logprobs
        .map((each) => each.token)
        .join('')
        .startsWith(texts[0] ?? '?'),
    );
    assert(logprobs.length < 8);
  });

  test('json_object gives JSON, and json_schema what the schema says', async () => {
    const sampling = { ...GREEDY, temperature: 0.8, seed: 4 };
    const anyJson = await answer(
      chat('Give me a JSON object with a name.', {
        maxTokens: 200,
        responseFormat: { type: 'json_object' },
        sampling,
      }),
    );
    if (anyJson.reasons[0] === 'stop') assert.equal(typeof JSON.parse(anyJson.texts[0] ?? ''), 'object');
    else assert.match(anyJson.texts[0] ?? '', /^\s*\{/);
    const schema = {
      type: 'object',
      properties: { color: { enum: ['red', 'blue'] }, count: { type: 'integer', minimum: 0, maximum: 9 } },
      required: ['color', 'count'],
      additionalProperties: false,
    };
    const shaped = await answer(
      chat('Describe a ball.', {
        maxTokens: 100,
        responseFormat: { type: 'json_schema', name: 'ball', schema, strict: true },
        sampling,
      }),
    );
    assert.deepEqual(shaped.reasons, ['stop']);
    const ball: unknown = JSON.parse(shaped.texts[0] ?? '');
    assert(typeof ball === 'object' && ball !== null && 'color' in ball && 'count' in ball);
    assert(ball.color === 'red' || ball.color === 'blue');
    assert(Number.isInteger(ball.count));
    assert.deepEqual(Object.keys(ball).toSorted(), ['color', 'count']);
  });

  test('a logit bias forces a token, and forbids one', async () => {
    const forced = await answer(
      text('Hello', { maxTokens: 3, sampling: { ...GREEDY, logitBias: new Map([[260, 100]]) }, logprobs: 0 }),
    );
    assert.equal(new Set(forced.logprobs.map((each) => each.token)).size, 1);
    const free = await answer(text('1, 2, 3,', { maxTokens: 1, logprobs: 0 }));
    await refused(
      text('x', { sampling: { ...GREEDY, logitBias: new Map([[999_999, 1]]) } }),
      'invalid_value',
      'logit_bias.999999',
    );
    assert.notEqual(free.texts[0], forced.texts[0]);
  });

  test('penalties make a text repeat itself less', async () => {
    const prompt = 'la la la la la la la la la la';
    const plain = await textOf(text(prompt, { maxTokens: 24 }));
    for (const changed of [{ frequencyPenalty: 2 }, { presencePenalty: 2 }, { repetitionPenalty: 1.8 }]) {
      const said = await textOf(text(prompt, { maxTokens: 24, sampling: { ...GREEDY, ...changed } }));
      assert(repeats(said) < repeats(plain), `${JSON.stringify(changed)}: ${said}`);
    }
  });

  test('whole characters only, whatever the tokens', async () => {
    const events = (
      await answer(
        text('😀 😃 😄 😁 😆 😅 😂 🤣 日本語 한국어 😀 😃 😄 😁', {
          maxTokens: 24,
          sampling: { ...GREEDY, temperature: 1.2, seed: 9 },
        }),
      )
    ).events;
    const parts = events.flatMap((event) => (event.type === 'token' ? [event.text] : []));
    assert(parts.length > 1);
    assert(parts.every((part) => part.isWellFormed()));
    assert(parts.slice(0, -1).every((part) => !part.endsWith('\uFFFD')));
  });

  test('refuses what it would otherwise pass over in silence', async () => {
    await refused(text('x', { echo: true, logprobs: 1 }), 'unsupported_parameter', 'echo');
  });
});
