import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { checkAddon, loadBackend, packagesOf, type Backend } from '../../src/engine/llama/native/backend.ts';
import { ModelFileError } from '../../src/models/errors.ts';
import { NativeModel } from '../../src/engine/llama/native/model.ts';
import type { NativeContext } from '../../src/engine/llama/native/context.ts';
import type { NativeSampler } from '../../src/engine/llama/native/sampler.ts';
import { LogprobReader } from '../../src/engine/llama/output/logprobs.ts';
import { Vocabulary } from '../../src/engine/llama/prompt/vocabulary.ts';
import { SILENT } from '../../src/support/log.ts';
import { NO_END } from '../support/default-model.ts';
import { temporaryFolder } from '../harness.ts';
import { writeRandomModel } from './random-models.ts';

const file = process.env.SLUICE_TEST_MODEL;

test('GPU packages are preferred, and each platform has its own packages', () => {
  assert.deepEqual(packagesOf('linux', 'x64'), [
    '@node-llama-cpp/linux-x64-cuda',
    '@node-llama-cpp/linux-x64-vulkan',
    '@node-llama-cpp/linux-x64',
  ]);
  assert.deepEqual(packagesOf('darwin', 'arm64'), ['@node-llama-cpp/mac-arm64-metal']);
  assert.deepEqual(packagesOf('sunos', 'x64'), []);
});

