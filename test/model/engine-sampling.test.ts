import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { LlamaEngine } from '../../src/engine/llama/engine.ts';
import type { ServiceError } from '../../src/core/errors.ts';
import type { GenerationRequest, TokenLogprob } from '../../src/core/generation.ts';
import type { Sampling } from '../../src/core/sampling.ts';
import {
  type Completion,
  always,
  complete,
  chat,
  ENDLESS,
  exactly,
  FLAT,
  loadEngine,
  assertRefused,
  SKIP,
  text,
} from './embedded-engine.ts';
import { GREEDY } from '../generation-requests.ts';

/** Of the default model. */
const VOCABULARY_SIZE = 49_152;

/** Two ordinary tokens of the default model. */
const [TOKEN, OTHER_TOKEN] = [260, 261] as const;

// llama.cpp selects its kernels based on the CPU, so generated texts differ between machines. These tests do not
// expect any particular text.
describe('sampling in the embedded engine', SKIP, () => {
  let engine: LlamaEngine;

  before(async () => {
    engine = await loadEngine();
  });

  after(async () => {
    await engine[Symbol.asyncDispose]();
  });

  const generate = (request: GenerationRequest, signal?: AbortSignal): Promise<Completion> =>
    complete(engine, request, signal);
  const textOf = async (request: GenerationRequest): Promise<string> =>
    (await generate(request)).texts[0] ?? '';
  const refused = (request: GenerationRequest, code: string, param: string): Promise<ServiceError> =>
    assertRefused(engine, request, code, param);

  const draw = (seed: number | null, sampling: Sampling): Promise<string> =>
    textOf(text('Once upon a time', { maxTokens: 4, sampling: { ...sampling, seed } }));
  const WARM: Sampling = { ...GREEDY, temperature: 1.5 };

  test('a completion is reproducible with its seed and differs with another', async () => {
    assert.equal(await draw(7, WARM), await draw(7, WARM));
    assert.equal(await draw(0xffff_ffff, WARM), await draw(0xffff_ffff, WARM), 'the largest seed is valid');
    assert.notEqual(await draw(7, FLAT), await draw(8, FLAT));
    assert.notEqual(await draw(null, FLAT), await draw(null, FLAT));
  });

  test('top_k, min_p and top_p with one remaining candidate are greedy', async () => {
    const greedy = await draw(7, GREEDY);
    for (const cut of [{ topK: 1 }, { minP: 1 }, { topP: 0.0001 }, { topP: 0 }, { topP: 0, topK: 0 }])
      assert.equal(await draw(7, { ...WARM, ...cut }), greedy, JSON.stringify(cut));
    assert.notEqual(await draw(7, FLAT), greedy);
  });

  test('the engine generates more choices than it has slots, and counts the prompt once', async () => {
    const request = chat('Tell me a story.', {
      choices: 6,
      maxTokens: 4,
      sampling: { ...FLAT, seed: 3 },
    });
    const { texts, reasons, usage } = await generate(request);
    assert.equal(new Set(texts).size, 6, 'choices differ');
    assert.deepEqual(
      reasons,
      Array.from({ length: 6 }, () => 'length'),
    );
    assert.equal(usage.completionTokens, 24);
    const one = await generate({ ...request, choices: 1 });
    assert.equal(usage.promptTokens, one.usage.promptTokens, 'the prompt counts once');
  });

  test('several prompts get one choice each, in order; with echo, each text starts with its prompt', async () => {
    const sampling = always(TOKEN);
    const generated = await textOf(text('Hello', { maxTokens: 3, sampling }));
    const { texts, usage } = await generate(
      text('', { prompts: ['1, 2, 3,', 'A, B, C,'], echo: true, maxTokens: 3, sampling }),
    );
    assert.deepEqual(texts, [`1, 2, 3,${generated}`, `A, B, C,${generated}`]);
    assert.equal(usage.completionTokens, 6);
  });

  test('log probabilities arrive with their text, for characters of several tokens too', async () => {
    const bytesOf = (logprobs: readonly TokenLogprob[]): number =>
      logprobs.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0);
    const request = { maxTokens: 60, logprobs: 0, responseFormat: exactly('a 🙂🙃 東西 is done') };
    const whole = await generate(text('Write.', request));
    assert.ok(
      whole.logprobs.some(({ token }) => token.includes('\uFFFD')),
      'no character has several tokens',
    );
    for (const stop of [[], [' done']]) {
      const { events, logprobs, texts } = await generate(text('Write.', { ...request, stop }));
      assert.equal(texts[0], stop.length === 0 ? '"a 🙂🙃 東西 is done"' : '"a 🙂🙃 東西 is');
      assert.equal(bytesOf(logprobs), Buffer.byteLength(texts[0] ?? ''));
      let ahead = 0;
      for (const event of events) {
        if (event.type !== 'token') continue;
        ahead += bytesOf(event.logprobs ?? []) - Buffer.byteLength(event.text);
        // A token can end inside a character.
        assert.ok(ahead >= 0 && ahead < 4, `${ahead} bytes ahead after ${JSON.stringify(event.text)}`);
      }
    }
  });

  test('log probabilities are those of the model', async () => {
    const { logprobs, texts } = await generate(
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
    const zero = await generate(
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
    const whole = await generate(request);
    assert.equal(whole.texts[0], '"one two three four"');
    const { texts, logprobs } = await generate({ ...request, stop: [' three'] });
    assert.equal(texts[0], '"one two');
    const tokens = logprobs.map((each) => each.token).join('');
    assert(tokens.startsWith('"one two') && !tokens.includes('four'), tokens);
    assert(logprobs.length < whole.logprobs.length);
  });

  test('json_object generates JSON, and json_schema an instance of the schema', async () => {
    const sampling = { ...GREEDY, temperature: 0.8, seed: 4 };
    const anyJson = await generate(
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
    const shaped = await generate(
      chat('Describe a ball.', {
        // The grammar allows up to 20 spaces between tokens.
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

  test('a logit bias can force or forbid a token', async () => {
    const forced = await generate(text('Hello', { maxTokens: 3, sampling: always(TOKEN), logprobs: 0 }));
    assert.equal(forced.logprobs.length, 3);
    assert.equal(new Set(forced.logprobs.map((each) => each.token)).size, 1);
    const other = await generate(text('Hello', { maxTokens: 3, sampling: always(OTHER_TOKEN) }));
    assert.notEqual(other.texts[0], forced.texts[0]);
    const allOthers = Array.from({ length: VOCABULARY_SIZE }, (_, token) => token).filter(
      (id) => id !== TOKEN,
    );
    const logitBias = new Map(allOthers.map((token) => [token, -100]));
    const left = await textOf(text('Hello', { maxTokens: 3, sampling: { ...GREEDY, logitBias } }));
    assert.equal(left, forced.texts[0], 'forbidden tokens are not sampled');
    await refused(
      text('x', { sampling: { ...GREEDY, logitBias: new Map([[VOCABULARY_SIZE, 1]]) } }),
      'invalid_value',
      `logit_bias.${VOCABULARY_SIZE}`,
    );
  });

  test('each penalty makes a generated token less likely', async () => {
    // The biases exceed all differences between logits.
    const logitBias = new Map([
      [TOKEN, 100],
      [OTHER_TOKEN, 60],
    ]);
    const firstTwo = async (changed: Partial<Sampling>): Promise<string | undefined> =>
      (await generate(text('la', { maxTokens: 2, sampling: { ...GREEDY, logitBias, ...changed } }))).texts[0];
    const first = (await generate(text('la', { maxTokens: 1, sampling: always(TOKEN) }))).texts[0];
    const other = (await generate(text('la', { maxTokens: 1, sampling: always(OTHER_TOKEN) }))).texts[0];
    assert.equal(await firstTwo({}), `${first}${first}`);
    for (const penalty of [{ frequencyPenalty: 80 }, { presencePenalty: 80 }, { repetitionPenalty: 5 }])
      assert.equal(await firstTwo(penalty), `${first}${other}`, JSON.stringify(penalty));
    for (const reward of [{ frequencyPenalty: -80 }, { presencePenalty: -80 }, { repetitionPenalty: 0.2 }])
      assert.equal(await firstTwo(reward), `${first}${first}`, JSON.stringify(reward));
  });

  test('events contain only whole characters', async () => {
    const content = '😀 日本語 한국어 👩‍👩‍👧';
    const { events, texts, usage } = await generate(
      chat('Write.', { maxTokens: 200, responseFormat: exactly(content) }),
    );
    assert.equal(texts[0], JSON.stringify(content));
    const parts = events.flatMap((event) => (event.type === 'token' ? [event.text] : []));
    assert(parts.length > 1);
    assert(usage.completionTokens > content.length, 'some characters consist of several tokens');
    assert(parts.every((part) => part.isWellFormed() && !part.includes('\uFFFD')));
  });

  test('refuses echo with logprobs', async () => {
    await refused(text('x', { echo: true, logprobs: 1 }), 'unsupported_parameter', 'echo');
  });
});
