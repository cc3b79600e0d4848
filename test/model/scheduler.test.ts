import assert from 'node:assert/strict';
import { after, afterEach, before, beforeEach, describe, test } from 'node:test';
import type { NativeSampler } from '../../src/engine/llama/binding.ts';
import { type GrammarField, Job, JobChoice } from '../../src/engine/llama/job.ts';
import { type LoadedModel, loadModel } from '../../src/engine/llama/load-model.ts';
import { Scheduler } from '../../src/engine/llama/scheduler.ts';
import { TextStream } from '../../src/engine/llama/text-stream.ts';
import { ServiceError } from '../../src/errors.ts';
import { SILENT } from '../../src/log.ts';
import { NO_END } from '../default-model.ts';

const file = process.env.SLUICE_TEST_MODEL;
const SLOTS = 2;

/** Greedy, with texts that always reach the limit. */
const ENDLESS = {
  temperature: 0,
  seed: 0,
  tokenBiasKeys: Uint32Array.from(Object.keys(NO_END), Number),
  tokenBiasValues: Float32Array.from(Object.values(NO_END)),
};

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
    context.add = (sequence, position, tokens, wantLogits) => {
      batch.set(sequence, tokens.length);
      return add(sequence, position, tokens, wantLogits);
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

  function submit(
    words: number,
    limit: number,
    createSampler?: () => NativeSampler,
    grammarField: GrammarField | null = null,
  ): Job {
    const { model, vocabulary } = loaded;
    const prompt = model.tokenize('word '.repeat(words), false);
    const job = new Job({ cacheScope: null, logprobs: null, choices: 1, tokenIds: false }, [prompt]);
    const choice = new JobChoice({
      job,
      index: 0,
      prompt,
      first: true,
      limit,
      echo: '',
      text: new TextStream({ detokenize: (tokens) => vocabulary.text(tokens), stop: [] }),
      chat: null,
      constraint: null,
      grammarField,
      createSampler: createSampler ?? (() => model.sampler(ENDLESS)),
    });
    scheduler.submit([choice]);
    return job;
  }

  /** Returns the text of a job. Rejects if it fails. */
  async function textOf(job: Job): Promise<string> {
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

  test('a long prompt is processed in chunks, in the same batches as the tokens of decoding requests', async () => {
    const short = submit(5, 20);
    await firstToken(short);
    const from = batches.length;
    await textOf(submit(260, 1));
    const pieces = batches.slice(from).filter((batch) => [...batch.values()].some((tokens) => tokens > 1));
    assert(pieces.length >= 3, 'batches of at most 128 tokens');
    for (const batch of pieces) assert.equal([...batch.values()].filter((tokens) => tokens === 1).length, 1);
    await textOf(short);
  });

  test('a canceled request is not part of later steps', async () => {
    const long = submit(400, 1);
    afterDecode = () => scheduler.cancel(long);
    await textOf(submit(5, 3));
    assert((batches[0]?.get(0) ?? 0) > 20, 'it was in the first step');
    assert(batches.length > 1 && batches.slice(1).every((batch) => !batch.has(0)));
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
    const failing = submit(5, 3, () => {
      throw new Error('no sampler');
    });
    const other = submit(6, 3);
    await assert.rejects(textOf(failing), { code: 'internal_error' });
    assert.notEqual(await textOf(other), '');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('a request whose grammar takes too long for a token fails, and others continue', async () => {
    const { model } = loaded;
    const gbnf = model.grammar('root ::= [a-z ]*\n');
    assert(gbnf !== null);
    const byGrammar = (): NativeSampler => model.sampler(ENDLESS, model.copyGrammar(gbnf));
    assert.notEqual(await textOf(submit(5, 3, byGrammar, 'tools')), '');
    await scheduler.stop(new Error('another bound'));
    loaded.context.clear(0);
    scheduler = new Scheduler({ ...loaded, maxSamplingMs: 0, log: SILENT });
    void scheduler.start();
    const slow = (['response_format', 'tools'] as const).map((param) =>
      assert.rejects(textOf(submit(5, 3, byGrammar, param)), { code: 'schema_too_slow', param, status: 400 }),
    );
    const other = submit(6, 8);
    await Promise.all(slow);
    assert.notEqual(await textOf(other), '');
    assert.equal(scheduler.health().slotsInUse, 0);
  });

  test('stopping ends running and waiting requests with the reason', async () => {
    const jobs = [submit(5, 400), submit(5, 400), submit(5, 400)];
    const reason = new Error('enough');
    const ends = jobs.map((job) => assert.rejects(textOf(job), reason));
    await scheduler.stop(reason);
    await Promise.all(ends);
  });
});