/** The behavior of the pinned addon version that the engine relies on. */
describe('the native addon', { skip: file === undefined && 'SLUICE_TEST_MODEL is not set' }, () => {
  let backend: Backend;
  let model: NativeModel;
  let context: NativeContext;
  let garbage: object;

  before(async () => {
    backend = await loadBackend(SILENT);
    const fractions: number[] = [];
    model = await NativeModel.load(backend, file ?? '', {
      gpuLayers: 0,
      onProgress: (fraction) => fractions.push(fraction),
    });
    assert.equal(fractions.at(-1), 1);
    assert.deepEqual(
      fractions,
      fractions.toSorted((a, b) => a - b),
    );
    context = await model.context({ slots: 3, slotTokens: 200, batchTokens: 64, threads: 1 });
  });

  after(async () => {
    await context.dispose();
    await model.dispose();
  });

  const tokens = (text: string): Uint32Array => model.tokenize(text, false);

  /** Computes `text` from a position on, and returns the logits of the next token. */
  async function nextLogits(sequence: number, text: Uint32Array, from = 0): Promise<Float32Array> {
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    const rest = text.subarray(from);
    context.begin(rest.length);
    const index = context.add(sequence, from, rest, 1);
    await context.decode();
    const logits = await context.logits(index, sampler);
    sampler.dispose();
    return logits;
  }

  /** Returns the largest difference between two rows of logits. */
  const distance = (one: Float32Array, other: Float32Array): number =>
    one.reduce((max, logit, token) => Math.max(max, Math.abs(logit - (other[token] ?? NaN))), 0);

  test('an incompatible version of the addon is refused, and the error names the missing members', () => {
    assert.equal(checkAddon(backend.addon), backend.addon);
    class AddonContext {
      initBatch() {}
    }
    assert.throws(() => checkAddon({ AddonContext }), /missing .*init, addToBatch, .*copySequenceState/);
    assert.throws(() => checkAddon({}), /incompatible version/);
  });

  test('a slot has at least the requested tokens, and the binding reports how many', () => {
    assert.equal(context.slotTokens, 256);
    assert.equal(context.slots, 3);
  });

  test('control tokens are only recognized in trusted text', () => {
    assert.equal(model.tokenize('<|im_end|>', true).length, 1);
    assert(model.tokenize('<|im_end|>', false).length > 1);
  });

  test('a sequence ID out of range, which would crash the process, is an assertion error', async () => {
    for (const sequence of [-1, 3, 0.5, Number.NaN]) {
      assert.throws(() => context.clear(sequence), /sequence id/);
      assert.throws(() => context.trim(sequence, 1), /sequence id/);
      await assert.rejects(context.copy(0, sequence), /sequence id/);
      await assert.rejects(context.copy(sequence, 0), /sequence id/);
    }
  });

  test('a position past the slot, which would fail every request of the batch, is an assertion error', () => {
    context.begin(2);
    assert.throws(() => context.add(0, 255, Uint32Array.of(1, 2), 1), /position/);
  });

  test('a batch that is too large, or gets more or fewer tokens than announced, is an assertion error', async () => {
    assert.throws(() => context.begin(65), /batch size/);
    context.begin(2);
    assert.throws(() => context.add(0, 0, Uint32Array.of(1, 2, 3), 1), /more tokens/);
    context.add(0, 0, Uint32Array.of(1), 0);
    await assert.rejects(context.decode(), /not full/);
  });

  test('reading logits that were not requested, for which the addon returns -1, is an assertion error', async () => {
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    context.begin(2);
    assert.equal(context.add(0, 0, Uint32Array.of(1, 2), 0), -1);
    await context.decode();
    await assert.rejects(context.sample(1, sampler), /not requested/);
    await assert.rejects(context.sample(-1, sampler), /not requested/);
    context.begin(3);
    assert.throws(() => context.add(0, 2, Uint32Array.of(1, 2, 3), 4), /number of logits/);
    const index = context.add(0, 2, Uint32Array.of(1, 2, 3), 2);
    await context.decode();
    await assert.rejects(context.sample(index - 1, sampler), /not requested/);
    for (const requested of [index, index + 1]) assert((await context.sample(requested, sampler)) >= 0);
    await assert.rejects(context.sample(index + 2, sampler), /not requested/);
    context.clear(0);
    sampler.dispose();
  });

  test('using the context during a decode, which would corrupt memory, is an assertion error', async () => {
    context.begin(1);
    context.add(0, 0, Uint32Array.of(1), 1);
    const decoding = context.decode();
    assert.throws(() => context.clear(1), /in use/);
    assert.throws(() => context.begin(1), /in use/);
    await assert.rejects(context.copy(1, 0), /in use/);
    await assert.rejects(context.dispose(), /in use/);
    await decoding;
    context.clear(0);
  });

  test('a copied and trimmed sequence has the logits of its source', async () => {
    const text = tokens('The capital of France is');
    const expected = await nextLogits(0, text);
    await context.copy(1, 0);
    assert(context.trim(1, text.length - 1));
    const copied = await nextLogits(1, text, text.length - 1);
    // The order of arithmetic depends on the batch size, so the logits differ slightly.
    assert(distance(copied, expected) < 0.5, String(distance(copied, expected)));
    // The source can be cleared and refilled in the same step.
    await context.copy(2, 1);
    context.clear(1);
    assert(context.trim(2, text.length - 1));
    const again = await nextLogits(2, text, text.length - 1);
    assert(distance(again, expected) < 0.5, String(distance(again, expected)));
    context.clear(1);
    const unrelated = await nextLogits(1, tokens('x = 1; y ='));
    assert(distance(unrelated, expected) > 2, 'another text has other logits');
    for (const sequence of [0, 1, 2]) context.clear(sequence);
  });

  test('log probabilities match the logits of all tokens', async () => {
    const reader = new LogprobReader(model);
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    const text = tokens('The weather today is');
    context.begin(text.length);
    const index = context.add(0, 0, text, 1);
    await context.decode();
    const row = await context.logits(index, sampler);
    const vocabulary = new Vocabulary(model, row.length);
    const max = row.reduce((max, logit) => Math.max(max, logit));
    const logTotal = max + Math.log(row.reduce((sum, logit) => sum + Math.exp(logit - max), 0));
    const ranked = Array.from(row, (logit, token) => ({ token, logprob: logit - logTotal })).sort(
      (a, b) => b.logprob - a.logprob,
    );
    for (const token of [ranked[0]?.token ?? 0, 300, row.length - 1]) {
      const read = await reader.read(context, index, token, 20, vocabulary);
      assert(Math.abs(read.logprob - ((row[token] ?? 0) - logTotal)) < 1e-3);
      assert.equal(read.token, vocabulary.tokenText(token));
      assert.equal(read.top.length, 20);
      for (const [i, listed] of read.top.entries()) {
        assert(Math.abs(listed.logprob - (ranked[i]?.logprob ?? 0)) < 1e-3);
        // Equally likely tokens can be in any order.
        const equal = ranked.filter((other) => Math.abs(other.logprob - listed.logprob) < 1e-3);
        assert(equal.some((other) => vocabulary.tokenText(other.token) === listed.token));
      }
    }
    reader.dispose();
    sampler.dispose();
    context.clear(0);
  });

  test('NO_END forbids exactly the tokens that end a text', async () => {
    const logits = await nextLogits(0, tokens('Hello'));
    context.clear(0);
    const ends = Array.from(logits.keys()).filter((token) => model.token(token).ends);
    assert.deepEqual(ends, Object.keys(NO_END).map(Number));
  });

  test('the vocabulary decodes tokens like llama.cpp', async () => {
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    context.begin(1);
    const index = context.add(0, 0, Uint32Array.of(1), 1);
    await context.decode();
    const vocabulary = new Vocabulary(model, (await context.logits(index, sampler)).length);
    sampler.dispose();
    context.clear(0);
    const text = 'Grüße, 日本語 and 👩‍👩‍👧! \uFEFF\n\tdone';
    const ids = tokens(text);
    assert.equal(vocabulary.text(ids), text);
    const bytes = Array.from(ids, (id) => vocabulary.tokenBytes(id) ?? assert.fail('no bytes'));
    assert.equal(Buffer.concat(bytes).toString(), text);
    const end = model.tokenize('<|im_end|>', true)[0] ?? -1;
    assert(vocabulary.ends(end));
    assert.equal(vocabulary.tokenText(end), '');
    assert(vocabulary.controls?.test('<|im_start|>'));
  });

  test('a disposed sampler is refused', async () => {
    const sampler = model.sampler({ temperature: 0, seed: 1 });
    context.begin(1);
    const index = context.add(0, 0, Uint32Array.of(1), 1);
    await context.decode();
    sampler.dispose();
    sampler.dispose();
    await assert.rejects(context.sample(index, sampler), /disposed/);
    context.clear(0);
  });

  test('the native memory of disposed samplers is freed', async () => {
    const before = process.memoryUsage.rss();
    for (let round = 0; round < 30; round++) {
      const samplers = Array.from({ length: 16 }, () => model.sampler({ temperature: 0, seed: 1 }));
      // After some minor collections, the samplers are in the old generation.
      for (let turn = 0; turn < 6; turn++) {
        for (let i = 0; i < 20_000; i++) garbage = { i, list: [i] };
        await new Promise(setImmediate);
      }
      for (const sampler of samplers) sampler.dispose();
    }
    const grown = process.memoryUsage.rss() - before;
    assert(garbage && grown < 100_000_000, `${grown} bytes of the 280 MB of 480 samplers remain`);
  });

  test('the native memory of copied grammars is freed', async () => {
    const grammar = model.grammar('root ::= [a-z]*');
    assert(grammar);
    let freed = 0;
    const registry = new FinalizationRegistry(() => freed++);
    for (let round = 0; round < 20; round++) {
      const copies: object[] = Array.from({ length: 16 }, () => model.copyGrammar(grammar).state);
      for (const copy of copies) registry.register(copy, null);
      // After some minor collections, the copies are in the old generation.
      for (let turn = 0; turn < 6; turn++) {
        for (let i = 0; i < 20_000; i++) garbage = { i, list: [i] };
        await new Promise(setImmediate);
      }
      assert(copies.length > 0);
    }
    assert(garbage && freed > 200, `${freed} of 320 were freed`);
  });

  test('an invalid grammar is null, and copies of a grammar are independent', async () => {
    assert.equal(model.grammar('root ::= nothing-there'), null);
    assert.equal(model.grammar('this is no grammar'), null);
    const grammar = model.grammar('root ::= "yes"');
    assert(grammar);
    for (let round = 0; round < 2; round++) {
      const sampler = model.sampler({ temperature: 0, seed: 1 }, model.copyGrammar(grammar));
      let text = '';
      let next = tokens('Is water wet?');
      let position = 0;
      for (let step = 0; step < 5 && text !== 'yes'; step++) {
        context.begin(next.length);
        const index = context.add(0, position, next, 1);
        await context.decode();
        position += next.length;
        next = Uint32Array.of(await context.sample(index, sampler));
        text += model.detokenize(next, false);
      }
      assert.equal(text, 'yes');
      context.begin(1);
      const index = context.add(0, position, next, 1);
      await context.decode();
      assert(
        model.token(await context.sample(index, sampler)).ends,
        'a completed grammar only allows the end',
      );
      sampler.dispose();
      context.clear(0);
    }
  });

  test('a grammar can start after some tokens, continue from tokens sampled without it, and end', async () => {
    const generate = async (steps: number, before: (step: number, sampled: number[]) => void) => {
      const sampled: number[] = [];
      let next = tokens('Once upon a time');
      let position = 0;
      for (let step = 0; step < steps; step++) {
        before(step, sampled);
        context.begin(next.length);
        const index = context.add(0, position, next, 1);
        await context.decode();
        position += next.length;
        next = Uint32Array.of(await context.sample(index, sampler));
        sampled.push(next[0] as number);
      }
      context.clear(0);
      return sampled;
    };
    const config = {
      temperature: 1,
      seed: 7,
      tokenBiasKeys: Uint32Array.from(Object.keys(NO_END), Number),
      tokenBiasValues: Float32Array.from(Object.values(NO_END)),
    };
    let sampler = model.sampler(config);
    const free = await generate(6, () => {});
    sampler.dispose();

    sampler = model.sampler(config);
    const grammar = model.grammar('root ::= [^#]* "#"+');
    assert(grammar);
    let state = model.copyGrammar(grammar);
    const constrained = await generate(6, (step, sampled) => {
      if (step === 2) {
        for (const token of sampled) assert.ok(model.advance(state, token));
        // Only "#" can follow the first "#".
        assert.ok(model.advance(state, tokens('#')[0] as number));
        assert.equal(model.advance(state, tokens('a')[0] as number), false);
        sampler.constrain(state);
      }
      if (step === 4) sampler.constrain(null);
    });
    assert.deepEqual(constrained.slice(0, 2), free.slice(0, 2));
    assert.match(model.detokenize(Uint32Array.from(constrained.slice(2, 4)), false), /^#+$/);
    assert.doesNotMatch(model.detokenize(Uint32Array.from(constrained.slice(4)), false), /^#+$/);
    sampler.dispose();

    sampler = model.sampler(config);
    state = model.copyGrammar(grammar);
    const again = await generate(6, () => {});
    assert.deepEqual(again, free);
    sampler.dispose();
  });

  test('penalties count the tokens before a change of grammar', async () => {
    const allowAll = model.grammar('root ::= .*');
    assert(allowAll);
    const [first, second] = [260, 281];
    const drawn = async (change: (sampler: NativeSampler, step: number) => void): Promise<number[]> => {
      const sampler = model.sampler({
        temperature: 0,
        seed: 1,
        // The first token is more likely, until it has been drawn more often than the second one.
        tokenBiasKeys: Uint32Array.of(first, second),
        tokenBiasValues: Float32Array.of(1000, 900),
        repeatPenalty: 1,
        repeatPenaltyFrequencyPenalty: 200,
        repeatPenaltyMaxTokens: 256,
        repeatPenaltyTokens: Uint32Array.of(),
      });
      const sampled: number[] = [];
      for (let step = 0; step < 4; step++) {
        context.begin(1);
        const index = context.add(0, step, Uint32Array.of(sampled[step - 1] ?? 1), 1);
        await context.decode();
        change(sampler, step);
        sampled.push(await context.sample(index, sampler));
      }
      context.clear(0);
      sampler.dispose();
      return sampled;
    };
    const alternating = [first, second, first, second];
    assert.deepEqual(await drawn(() => {}), alternating);
    const changed = await drawn((sampler, step) =>
      sampler.constrain(step % 2 === 1 ? model.copyGrammar(allowAll) : null),
    );
    assert.deepEqual(changed, alternating);
  });

  test('an invalid model file is an error with the message of llama.cpp', async () => {
    await assert.rejects(
      NativeModel.load(backend, import.meta.filename, { gpuLayers: 0, onProgress() {} }),
      (error) =>
        error instanceof ModelFileError &&
        /llama\.cpp cannot load the file: .*(magic|gguf)/i.test(error.message),
    );
  });

  test('a model whose heads are too small for a KV cache in q8_0 is refused with the setting that works', async () => {
    await using folder = await temporaryFolder();
    const path = join(folder.path, 'random.gguf');
    writeRandomModel('lfm2', path);
    const small = await NativeModel.load(backend, path, { gpuLayers: 0, onProgress() {} });
    const sizes = { slots: 1, slotTokens: 256, batchTokens: 8, threads: 1 };
    await assert.rejects(
      small.context({ ...sizes, kvCache: 'q8_0' }),
      (error) =>
        error instanceof ModelFileError &&
        /the model needs `kvCache: f16`: .* q8_0 with block size 32 does not divide/.test(error.message),
    );
    await (await small.context({ ...sizes, kvCache: 'f16' })).dispose();
    await small.dispose();
  });

  test('a disposed context is refused', async () => {
    const other = await model.context({ slots: 1, slotTokens: 256, batchTokens: 8, threads: 1 });
    await other.dispose();
    await other.dispose();
    assert.throws(() => other.begin(1), /disposed/);
  });
});
