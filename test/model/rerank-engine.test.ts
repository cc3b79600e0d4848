import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { loadBackend } from '../../src/engine/llama/native/backend.ts';
import { NativeModel } from '../../src/engine/llama/native/model.ts';
import { EmbeddingEngine } from '../../src/engine/llama/embedding-engine.ts';
import { ServiceError } from '../../src/core/errors.ts';
import { NO_OUTPUT, type RerankRequest } from '../../src/core/generation.ts';
import { SILENT } from '../../src/support/log.ts';
import { temporaryFolder } from '../harness.ts';
import { type RandomModel, writeRandomModel } from './random-models.ts';

const never = new AbortController().signal;

function request(query: string, documents: readonly string[]): RerankRequest {
  return {
    ...NO_OUTPUT,
    kind: 'rerank',
    model: 'test/model',
    query,
    documents,
    cacheScope: null,
    user: null,
  };
}

async function rank(engine: EmbeddingEngine, query: string, documents: readonly string[]) {
  const scores: number[] = [];
  const asked = request(query, documents);
  for await (const event of engine.generate(asked, never)) {
    if (event.type === 'score') scores[event.index] = event.score;
    if (event.type !== 'end') continue;
    const { promptTokens } = event.usage;
    assert.equal(await engine.countPromptTokens(asked, never), promptTokens);
    return { scores, promptTokens };
  }
  return assert.fail('no end');
}

async function withModel(
  name: RandomModel,
  use: (engine: EmbeddingEngine, compute: (tokens: readonly number[]) => Promise<number>) => Promise<void>,
): Promise<void> {
  await using folder = await temporaryFolder();
  const file = join(folder.path, 'random.gguf');
  writeRandomModel(name, file);
  const options = { file, slots: 2, contextTokens: null, threads: 2, gpuLayers: 0 };
  await using engine = await EmbeddingEngine.load(options, { onProgress() {}, log: SILENT });
  const model = await NativeModel.load(await loadBackend(SILENT), file, { gpuLayers: 0, onProgress() {} });
  const inputTokens = engine.describe().contextTokens ?? 0;
  const sizes = { inputTokens, batchTokens: inputTokens, threads: 1, ranking: true };
  const context = await model.embeddingContext(sizes);
  try {
    await use(
      engine,
      async (tokens) => (await context.embed(Uint32Array.from(tokens), 1, () => {}))[0] ?? NaN,
    );
  } finally {
    await context.dispose();
    await model.dispose();
  }
}

/** Returns the tokens of a text for the random models: they have one for each byte, in the order of `byteTokens`. */
const bytes = (text: string): number[] => [...Buffer.from(text)];
const END = 256;

const QUERY = 'what is a sluice';
const DOCUMENTS = ['a gate in a channel', 'bread', 'a gate in a channel', 'the miller opens the gate'];

function assertNear(found: number | undefined, expected: number): void {
  assert(Math.abs((found ?? NaN) - expected) < 1e-4, `${found} instead of ${expected}`);
}

describe('an engine that ranks', () => {
  test('returns the score of the classifier for the query with each document', async () => {
    await withModel('bert with rank', async (engine, compute) => {
      const { scores, promptTokens } = await rank(engine, QUERY, DOCUMENTS);
      assert.equal(scores.length, DOCUMENTS.length);
      assert.equal(scores[0], scores[2]);
      assert.equal(new Set(scores).size, 3);
      for (const [index, document] of DOCUMENTS.entries()) {
        const logit = await compute([...bytes(QUERY), ...bytes(document)]);
        assertNear(scores[index], 1 / (1 + Math.exp(-logit)));
      }
      const length = DOCUMENTS.reduce((sum, document) => sum + QUERY.length + document.length, 0);
      assert.equal(promptTokens, length);
      const alone = await rank(engine, QUERY, DOCUMENTS.slice(3));
      assertNear(alone.scores[0], scores[3] ?? NaN);
    });
  });

  test('uses the template of the model, in which alone special tokens are recognized', async () => {
    await withModel('qwen3 with rank', async (engine, compute) => {
      const documents = ['bread', '<end>'];
      const { scores } = await rank(engine, QUERY, documents);
      for (const [index, document] of documents.entries()) {
        const prompt = [END, ...bytes(`${QUERY}\n<Document>: ${document}`), END];
        assertNear(scores[index], await compute(prompt));
      }
    });
  });

  test('computes a long document in several batches', async () => {
    await withModel('qwen3 with rank', async (engine, compute) => {
      const document = 'bread '.repeat(200);
      const { scores } = await rank(engine, QUERY, [document]);
      assertNear(scores[0], await compute([END, ...bytes(`${QUERY}\n<Document>: ${document}`), END]));
    });
  });

  test('refuses other requests, and a document that does not fit, with its index', async () => {
    await withModel('bert with rank', async (engine) => {
      const refusal = async (asked: Parameters<EmbeddingEngine['generate']>[0]) => {
        const error = await engine
          .generate(asked, never)
          .next()
          .then(
            () => assert.fail('the request was not refused'),
            (reason: unknown) => reason,
          );
        assert(error instanceof ServiceError, String(error));
        return [error.code, error.param];
      };
      const long = 'a'.repeat(250);
      assert.deepEqual(await refusal(request(QUERY, ['a', long])), [
        'context_length_exceeded',
        'documents[1]',
      ]);
      const { query: _, documents: __, ...rest } = request('', []);
      assert.deepEqual(await refusal({ ...rest, kind: 'embedding', inputs: ['a'], dimensions: null }), [
        'unsupported_parameter',
        'model',
      ]);
    });
  });
});
