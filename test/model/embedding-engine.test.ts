import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { loadBackend } from '../../src/engine/llama/native/backend.ts';
import { NativeModel } from '../../src/engine/llama/native/model.ts';
import { EmbeddingEngine } from '../../src/engine/llama/embedding-engine.ts';
import { planMemory } from '../../src/models/memory.ts';
import { Vocabulary } from '../../src/engine/llama/prompt/vocabulary.ts';
import { HttpReplicaClient } from '../../src/replicas/replica-client.ts';
import { Supervisor } from '../../src/serving/supervisor.ts';
import { ServiceError } from '../../src/core/errors.ts';
import {
  type EmbeddingInput,
  type EmbeddingRequest,
  type GenerationEvent,
  type GenerationRequest,
  NO_OUTPUT,
} from '../../src/core/generation.ts';
import { SILENT } from '../../src/support/log.ts';
import { ModelFileError } from '../../src/models/errors.ts';
import { readGguf } from '../../src/models/gguf.ts';
import { quantizedFile } from '../embedding-model.ts';
import { REPLICA } from '../replicas/replicas.ts';
import { temporaryFolder, until } from '../harness.ts';
import { text } from './embedded-engine.ts';
import { type RandomModel, writeRandomModel } from './random-models.ts';

const file = process.env.SLUICE_TEST_EMBEDDING_MODEL ?? '';
const SKIP = { skip: file === '' && 'SLUICE_TEST_EMBEDDING_MODEL is not set' };

const DIMENSIONS = 384;
const CONTEXT_TOKENS = 512;

/**
 * Texts with the number of their tokens and their embedding, computed with sentence-transformers 6.2.0 and PyTorch 2.15.0
 * from the weights in F32. Vectors are 16-bit floats in Base64.
 */
const REFERENCE = JSON.parse(readFileSync(join(import.meta.dirname, 'embedding-reference.json'), 'utf8')) as {
  language: string;
  text: string;
  tokens: number;
  vector: string;
}[];
const TEXTS = REFERENCE.map(({ text }) => text);

const never = new AbortController().signal;

async function load(path: string, changed: { slots?: number; contextTokens?: number } = {}) {
  const options = { file: path, slots: 2, contextTokens: null, threads: 2, gpuLayers: 0, ...changed };
  return await EmbeddingEngine.load(options, { onProgress() {}, log: SILENT });
}

function request(inputs: readonly EmbeddingInput[], dimensions: number | null = null): EmbeddingRequest {
  const shared = { model: 'test/model', cacheScope: null, traceparent: null, user: null };
  return { ...NO_OUTPUT, ...shared, kind: 'embedding', inputs, dimensions };
}

async function embed(engine: EmbeddingEngine, asked: EmbeddingRequest, signal = never) {
  const vectors: Float32Array[] = [];
  let end: GenerationEvent | undefined;
  for await (const event of engine.generate(asked, signal)) {
    end = event;
    if (event.type !== 'embedding') continue;
    assert.equal(event.index, vectors.length);
    vectors.push(event.vector);
  }
  assert(end?.type === 'end' && end.usageSource === 'engine');
  assert.equal(await engine.countPromptTokens(asked, signal), end.usage.promptTokens);
  return { promptTokens: end.usage.promptTokens, vectors };
}

async function refusal(engine: EmbeddingEngine, asked: GenerationRequest) {
  const error = await engine
    .generate(asked, never)
    .next()
    .then(
      () => assert.fail('the request was not refused'),
      (reason: unknown) => reason,
    );
  assert(error instanceof ServiceError, String(error));
  return { code: error.code, param: error.param, message: error.message };
}

/** Of vectors with the length 1. */
function cosine(a: Float32Array, b: ArrayLike<number>): number {
  return a.reduce((sum, value, i) => sum + value * (b[i] ?? Number.NaN), 0);
}

function expected(index: number): Float16Array {
  return new Float16Array(Uint8Array.from(Buffer.from(REFERENCE[index]?.vector ?? '', 'base64')).buffer);
}

