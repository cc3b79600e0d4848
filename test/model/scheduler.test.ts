import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { NativeGrammar, NativeSampler } from '../../src/engine/llama/native/sampler.ts';
import { ChoiceOutput } from '../../src/engine/llama/output/choice-output.ts';
import { type GrammarField, Job, JobChoice } from '../../src/engine/llama/decode/job.ts';
import { type LoadedModel, loadModel } from '../../src/engine/llama/load-model.ts';
import { OutputConstraint } from '../../src/engine/llama/output/output-constraint.ts';
import { Scheduler } from '../../src/engine/llama/decode/scheduler.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { SILENT } from '../../src/support/log.ts';
import { NO_END } from '../support/default-model.ts';
import { until } from './embedded-engine.ts';
import type { EngineEvent } from '../../src/core/generation.ts';

const file = process.env.SLUICE_TEST_MODEL;
const SLOTS = 2;
const THINK = { open: '<think>', close: '</think>' };

/** Greedy, with texts that always reach the limit. */
const ENDLESS = {
  temperature: 0,
  seed: 0,
  tokenBiasKeys: Uint32Array.from(Object.keys(NO_END), Number),
  tokenBiasValues: Float32Array.from(Object.values(NO_END)),
};

/** A token with a text. */
const REPEATED = 260;

/** The number of tokens of each sequence in a decode. */
type Batch = Map<number, number>;

