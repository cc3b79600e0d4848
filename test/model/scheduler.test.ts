import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { NativeSampler } from '../../src/engine/llama/binding.ts';
import { Choice, Job } from '../../src/engine/llama/choice.ts';
import { type LoadedModel, loadModel } from '../../src/engine/llama/load.ts';
import { Scheduler } from '../../src/engine/llama/scheduler.ts';
import { TextStream } from '../../src/engine/llama/text-stream.ts';
import { ServiceError } from '../../src/errors.ts';
import { SILENT } from '../../src/log.ts';
import { NO_END } from '../default-model.ts';

const file = process.env.SLUICE_TEST_MODEL;
const SLOTS = 2;

/** Greedy, and the text goes on to the choice's limit whatever the model's logits are. */
const ENDLESS = {
  temperature: 0,
  seed: 0,
  tokenBiasKeys: Uint32Array.from(Object.keys(NO_END), Number),
  tokenBiasValues: Float32Array.from(Object.values(NO_END)),
};

/** One decode: how many tokens of each sequence it had. */
type Batch = Map<number, number>;

/** The step loop on the real model, with every batch written down and, where a test asks for it, one that fails. */
describe('the step loop', { skip: file === undefined && 'SLUICE_TEST_MODEL is not set' }, () => {
  let loaded: LoadedModel;
  let scheduler: Scheduler;
  let batches: Batch[];
  /** Called after each decode; what it throws is what the decode fails of. */
  let afterDecode: () => void;

  before(async () => {
    loaded = await loadModel(
      { file: file ?? '', slots: SLOTS, contextTokens: 512, threads: 1, gpuLayers: 0 },
      { onProgress() {}, log: SILENT },
    );
    const { context } = loaded;
    const [add, decode] = [context.add.bind(context), context.decode.bind(context)];
    let batch: Batch = new Map();
    context.add = (sequence, position, tokens, wantLogits) => {
      batch.set(sequence, tokens.length);
      return add(sequence, position, tokens, wantLogits);
    };
    context.decode = async () => {
      const made = batch;
      batch = new Map();
      batches.push(made);
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

  function submit(words: number, limit: number, makeSampler?: () => NativeSampler, constrained = false): Job {
    const { model, vocabulary } = loaded;
    const prompt = model.tokenize('word '.repeat(words), false);
    const job = new Job({ scope: Symbol('alone'), logprobs: null, promptTokens: prompt.length, choices: 1 });
    const choice = new Choice({
      job,
      index: 0,
      prompt,
      first: true,
      limit,
      echo: '',
      text: new TextStream({ detokenize: (tokens) => vocabulary.text(tokens), stop: [] }),
      constrained,
      makeSampler: makeSampler ?? (() => model.sampler(ENDLESS)),
    });
    scheduler.submit([choice]);
    return job;
  }

  /** Reads the answer to its end: its text, or what it failed of. */
  async function answer(job: Job): Promise<string> {
    let text = '';
    for (;;) {
      const event = await job.outbox.next();
      if (event === null) return text;
      if (event.type === 'token') text += event.text;
    }
  }

  const firstToken = async (job: Job): Promise<void> => {
    while ((await job.outbox.next())?.type !== 'token');
  };

  test('a long prompt is computed in pieces, and whoever decodes has a token beside each', async () => {
    const short = submit(5, 40);
    await firstToken(short);
    const from = batches.length;
    await answer(submit(400, 1));
    const pieces = batches.slice(from).filter((batch) => [...batch.values()].some((tokens) => tokens > 1));
    assert(pieces.length >= 4, 'batches of at most 128 tokens');
    for (const batch of pieces) assert.equal([...batch.values()].filter((tokens) => tokens === 1).length, 1);
    await answer(short);
  });

  test('who leaves is in no step that begins after', async () => {
    const long = submit(400, 1);
    afterDecode = () => scheduler.cancel(long);
    await answer(submit(5, 3));
    assert((batches[0]?.get(0) ?? 0) > 20, 'it was in the first');
    assert(batches.length > 1 && batches.slice(1).every((batch) => !batch.has(0)));
  });

  test('a decode that fails ends the requests in it, and no others', async () => {
    let failures = 1;
    afterDecode = () => {
      if (failures-- > 0) throw new Error('Eval has failed');
    };
    const jobs = [submit(5, 3), submit(6, 3), submit(7, 3)];
    const ends = await Promise.allSettled(jobs.map(answer));
    assert.deepEqual(
      ends.map((end) => end.status),
      ['rejected', 'rejected', 'fulfilled'],
    );
    const [first] = ends;
    assert(first?.status === 'rejected' && first.reason instanceof ServiceError);
    assert.equal(first.reason.code, 'internal_error');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('a sampler that fails ends its own request', async () => {
    const failing = submit(5, 3, () => {
      throw new Error('no sampler');
    });
    const other = submit(6, 3);
    await assert.rejects(answer(failing), { code: 'internal_error' });
    assert.notEqual(await answer(other), '');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('a request whose grammar takes too long at a token fails, and the others continue', async () => {
    const { model } = loaded;
    const gbnf = model.grammar('root ::= [a-z ]*\n');
    assert(gbnf !== null);
    const byGrammar = (): NativeSampler => model.sampler(ENDLESS, model.copyGrammar(gbnf));
    assert.notEqual(await answer(submit(5, 3, byGrammar, true)), '');
    await scheduler.stop(new Error('another bound'));
    loaded.context.clear(0);
    scheduler = new Scheduler({ ...loaded, maxSamplingMs: 0, log: SILENT });
    void scheduler.start();
    const slow = submit(5, 3, byGrammar, true);
    const other = submit(6, 8);
    await assert.rejects(answer(slow), { code: 'schema_too_slow', param: 'response_format', status: 400 });
    assert.notEqual(await answer(other), '');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('stopping ends what runs and what waits with the reason given', async () => {
    const jobs = [submit(5, 400), submit(5, 400), submit(5, 400)];
    const reason = new Error('enough');
    const ends = jobs.map((job) => assert.rejects(answer(job), reason));
    await scheduler.stop(reason);
    await Promise.all(ends);
  });
});