/** Asserts that the embeddings of every `step`th text have a cosine similarity of `least` with the reference. */
async function assertAgrees(engine: EmbeddingEngine, step: number, least: number): Promise<void> {
  const chosen = REFERENCE.map((reference, index) => ({ ...reference, index })).filter(
    ({ index }) => index % step === 0,
  );
  const { vectors, promptTokens } = await embed(engine, request(chosen.map(({ text }) => text)));
  assert.equal(vectors.length, chosen.length);
  assert.equal(
    promptTokens,
    chosen.reduce((sum, { tokens }) => sum + tokens, 0),
  );
  for (const [at, { text, index }] of chosen.entries()) {
    const vector = vectors[at] ?? new Float32Array();
    const similarity = cosine(vector, expected(index));
    assert(similarity >= least, `${text}: ${similarity}`);
    assert(Math.abs(Math.hypot(...vector) - 1) < 1e-5, 'the vector has the length 1');
  }
}

test('embeddings in Q8_0 agree with the reference for texts in five languages', SKIP, async () => {
  await using engine = await load(quantizedFile(file));
  await assertAgrees(engine, 5, 0.99);
});

describe('an engine of embeddings', SKIP, () => {
  const loading = SKIP.skip ? null : load(file);
  after(async () => (await loading)?.[Symbol.asyncDispose]());
  const engineOf = async () => (await loading) ?? assert.fail();

  test('agrees with the reference for 50 texts in five languages', async () => {
    await assertAgrees(await engineOf(), 1, 0.999);
  });

  test('computes the same for a text alone, in a batch, and as token IDs', async () => {
    const engine = await engineOf();
    const texts = TEXTS.slice(0, 4);
    const { vectors } = await embed(engine, request(texts));
    for (const [index, text] of texts.entries()) {
      const single = await embed(engine, request([text]));
      assert(cosine(single.vectors[0] as Float32Array, vectors[index] as Float32Array) > 0.99999);
    }
    // [CLS] bread [SEP]
    const ids = await embed(engine, request([[101, 7852, 102]]));
    assert.equal(ids.promptTokens, 3);
    assert(cosine(ids.vectors[0] as Float32Array, vectors[0] as Float32Array) > 0.99999);
  });

  test('computes requests at the same time without mixing them up', async () => {
    const engine = await engineOf();
    const requests = Array.from({ length: 6 }, (_, index) => TEXTS.slice(index, index + 4));
    const results = await Promise.all(requests.map((texts) => embed(engine, request(texts))));
    for (const [first, { vectors }] of results.entries())
      for (const [index, vector] of vectors.entries())
        assert(cosine(vector, expected(first + index)) > 0.999);
    const { slots, slotsInUse, queued } = engine.health();
    assert.deepEqual([slots, slotsInUse, queued], [2, 0, 0]);
  });

  test('takes texts that look like special tokens as text', async () => {
    const engine = await engineOf();
    assert((await embed(engine, request(['[SEP]']))).promptTokens > 3);
  });

  test('takes an input of the whole context, and refuses a longer one with its index and both numbers', async () => {
    const engine = await engineOf();
    const fits = await embed(engine, request([Array.from({ length: CONTEXT_TOKENS }, () => 7852)]));
    assert.equal(fits.promptTokens, CONTEXT_TOKENS);
    const word = 'bread ';
    const text = request([word.repeat(CONTEXT_TOKENS - 2)]);
    assert.equal(await engine.countPromptTokens(text, never), CONTEXT_TOKENS);
    assert.deepEqual(await refusal(engine, request(['a', word.repeat(CONTEXT_TOKENS - 1)])), {
      code: 'context_length_exceeded',
      param: 'input[1]',
      message: "This model's maximum context length is 512 tokens; `input[1]` has 513.",
    });
    const tokens = await refusal(engine, request([Array.from({ length: CONTEXT_TOKENS + 1 }, () => 7852)]));
    assert.equal(tokens.message, "This model's maximum context length is 512 tokens; `input[0]` has 513.");
  });

  test('stops counting the tokens of a text that is far too long', async () => {
    const engine = await engineOf();
    const { message } = await refusal(engine, request(['bread '.repeat(1_000_000)]));
    const [, found] = /has at least (\d+)\./.exec(message) ?? assert.fail(message);
    assert(Number(found) < 10_000);
  });

  test('refuses a very long text without a word boundary', async () => {
    const engine = await engineOf();
    const { code, param } = await refusal(engine, request(['a', 'b'.repeat(1_000_000)]));
    assert.deepEqual([code, param], ['invalid_value', 'input[1]']);
  });

  test('refuses an empty input, and tokens that the model does not have', async () => {
    const engine = await engineOf();
    for (const empty of ['', []])
      assert.deepEqual(await refusal(engine, request(['a', empty])), {
        code: 'invalid_value',
        param: 'input[1]',
        message: '`input[1]` must not be empty.',
      });
    for (const id of [30_522, -1, 1.5])
      assert.deepEqual(await refusal(engine, request(['a', [101, id]])), {
        code: 'invalid_value',
        param: 'input[1]',
        message: `\`input[1]\` has the token ${id}, but the tokens of this model are 0 to 30521.`,
      });
  });

  test('takes only the number of dimensions that the model has', async () => {
    const engine = await engineOf();
    const { vectors } = await embed(engine, request(['a'], DIMENSIONS));
    assert.equal(vectors[0]?.length, DIMENSIONS);
    assert.deepEqual(await refusal(engine, request(['a'], 256)), {
      code: 'invalid_value',
      param: 'dimensions',
      message:
        'The embeddings of this model have 384 dimensions; `dimensions` must be 384 or absent, not 256.',
    });
  });

  test('computes no more inputs after an abort', async () => {
    const engine = await engineOf();
    const abort = new AbortController();
    const before = engine.health().promptTokens ?? 0;
    const many = request(Array.from({ length: 50 }, () => TEXTS).flat());
    const promptTokens = await engine.countPromptTokens(many, never);
    const reason = new Error('the caller left');
    let seen = 0;
    await assert.rejects(async () => {
      for await (const { type } of engine.generate(many, abort.signal))
        if (type === 'embedding' && ++seen === 3) abort.abort(reason);
    }, reason);
    assert.equal(seen, 3);
    // A later request is computed after what was running.
    await embed(engine, request(['a']));
    assert((engine.health().promptTokens ?? 0) - before < promptTokens / 10);
  });

  test('stops computing when the reader leaves', async () => {
    const engine = await engineOf();
    for await (const { type } of engine.generate(request(TEXTS), never)) if (type === 'embedding') break;
    await embed(engine, request(['a']));
    assert.equal(engine.health().queued, 0);
  });

  test('refuses requests for text, with the endpoint to use', async () => {
    const engine = await engineOf();
    const { code, param, message } = await refusal(engine, text('a'));
    assert.deepEqual([code, param], ['unsupported_parameter', 'model']);
    assert.match(message, /POST \/v1\/embeddings/);
  });

  test('describes its model', async () => {
    const engine = await engineOf();
    assert.deepEqual(engine.describe(), {
      contextTokens: CONTEXT_TOKENS,
      maxCompletionTokens: null,
      quantization: 'F16',
      tokenizer: 'BERT',
      instructType: null,
      modality: 'text->embedding',
    });
  });
});

