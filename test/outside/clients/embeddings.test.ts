import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { OpenAIEmbeddings } from '@langchain/openai';
import { APICallError, cosineSimilarity, embed, embedMany } from 'ai';
import OpenAI, { BadRequestError } from 'openai';
import { scripted } from '../../support/scripted-engine/directive.ts';
import { run, startService } from '../../harness.ts';
import { catchError, recordingFetch } from './fixture.ts';
import { python, WITH_PYTHON } from './python.ts';

const MODEL = 'test/embedder';

const service = await startService(`
models:
  - id: ${MODEL}
    engine: {file: 'scripted:{"dimensions": 256, "contextTokens": 64}'}
`);
after(() => service[Symbol.asyncDispose]());

const baseURL = `${service.url}/v1`;
const apiKey = service.key;
const TEXTS = ['The river rises in spring.', 'Der Fluss steigt im Frühling. 🙂'];
const TOO_LONG = 'word '.repeat(100);

const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });

/** The vectors as they are on the wire, in 32 bits. */
const { data } = await client.embeddings.create({ model: MODEL, input: TEXTS, encoding_format: 'float' });
const VECTORS = data.map(({ embedding }) => embedding);

/** Asserts that numbers are equal in 32 bits. */
function assertVectors(found: readonly (readonly number[])[], expected = VECTORS): void {
  assert.deepEqual(
    found.map((vector) => Float32Array.from(vector)),
    expected.map((vector) => Float32Array.from(vector)),
  );
}

describe('openai for Node', () => {
  test('gets numbers, whichever format it asks for', async () => {
    assert.equal(VECTORS[0]?.length, 256);
    const { fetch, statuses } = recordingFetch();
    const byDefault = new OpenAI({ baseURL, apiKey, fetch });
    const response = await byDefault.embeddings.create({ model: MODEL, input: TEXTS });
    assertVectors(response.data.map(({ embedding }) => embedding));
    assert.deepEqual(response.usage, { prompt_tokens: 15, total_tokens: 15 });
    assert.deepEqual(statuses, [200]);
  });

  test('gets shorter vectors, and vectors of token IDs', async () => {
    const short = await client.embeddings.create({ model: MODEL, input: 'a', dimensions: 8 });
    assert.equal(short.data[0]?.embedding.length, 8);
    const tokens = await client.embeddings.create({ model: MODEL, input: [[1, 2, 3], [4]] });
    assert.equal(tokens.data.length, 2);
    assert.equal(tokens.usage.prompt_tokens, 4);
  });

  test('an input that is too long is a BadRequestError', async () => {
    const error = await catchError(client.embeddings.create({ model: MODEL, input: ['a', TOO_LONG] }));
    assert.ok(error instanceof BadRequestError);
    assert.equal(error.code, 'context_length_exceeded');
  });
});

describe('LangChain', () => {
  test('embeds documents in batches, and a query', async () => {
    const embeddings = new OpenAIEmbeddings({
      model: MODEL,
      apiKey,
      configuration: { baseURL },
      batchSize: 1,
      maxRetries: 0,
    });
    assertVectors(await embeddings.embedDocuments(TEXTS));
    assertVectors([await embeddings.embedQuery(TEXTS[1] ?? '')], VECTORS.slice(1));
  });
});

describe('the AI SDK', () => {
  const sluice = createOpenAICompatible({ name: 'sluice', baseURL, apiKey });
  const model = sluice.embeddingModel(MODEL);

  test('embeds one value and many, with usage', async () => {
    const many = await embedMany({ model, values: TEXTS });
    assertVectors(many.embeddings);
    assert.equal(many.usage.tokens, 15);
    const one = await embed({ model, value: TEXTS[0] ?? '' });
    assert.ok(cosineSimilarity(one.embedding, many.embeddings[0] ?? []) > 0.999);
    const providerOptions = { sluice: { dimensions: 8 } };
    assert.equal((await embed({ model, value: 'a', providerOptions })).embedding.length, 8);
  });

  test('an error has its status and message', async () => {
    const error = await catchError(embed({ model, value: TOO_LONG, maxRetries: 0 }));
    assert.ok(APICallError.isInstance(error), String(error));
    assert.equal(error.statusCode, 400);
    assert.match(error.message, /\b64\b.*\b125\b/);
    const failed = await catchError(
      embed({ model, value: scripted({ error: 'engine_unavailable' }), maxRetries: 0 }),
    );
    assert.ok(APICallError.isInstance(failed), String(failed));
    assert.deepEqual([failed.statusCode, failed.isRetryable], [503, true]);
  });
});

test(
  'openai for Python gets the same numbers in both formats, also asynchronously',
  WITH_PYTHON,
  async () => {
    const env = { ...process.env, SLUICE_URL: service.url, SLUICE_KEY: apiKey, SLUICE_MODEL: MODEL };
    const script = join(import.meta.dirname, 'openai_embeddings.py');
    const { code, stdout, stderr } = await run(python, [script], env, { input: JSON.stringify(TEXTS) });
    assert.equal(code, 0, stderr);
    const { vectors, error } = JSON.parse(stdout) as { vectors: number[][][]; error: unknown };
    assert.equal(vectors.length, 3);
    for (const found of vectors) assertVectors(found);
    assert.deepEqual(error, ['BadRequestError', 'invalid_value', 'input[1]']);
  },
);