/** The step loop with the real model. Records every batch. */
describe('the step loop', { skip: file === undefined && 'SLUICE_TEST_MODEL is not set' }, () => {
  let loaded: LoadedModel;
  let scheduler: Scheduler;
  let batches: Batch[];
  /** Called after each decode. If it throws, the decode fails. */
  let afterDecode: () => void;

  before(async () => {
    loaded = await loadModel(
      { file: file ?? '', slots: SLOTS, contextTokens: 512, threads: 1, gpuLayers: 0 },
      { onProgress() {}, log: SILENT },
    );
    const { context } = loaded;
    const [add, decode] = [context.add.bind(context), context.decode.bind(context)];
    let batch: Batch = new Map();
    context.add = (sequence, position, tokens, logits) => {
      batch.set(sequence, tokens.length);
      return add(sequence, position, tokens, logits);
    };
    context.decode = async () => {
      const current = batch;
      batch = new Map();
      batches.push(current);
      await decode();
      afterDecode();
    };
  });

  after(async () => {
    await loaded.context.dispose();
    await loaded.model.dispose();
  });

  beforeEach(() => {
    batches = [];
    afterDecode = () => {};
    scheduler = new Scheduler({ ...loaded, maxSamplingMs: 1000, log: SILENT });
    void scheduler.start();
  });

  afterEach(async () => {
    await scheduler.stop(new Error('the test is over'));
    for (let slot = 0; slot < SLOTS; slot++) loaded.context.clear(slot);
  });

  interface Submitted {
    /** Default: `word`, repeated. */
    prompt?: Uint32Array;
    scope?: string;
    createSampler?: (constraint: OutputConstraint) => NativeSampler;
    /** Of the answer, which follows reasoning if `closing` is set. */
    grammar?: NativeGrammar;
    grammarField?: GrammarField;
    closing?: readonly number[];
  }

  /** Submits a choice with a prompt of so many words, unless another prompt is given. */
  function submit(words: number, limit: number, submitted: Submitted = {}): Job {
    const { model, vocabulary } = loaded;
    const { createSampler, grammar = null, grammarField = 'tools', closing = [] } = submitted;
    const { prompt = model.tokenize('word '.repeat(words), false), scope: cacheScope = null } = submitted;
    const job = new Job({ cacheScope, logprobs: null, choices: 1, tokenIds: true }, [prompt]);
    const output = new ChoiceOutput({
      vocabulary,
      format: null,
      reasoning: closing.length === 0 ? null : THINK,
      insideReasoning: closing.length > 0,
      tools: [],
      stop: [],
      oneCall: false,
    });
    const grammars = { first: grammar, answer: grammar, call: null };
    const constraint = new OutputConstraint(model, vocabulary, grammars, closing.length > 0);
    const choice = new JobChoice({
      job,
      index: 0,
      prompt,
      first: true,
      limit,
      echo: '',
      tokenize: (text) => [...model.tokenize(text, true)],
      output,
      constraint,
      closing,
      opensAnswer: [],
      reasoningBudget: Infinity,
      grammarField,
      createSampler: () => createSampler?.(constraint) ?? model.sampler(ENDLESS, constraint.initial()),
    });
    scheduler.submit([choice]);
    return job;
  }

  /** Returns the text of a job. Rejects if it fails. */
  async function textOf(job: Job): Promise<string> {
    let text = '';
    for await (const event of job.events) if (event.type === 'token') text += event.text;
    return text;
  }

  const firstToken = async (job: Job): Promise<void> => {
    while ((await job.events.next()).value?.type !== 'token');
  };

  test('a long prompt is computed in parts, between which other requests decode', async () => {
    const short = submit(5, 200);
    await firstToken(short);
    const from = batches.length;
    await textOf(submit(150, 1));
    const during = batches.slice(from, batches.findLastIndex((batch) => batch.has(1)) + 1);
    assert(during.every((batch) => batch.size === 1));
    const parts = during.flatMap((batch, index) => (batch.has(1) ? [index] : []));
    assert(parts.length >= 2, 'batches of at most 128 tokens');
    for (const [index, part] of parts.slice(1).entries()) assert(part > (parts[index] ?? 0) + 1);
    scheduler.cancel(short);
  });

  test('a canceled request is not part of later steps', async () => {
    const long = submit(400, 1);
    afterDecode = () => {
      if (batches.at(-1)?.has(0)) scheduler.cancel(long);
    };
    await textOf(submit(5, 30));
    const part = batches.findIndex((batch) => batch.has(0));
    assert(part !== -1, 'it was in a step');
    assert(batches.length > part + 1 && batches.slice(part + 1).every((batch) => !batch.has(0)));
  });

  test('a failed decode only ends its own requests', async () => {
    let failures = 1;
    afterDecode = () => {
      if (failures-- > 0) throw new Error('Eval has failed');
    };
    const jobs = [submit(5, 3), submit(6, 3), submit(7, 3)];
    const ends = await Promise.allSettled(jobs.map(textOf));
    assert.deepEqual(
      ends.map((end) => end.status),
      ['rejected', 'rejected', 'fulfilled'],
    );
    const [first] = ends;
    assert(first?.status === 'rejected' && first.reason instanceof ServiceError);
    assert.equal(first.reason.code, 'internal_error');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('a failed sampler only ends its own request', async () => {
    const createSampler = (): never => {
      throw new Error('no sampler');
    };
    const failing = submit(5, 3, { createSampler });
    const other = submit(6, 3);
    await assert.rejects(textOf(failing), { code: 'internal_error' });
    assert.notEqual(await textOf(other), '');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('a request whose grammar takes too long for a token fails, and others continue', async () => {
    const grammar = loaded.model.grammar('root ::= [a-z ]*\n');
    assert(grammar !== null);
    assert.notEqual(await textOf(submit(5, 3, { grammar })), '');
    await scheduler.stop(new Error('another bound'));
    loaded.context.clear(0);
    scheduler = new Scheduler({ ...loaded, maxSamplingMs: 0, log: SILENT });
    void scheduler.start();
    const slow = (['response_format', 'tools'] as const).map((param) =>
      assert.rejects(textOf(submit(5, 3, { grammar, grammarField: param })), {
        code: 'schema_too_slow',
        param,
        status: 400,
      }),
    );
    const other = submit(6, 8);
    await Promise.all(slow);
    assert.notEqual(await textOf(other), '');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('an end token in the reasoning before a required answer ends only the reasoning', async () => {
    const { model } = loaded;
    const grammar = model.grammar('root ::= "yes"');
    assert(grammar !== null);
    const [end = 0] = model.tokenize('<|im_end|>', true);
    const closing = [...model.tokenize(THINK.close, true)];
    assert(closing.length > 1, 'the text that ends the reasoning is several tokens');
    const always = { temperature: 0, seed: 0, tokenBiasKeys: Uint32Array.of(end) };
    const job = submit(5, 50, {
      grammar,
      closing,
      createSampler: (constraint) =>
        model.sampler({ ...always, tokenBiasValues: Float32Array.of(100) }, constraint.initial()),
    });
    const events: EngineEvent[] = [];
    for await (const event of job.events) events.push(event);
    const [tokenIds, text, reason] = [[] as number[], [] as string[], [] as string[]];
    for (const event of events) {
      if (event.type === 'token') text.push(event.text);
      if (event.type === 'finish') reason.push(event.reason);
      if (event.type === 'token' || event.type === 'reasoning') tokenIds.push(...(event.tokenIds ?? []));
    }
    assert.equal(text.join(''), 'yes');
    assert.deepEqual(reason, ['stop']);
    assert.deepEqual(tokenIds.slice(0, closing.length), closing);
    assert.equal(job.completionTokens, tokenIds.length + 1, 'a continuation has all tokens but the last one');
    assert.equal(job.reasoningTokens, closing.length);
  });

  /** A choice whose text is one token, repeated. */
  const repeating = (): Submitted => ({
    createSampler: () =>
      loaded.model.sampler({
        temperature: 0,
        seed: 0,
        tokenBiasKeys: Uint32Array.of(REPEATED),
        tokenBiasValues: Float32Array.of(1000),
      }),
  });

  test('drafts are computed with the tokens before them, but not in the steps of prompts', async () => {
    const prompt = Promise.withResolvers<Job>();
    let from = 0;
    afterDecode = () => {
      if (from > 0 || batches.at(-1)?.get(0) !== 16) return;
      prompt.resolve(submit(260, 1));
      from = batches.length;
    };
    const repeated = submit(5, 100, repeating());
    await textOf(repeated);
    assert.equal(repeated.completionTokens, 100);
    await textOf(await prompt.promise);
    const lengths = batches.slice(1).map((batch) => batch.get(0) ?? 0);
    assert.deepEqual(
      lengths.slice(0, from - 1).filter((length) => length > 1),
      [4, 4, 8, 8, 16],
    );
    const withPrompt = batches.filter((batch) => batch.has(1));
    assert(withPrompt.length >= 3 && withPrompt.every((batch) => !batch.has(0)));
    assert(lengths.slice(from).includes(16), 'drafts continue between the steps of the prompt');
  });

  test('slots share a step on a CPU, and only have drafts together', async () => {
    const both = [submit(5, 60, repeating()), submit(5, 60, repeating())];
    await Promise.all(both.map(textOf));
    assert(batches.some((batch) => batch.get(0) === 8 && batch.get(1) === 8));
    assert(batches.every((batch) => (batch.get(0) ?? 0) <= 8 || batch.size === 1));
  });

  test('a request that is canceled during a draft leaves only the tokens before it', async () => {
    const canceled = submit(5, 100, { ...repeating(), scope: 'shared' });
    afterDecode = () => {
      if (batches.at(-1)?.get(0) === 16) scheduler.cancel(canceled);
    };
    await until(() => canceled.dropped && scheduler.health().slotsInUse === 0);
    const { length } = batches;
    const words = loaded.model.tokenize('word '.repeat(5), false);
    const prompt = new Uint32Array(100).fill(REPEATED);
    prompt.set(words);
    // llama.cpp fails a batch whose first position does not follow the last one of the sequence.
    await textOf(submit(0, 1, { ...repeating(), prompt, scope: 'shared' }));
    const kept = words.length + canceled.completionTokens;
    assert.deepEqual(batches.slice(length), [new Map([[0, prompt.length - kept]])]);
  });

  test('a draft ends where a grammar begins', async () => {
    const { model, context } = loaded;
    const grammar = model.grammar('root ::= "yes"');
    assert(grammar !== null);
    const closing = [...model.tokenize(THINK.close, true)];
    const words = [...model.tokenize(' one two three four five six seven eight nine ten', false)];
    const script = [...words, ...closing];
    assert.equal(script.length, 13, 'the second draft has the last token of the script and two more');
    const prompt = Uint32Array.from([...script, ...model.tokenize(' no no no', false)]);
    const sample = context.sample.bind(context);
    context.sample = (index, sampler) => {
      const token = script.shift();
      return token === undefined ? sample(index, sampler) : Promise.resolve(token);
    };
    try {
      assert.equal(await textOf(submit(0, 50, { prompt, grammar, closing })), 'yes');
    } finally {
      context.sample = sample;
    }
    const { draftTokens, acceptedDraftTokens } = scheduler.health();
    assert.deepEqual([draftTokens, acceptedDraftTokens], [6, 3]);
  });

  test('stopping ends running and waiting requests with the reason', async () => {
    const jobs = [submit(5, 400), submit(5, 400), submit(5, 400)];
    const reason = new Error('enough');
    const ends = jobs.map((job) => assert.rejects(textOf(job), reason));
    await scheduler.stop(reason);
    await Promise.all(ends);
  });
});