test('an engine that stops ends the running inputs and refuses the others', SKIP, async () => {
  const engine = await load(file);
  const reading = (async () => {
    for await (const { type } of engine.generate(request(TEXTS), never))
      if (type === 'embedding') void engine[Symbol.asyncDispose]();
  })();
  await assert.rejects(reading, { code: 'shutting_down' });
});

test('an engine process serves the model with a thread for each slot', SKIP, async () => {
  await using folder = await temporaryFolder();
  const engine = { file, slots: null, contextTokens: null, threads: 2, gpuLayers: 0 };
  const argument = { socketPath: join(folder.path, 'engine'), modelId: 'test/model', maxChoices: 16 };
  await using supervisor = new Supervisor({
    name: 'test/model',
    program: join(import.meta.dirname, '../../src/engine/llama/main.ts'),
    argument: { ...argument, engine, logLevel: 'silent' },
    stallMs: 60_000,
    loadStallMs: 300_000,
    log: SILENT,
  });
  supervisor.start();
  await until(() => supervisor.state.state !== 'loading');
  assert.equal(supervisor.state.state, 'ready');
  assert.equal(supervisor.description?.modality, 'text->embedding');
  assert.deepEqual(supervisor.capacity, { slots: 2, slotsInUse: null, queued: null, takesTurns: true });
  await using client = new HttpReplicaClient({
    ...REPLICA,
    socketPath: argument.socketPath,
    model: 'test/model',
  });
  const vectors: Float32Array[] = [];
  const texts = TEXTS.slice(0, 6);
  for await (const event of client.generate(request(texts), never))
    if (event.type === 'embedding') vectors.push(event.vector);
  assert.equal(vectors.length, texts.length);
  for (const [index, vector] of vectors.entries()) assert(cosine(vector, expected(index)) > 0.999);
  // The advice for servers that take only texts does not apply.
  await assert.rejects(client.generate(request([[1], [999_999_999]]), never).next(), {
    param: 'input[1]',
    message: /^`input\[1\]` has the token 999999999, but [^.]*\.$/,
  });
  if (process.platform !== 'linux') return;
  const environment = readFileSync(`/proc/${supervisor.pid}/environ`, 'utf8').split('\0');
  assert(environment.includes('UV_THREADPOOL_SIZE=2'));
});

