import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { ServiceError } from '../../src/errors.ts';
import type { GenerationRequest, Sampling } from '../../src/generation.ts';
import {
  type Answer,
  always,
  answerOf,
  chat,
  ENDLESS,
  exactly,
  FLAT,
  GREEDY,
  loadEngine,
  refusalOf,
  SKIP,
  text,
} from './engine-answers.ts';

/** The number of tokens in the default model's vocabulary. */
const VOCABULARY_SIZE = 49_152;

/** Two ordinary tokens of the default model. */
const [TOKEN, OTHER_TOKEN] = [260, 261] as const;

// llama.cpp chooses its kernels by the CPU, so the model's text differs between machines: no test here knows it.
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

  const draw = (seed: number | null, sampling: Sampling): Promise<string> =>
    textOf(chat('Tell me a story.', { sampling: { ...sampling, seed } }));
  const WARM: Sampling = { ...GREEDY, temperature: 1.5 };

  test('a seed makes a draw reproducible, and another seed gives another draw', async () => {
    assert.equal(await draw(7, WARM), await draw(7, WARM));
    assert.equal(await draw(0xffff_ffff, WARM), await draw(0xffff_ffff, WARM), 'the largest seed is valid');
    assert.notEqual(await draw(7, FLAT), await draw(8, FLAT));
    assert.notEqual(await draw(null, FLAT), await draw(null, FLAT));
  });

  test('top_k, min_p and top_p that leave one candidate make every draw the likeliest', async () => {
    const greedy = await draw(7, GREEDY);
    for (const cut of [{ topK: 1 }, { minP: 1 }, { topP: 0.0001 }, { topP: 0.0001, topK: 0 }])
      assert.equal(await draw(7, { ...WARM, ...cut }), greedy, JSON.stringify(cut));
    assert.notEqual(await draw(7, FLAT), greedy);
  });

  test('gives as many choices as asked for, more than it has slots, computing the prompt once', async () => {
    const request = chat('Tell me a story.', {
      choices: 6,
      maxTokens: 8,
      sampling: { ...FLAT, seed: 3 },
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

  test('several prompts get a choice each, in order, with the prompt before it where echo is on', async () => {
    const sampling = always(TOKEN);
    const generated = await textOf(text('Hello', { maxTokens: 3, sampling }));
    const { texts, usage } = await answer(
      text('', { prompts: ['1, 2, 3,', 'A, B, C,'], echo: true, maxTokens: 3, sampling }),
    );
    assert.deepEqual(texts, [`1, 2, 3,${generated}`, `A, B, C,${generated}`]);
    assert.equal(usage.completionTokens, 6);
  });

  test('log probabilities are those of the model, to a thousandth', async () => {
    const { logprobs, texts } = await answer(
      text('The capital of France is', {
        maxTokens: 3,
        logprobs: 5,
        sampling: { ...ENDLESS, temperature: 1, seed: 5 },
      }),
    );
    assert.equal(logprobs.length, 3);
    assert.equal(Buffer.from(logprobs.flatMap(({ bytes }) => bytes ?? [])).toString(), texts[0]);
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
    assert(mass > 0 && mass <= 1 + 1e-6, String(mass));
    const zero = await answer(
      text('The capital of France is', { maxTokens: 1, logprobs: 0, sampling: ENDLESS }),
    );
    assert.deepEqual(zero.logprobs[0]?.top, []);
    const best = logprobs[0]?.top[0];
    assert(best !== undefined && Math.abs((zero.logprobs[0]?.logprob ?? 0) - best.logprob) < 1e-3);
  });

  test('log probabilities of a stop sequence are not returned', async () => {
    const request = chat('Count.', {
      maxTokens: 100,
      logprobs: 0,
      responseFormat: exactly('one two three four'),
    });
    const whole = await answer(request);
    assert.equal(whole.texts[0], '"one two three four"');
    const { texts, logprobs } = await answer({ ...request, stop: [' three'] });
    assert.equal(texts[0], '"one two');
    const tokens = logprobs.map((each) => each.token).join('');
    assert(tokens.startsWith('"one two') && !tokens.includes('four'), tokens);
    assert(logprobs.length < whole.logprobs.length);
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
        // The grammar allows 20 blanks between any two parts.
        maxTokens: 200,
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
    const forced = await answer(text('Hello', { maxTokens: 3, sampling: always(TOKEN), logprobs: 0 }));
    assert.equal(forced.logprobs.length, 3);
    assert.equal(new Set(forced.logprobs.map((each) => each.token)).size, 1);
    const other = await answer(text('Hello', { maxTokens: 3, sampling: always(OTHER_TOKEN) }));
    assert.notEqual(other.texts[0], forced.texts[0]);
    const allOthers = Array.from({ length: VOCABULARY_SIZE }, (_, token) => token).filter(
      (id) => id !== TOKEN,
    );
    const logitBias = new Map(allOthers.map((token) => [token, -100]));
    const left = await textOf(text('Hello', { maxTokens: 3, sampling: { ...GREEDY, logitBias } }));
    assert.equal(left, forced.texts[0], 'what is forbidden is not drawn');
    await refused(
      text('x', { sampling: { ...GREEDY, logitBias: new Map([[VOCABULARY_SIZE, 1]]) } }),
      'invalid_value',
      `logit_bias.${VOCABULARY_SIZE}`,
    );
  });

  test('each penalty makes a token that was generated less likely', async () => {
    // The first token leads the second by more than any logits differ, and the second all others.
    const logitBias = new Map([
      [TOKEN, 100],
      [OTHER_TOKEN, 60],
    ]);
    const firstTwo = async (changed: Partial<Sampling>): Promise<string | undefined> =>
      (await answer(text('la', { maxTokens: 2, sampling: { ...GREEDY, logitBias, ...changed } }))).texts[0];
    const first = (await answer(text('la', { maxTokens: 1, sampling: always(TOKEN) }))).texts[0];
    const other = (await answer(text('la', { maxTokens: 1, sampling: always(OTHER_TOKEN) }))).texts[0];
    assert.equal(await firstTwo({}), `${first}${first}`);
    for (const penalty of [{ frequencyPenalty: 80 }, { presencePenalty: 80 }, { repetitionPenalty: 5 }])
      assert.equal(await firstTwo(penalty), `${first}${other}`, JSON.stringify(penalty));
    for (const reward of [{ frequencyPenalty: -80 }, { presencePenalty: -80 }, { repetitionPenalty: 0.2 }])
      assert.equal(await firstTwo(reward), `${first}${first}`, JSON.stringify(reward));
  });

  test('whole characters only, whatever the tokens', async () => {
    const said = '😀 日本語 한국어 👩‍👩‍👧';
    const { events, texts, usage } = await answer(
      chat('Write.', { maxTokens: 200, responseFormat: exactly(said) }),
    );
    assert.equal(texts[0], JSON.stringify(said));
    const parts = events.flatMap((event) => (event.type === 'token' ? [event.text] : []));
    assert(parts.length > 1);
    assert(
      usage.completionTokens > said.length,
      'a character takes several tokens: there is something to put together',
    );
    assert(parts.every((part) => part.isWellFormed() && !part.includes('\uFFFD')));
  });

  test('refuses what it would otherwise pass over in silence', async () => {
    await refused(text('x', { echo: true, logprobs: 1 }), 'unsupported_parameter', 'echo');
  });
});
