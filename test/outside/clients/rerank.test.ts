import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { createCohere } from '@ai-sdk/cohere';
import { APICallError, rerank } from 'ai';
import { startService } from '../../harness.ts';
import { catchError } from './fixture.ts';

const MODEL = 'test/ranker';

const service = await startService(`
models:
  - id: ${MODEL}
    engine: {file: 'scripted:{"ranks": true, "contextTokens": 64}'}
`);
after(() => service[Symbol.asyncDispose]());

/** Sends the requests of the second version of Cohere's API. */
const cohere = createCohere({ baseURL: `${service.url}/v2`, apiKey: service.key });
const options = { model: cohere.reranking(MODEL), query: 'red gate', maxRetries: 0 };

test('the AI SDK ranks documents with its client of Cohere', async () => {
  const documents = ['a blue door', 'the red gate', 'a red door'];
  const { ranking, rerankedDocuments } = await rerank({ ...options, documents, topN: 2 });
  assert.deepEqual(
    ranking.map(({ originalIndex, score }) => [originalIndex, score]),
    [
      [1, 1],
      [2, 0.5],
    ],
  );
  assert.deepEqual(rerankedDocuments, ['the red gate', 'a red door']);
});

test('the AI SDK throws the status of a document that is too long', async () => {
  const error = await catchError(rerank({ ...options, documents: ['a', 'word '.repeat(100)] }));
  assert.ok(APICallError.isInstance(error), String(error));
  assert.equal(error.statusCode, 400);
  assert.match(error.responseBody ?? '', /context_length_exceeded/);
});