test('a text has the same tokens in pieces', SKIP, async () => {
  const model = await NativeModel.load(await loadBackend(SILENT), file, { gpuLayers: 0, onProgress() {} });
  const { vocabularySize } = await readGguf(file);
  const { cuts } = new Vocabulary(model, vocabularySize ?? 0);
  const text = TEXTS.join('\n');
  const pieces = [...cuts.pieces(text, 20)];
  const tokens = pieces.flatMap((piece) => [...model.tokenize(piece, false)]);
  assert.deepEqual(tokens, [...model.tokenize(text, false)]);
  assert(pieces.length > 50);
  await model.dispose();
});

test('the plan counts the memory that the slots of embeddings take', SKIP, async () => {
  const info = await readGguf(file);
  const options = { slots: 2, contextTokens: null, threads: 2 };
  const plan = planMemory(info, options, { availableBytes: 0, gpu: false });
  const model = await NativeModel.load(await loadBackend(SILENT), file, { gpuLayers: 0, onProgress() {} });
  const sizes = {
    inputTokens: plan.contextTokens,
    batchTokens: plan.batchTokens,
    threads: 1,
    ranking: false,
  };
  const context = await model.embeddingContext(sizes);
  const allocated = plan.slots * context.allocatedBytes;
  await context.dispose();
  await model.dispose();
  assert.equal(plan.kvBytes, 0);
  assert(allocated <= plan.computeBytes, `planned ${plan.computeBytes}, allocated ${allocated}`);
  assert(plan.computeBytes < 1.3 * allocated, `planned ${plan.computeBytes}, allocated ${allocated}`);
});

async function withRandomModel(name: RandomModel, use: (path: string) => Promise<void>): Promise<void> {
  await using folder = await temporaryFolder();
  const path = join(folder.path, 'random.gguf');
  writeRandomModel(name, path);
  await use(path);
}

test('a model whose tokens see only earlier ones computes a long input in several batches', async () => {
  await withRandomModel('qwen3 with last', async (path) => {
    await using engine = await load(path, { slots: 1 });
    const ids = Array.from({ length: 1300 }, (_, index) => (index * 7) % 250);
    const { vectors } = await embed(engine, request([ids]));
    const model = await NativeModel.load(await loadBackend(SILENT), path, { gpuLayers: 0, onProgress() {} });
    const context = await model.embeddingContext({
      inputTokens: 2048,
      batchTokens: 2048,
      threads: 1,
      ranking: false,
    });
    const whole = await context.embed(Uint32Array.from(ids), 1, () => {});
    await context.dispose();
    await model.dispose();
    const length = Math.hypot(...whole);
    assert(
      cosine(
        vectors[0] as Float32Array,
        whole.map((value) => value / length),
      ) > 0.9999,
    );
    // The tokenizer of this model ends each text with a token.
    assert.equal((await embed(engine, request(['abc']))).promptTokens, 4);
  });
});

test('a model can use its first token for the input', async () => {
  await withRandomModel('bert with cls', async (path) => {
    await using engine = await load(path);
    const { vectors } = await embed(
      engine,
      request([
        [1, 2, 3],
        [1, 2, 4],
      ]),
    );
    assert.equal(vectors.length, 2);
    assert(cosine(vectors[0] as Float32Array, vectors[1] as Float32Array) < 0.99999);
  });
});

for (const [name, reason] of [['bert without pooling', /pooling_type/]] as const)
  test(`a model is refused at load: ${name}`, async () => {
    await withRandomModel(name, async (path) => {
      await assert.rejects(
        () => load(path),
        (error: unknown) => error instanceof ModelFileError && reason.test(error.message),
      );
    });
  });
