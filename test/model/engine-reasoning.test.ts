import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { ResponseFormat } from '../../src/core/generation.ts';
import { ChoiceOutput } from '../../src/engine/llama/output/choice-output.ts';
import { GrammarCache } from '../../src/engine/llama/output/response-grammar.ts';
import { Job } from '../../src/engine/llama/decode/job.ts';
import { loadModel, type LoadedModel } from '../../src/engine/llama/load-model.ts';
import { OutputConstraint } from '../../src/engine/llama/output/output-constraint.ts';
import { HERMES } from '../../src/engine/llama/tool-calls/json-formats.ts';
import { SILENT } from '../../src/support/log.ts';
import { file, SKIP } from './embedded-engine.ts';
import { assertReplayed, chatChoice } from './replay.ts';
import { assertCall, COLOR } from './lamp-tools.ts';

const THINK = { open: '<think>', close: '</think>' };
const TEXT: ResponseFormat = { type: 'text' };

describe('reasoning before a constrained answer', SKIP, () => {
  let loaded: LoadedModel;

  before(async () => {
    loaded = await loadModel(
      { file: file ?? '', slots: 1, contextTokens: 512, threads: 1, gpuLayers: 'auto' },
      { onProgress() {}, log: SILENT },
    );
  });

  after(async () => {
    await loaded.context.dispose();
    await loaded.model.dispose();
  });

  /** Creates the output of a choice whose prompt ends inside the reasoning. */
  function insideReasoning(): ChoiceOutput {
    return new ChoiceOutput({
      vocabulary: loaded.vocabulary,
      format: null,
      reasoning: THINK,
      insideReasoning: true,
      tools: [],
      stop: [],
      oneCall: false,
    });
  }

  /** Whether the grammar of the first token allows a text, token by token. */
  function allowsFirst(text: string, opening: string, alternative: ResponseFormat): boolean {
    const { model, vocabulary } = loaded;
    const constraint = { format: HERMES, tools: [COLOR], parallel: false };
    const grammar = model.copyGrammar(
      new GrammarCache(model, vocabulary).calls(constraint, alternative, { opening, before: '' }),
    );
    return [...model.tokenize(text, false)].every((token) => model.advance(grammar, token));
  }

  test('an answer can begin with reasoning if the model decides whether to reason', () => {
    for (const alternative of [TEXT, { type: 'json_object' }] as const) {
      assert.ok(allowsFirst('<think>\nAny "text", even </think>', THINK.open, alternative));
      assert.ok(allowsFirst('<tool_call>\n{"name": "set_color"', THINK.open, alternative));
      assert.ok(!allowsFirst('Sure', THINK.open, alternative));
      assert.ok(!allowsFirst('<think>', '', alternative));
    }
    assert.ok(allowsFirst('{"a":', THINK.open, { type: 'json_object' }));
  });

  test('the answer follows the grammar once the reasoning ends', async () => {
    const { model, context, vocabulary } = loaded;
    const cache = new GrammarCache(model, vocabulary);
    const constraint = { format: HERMES, tools: [COLOR], parallel: false };
    const output = new ChoiceOutput({
      vocabulary,
      format: HERMES,
      reasoning: THINK,
      insideReasoning: false,
      tools: [COLOR],
      stop: [],
      oneCall: true,
    });
    const grammars = {
      first: cache.calls(constraint, TEXT, { opening: THINK.open, before: '' }),
      answer: cache.calls(constraint, TEXT),
      call: null,
    };
    const guide = new OutputConstraint(model, vocabulary, grammars, false);
    const sampler = model.sampler({ temperature: 1, seed: 5 }, guide.initial());
    const received = { reasoning: '', arguments: '' };
    const receive = (token: number): void => {
      for (const part of output.push(token, null)) {
        if (part.type === 'reasoning' || part.type === 'arguments') received[part.type] += part.text;
      }
      guide.update(output, sampler);
    };
    assert.ok(guide.active);
    const forced = model.tokenize('<think>Hm, red? </think>', false);
    const free: boolean[] = [];
    for (const token of forced) {
      receive(token);
      free.push(!guide.active);
    }
    assert.ok(free.includes(true), 'no token of the reasoning was free');
    assert.ok(guide.active, 'the answer is not constrained');
    let next = forced;
    let position = 0;
    while (output.finishReason === null) {
      assert.ok(position < 300);
      context.begin(next.length);
      const index = context.add(0, position, next, 1);
      await context.decode();
      position += next.length;
      next = Uint32Array.of(await context.sample(index, sampler));
      receive(next[0] as number);
    }
    context.clear(0);
    sampler.dispose();
    assert.equal(received.reasoning, 'Hm, red?');
    assertCall({ id: '', name: 'set_color', arguments: received.arguments }, [COLOR]);
  });

  test('a token that ends the reasoning does not begin an answer with a grammar', () => {
    const { model, vocabulary } = loaded;
    const answer = new GrammarCache(model, vocabulary).grammar({ type: 'json_object' });
    const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: false }, [
      new Uint32Array(1),
    ]);
    const guide = new OutputConstraint(model, vocabulary, { first: answer, answer, call: null }, true);
    const tokenize = (text: string): number[] => [...model.tokenize(text, true)];
    const output = insideReasoning();
    const choice = chatChoice(job, {
      output,
      constraint: guide,
      grammarField: 'response_format',
      createSampler: () => model.sampler({ temperature: 0, seed: 1 }),
      tokenize,
    });
    for (const token of tokenize('Hm.</think')) choice.accept(token, null, vocabulary);
    const [both = -1, ...others] = tokenize('><');
    assert.deepEqual(others, []);
    assert.deepEqual(choice.tokensFor(both, vocabulary), tokenize('>'));
    const [end = -1] = tokenize('>');
    assert.deepEqual(choice.tokensFor(end, vocabulary), [end]);
    choice.accept(end, null, vocabulary);
    assert.equal(output.state, 'text');
    assert.ok(guide.active);
    assert.deepEqual(choice.tokensFor(both, vocabulary), [both]);
    choice.dispose();
  });

  test('a used-up budget ends the reasoning, also after a continuation, and then begins the answer', () => {
    const { model, vocabulary } = loaded;
    const tokenize = (text: string): number[] => [...model.tokenize(text, true)];
    const [closing, opensAnswer] = [tokenize(THINK.close), tokenize('Answer:')];
    const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: false }, [
      new Uint32Array(1),
    ]);
    const choice = chatChoice(job, {
      output: insideReasoning(),
      constraint: new OutputConstraint(model, vocabulary, { first: null, answer: null, call: null }, true),
      grammarField: 'response_format',
      createSampler: () => model.sampler({ temperature: 0, seed: 1 }),
      tokenize,
      closing,
      opensAnswer,
      reasoningBudget: 3,
    });
    const [word = -1] = tokenize(' red');
    choice.replay(word, vocabulary);
    for (const _ of [2, 3]) {
      assert.deepEqual(choice.tokensFor(word, vocabulary), [word]);
      choice.accept(word, null, vocabulary);
    }
    assert.deepEqual(choice.tokensFor(word, vocabulary), closing);
    // A model that reasons again, as gpt-oss can, must answer.
    assert.deepEqual(choice.tokensFor(word, vocabulary), [...closing, ...opensAnswer]);
    for (const token of closing) choice.accept(token, null, vocabulary);
    assert.deepEqual(choice.tokensFor(word, vocabulary), [word]);
    assert.equal(job.reasoningTokens, 3 + closing.length);
    choice.dispose();
  });

  test('reasoning and an answer with a grammar continue after any of their events', async () => {
    const { model, vocabulary } = loaded;
    const cache = new GrammarCache(model, vocabulary);
    const format: ResponseFormat = { type: 'json_object' };
    const grammars = {
      first: cache.grammar(format, { opening: THINK.open, before: '' }),
      answer: cache.grammar(format),
      call: null,
    };
    const begin = () => {
      const output = new ChoiceOutput({
        vocabulary,
        format: null,
        reasoning: THINK,
        insideReasoning: false,
        tools: [],
        stop: ['red"'],
        oneCall: false,
      });
      const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: true }, [
        new Uint32Array(1),
      ]);
      const choice = chatChoice(job, {
        output,
        constraint: new OutputConstraint(model, vocabulary, grammars, false),
        grammarField: 'response_format',
        createSampler: () => model.sampler({ temperature: 0, seed: 1 }),
      });
      return { job, choice };
    };
    const tokens = [...model.tokenize('<think>Hm, 東? Red. </think>{"color": "red"}', false)];
    const unbroken = await assertReplayed(begin, tokens, vocabulary);
    assert.equal(unbroken.reasoning, 'Hm, 東? Red.');
    assert.equal(unbroken.text, '{"color": "');
    const { choice } = begin();
    const [digit = 0] = model.tokenize('7', false);
    assert.throws(() => choice.replay(digit, vocabulary), { code: 'invalid_value' });
  });
});
