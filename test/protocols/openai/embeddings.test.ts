import assert from 'node:assert/strict';
import { test } from 'node:test';
import { array, assert as check, float, property } from '../../support/fast-check.ts';
import type { EmbeddingRequest } from '../../../src/core/generation.ts';
import { EMBEDDINGS } from '../../../src/protocols/openai/embeddings.ts';
import { readEmbeddings } from '../../../src/replicas/wire/embedding-reader.ts';
import { LARGE_JSON } from '../../../src/json/json-thread.ts';
import { encodeVector, formatVector, readVector } from '../../../src/json/vectors.ts';
import { Notes } from '../../../src/core/notes.ts';
import { CALLER, refuses } from './samples.ts';

function parse(body: object): EmbeddingRequest {
  const { generation } = EMBEDDINGS.parse({ model: 'ns/m', ...body }, CALLER);
  assert(generation.kind === 'embedding');
  return generation;
}

test('an input is a text, token IDs, or an array of either', () => {
  for (const [input, inputs] of [
    ['a', ['a']],
    [
      ['a', 'b'],
      ['a', 'b'],
    ],
    [[1, 2], [[1, 2]]],
    [
      [[1], [2, 3]],
      [[1], [2, 3]],
    ],
  ] as const) {
    assert.deepEqual(parse({ input }).inputs, inputs);
  }
  assert.equal(parse({ input: Array.from({ length: 2048 }, () => 'a') }).inputs.length, 2048);
});

test('an input that is none names its place', () => {
  for (const [input, param] of [
    ['', 'input'],
    [[], 'input'],
    [['a', ''], 'input[1]'],
    [[[]], 'input[0]'],
    [[[1], []], 'input[1]'],
    [[1, -1], 'input[1]'],
    [[[1], [2, 1.5]], 'input[1][1]'],
    [Array.from({ length: 2049 }, () => 'a'), 'input'],
    [['\ud800'], 'input[0]'],
  ] as const) {
    refuses(() => parse({ input }), 'invalid_value', param);
  }
  for (const [input, param] of [
    [1, 'input'],
    [{}, 'input'],
    [['a', 1], 'input[1]'],
    [[[1], 'a'], 'input[1]'],
    [[1, 'a'], 'input[1]'],
    [[null], 'input[0]'],
  ] as const) {
    refuses(() => parse({ input }), 'invalid_type', param);
  }
  refuses(() => parse({}), 'missing_required_parameter', 'input');
  refuses(() => parse({ input: null }), 'missing_required_parameter', 'input');
});

test('other fields are checked, noted or refused like those of a chat', () => {
  refuses(() => parse({ input: 'a', encoding_format: 'hex' }), 'invalid_value', 'encoding_format');
  for (const dimensions of [0, 65_537])
    refuses(() => parse({ input: 'a', dimensions }), 'invalid_value', 'dimensions');
  refuses(() => parse({ input: 'a', dimensions: 1.5 }), 'invalid_type', 'dimensions');
  refuses(() => parse({ input: 'a', dimension: 5 }), 'unsupported_parameter', 'dimension');
  const notes = new Notes();
  EMBEDDINGS.parse({ model: 'ns/m', input: 'a', input_type: 'query' }, { ...CALLER, notes });
  assert.equal(notes.header(), 'input_type ignored (unknown field)');
});

const numbers = array(float({ noNaN: true, noDefaultInfinity: true }), { minLength: 1, maxLength: 50 });

test('a vector is the same after it was written in either form and read again', () => {
  check(
    property(numbers, (list) => {
      const vector = Float32Array.from(list);
      // JSON has no negative zero.
      const positive = vector.map((number) => (number === 0 ? 0 : number));
      assert.deepEqual(readVector(encodeVector(vector)), vector);
      assert.deepEqual(readVector(JSON.parse(formatVector(vector))), positive);
      // A view into a larger buffer, at any offset.
      const shifted = Float32Array.from([7, ...list]).subarray(1);
      assert.deepEqual(readVector(encodeVector(shifted)), vector);
    }),
  );
});

async function read(request: EmbeddingRequest, response: unknown) {
  const body = new TextEncoder().encode(typeof response === 'string' ? response : JSON.stringify(response));
  return await readEmbeddings(request, body);
}

const item = (index: number, embedding: unknown) => ({ object: 'embedding', index, embedding });

test('the vectors of a replica are read in any order and in both forms', async () => {
  const request = parse({ input: ['a', 'b'] });
  const first = Float32Array.of(1, 0);
  const second = Float32Array.of(0, 1);
  const vectors = [
    { type: 'embedding', index: 0, vector: first },
    { type: 'embedding', index: 1, vector: second },
  ];
  for (const data of [
    [item(0, [1, 0]), item(1, [0, 1])],
    [item(1, encodeVector(second)), item(0, encodeVector(first))],
    [{ embedding: [1, 0] }, { embedding: [0, 1] }],
  ]) {
    const [started, ...rest] = await read(request, { data, usage: { prompt_tokens: 3, total_tokens: 3 } });
    assert.deepEqual(started, { type: 'started', promptTokens: 3, cachedTokens: null });
    assert.deepEqual(rest.slice(0, 2), vectors);
    const usage = { promptTokens: 3, completionTokens: 0, cachedTokens: 0, reasoningTokens: 0 };
    assert.deepEqual(rest.at(-1), { type: 'end', usage, usageSource: 'engine' });
  }
  const [, , , end] = await read(request, { data: [item(0, [1]), item(1, [2])] });
  assert.equal((end as { usageSource: string }).usageSource, 'estimated');
});

test('an invalid response of a replica is a failure of the replica', async () => {
  const request = parse({ input: ['a', 'b'] });
  const nan = encodeVector(Float32Array.of(1, NaN));
  for (const response of [
    'no JSON',
    '[]',
    { error: { message: 'no' } },
    { data: [] },
    { data: [item(0, [1, 0])] },
    { data: [item(0, [1, 0]), item(1, [0, 1]), item(2, [0, 1])] },
    { data: [item(0, [1, 0]), item(0, [0, 1])] },
    { data: [item(0, [1, 0]), item(2, [0, 1])] },
    { data: [item(0, [1, 0]), item(1, [0, 1, 0])] },
    { data: [item(0, [1, 0]), item(1, [0, null])] },
    { data: [item(0, [1, 0]), item(1, nan)] },
    { data: [item(0, [1, 0]), item(1, 'AAAA')] },
    { data: [item(0, []), item(1, [])] },
    { data: [item(0, [1, 0]), item(1, [0, 1])], more: Array.from({ length: 1000 }, () => ({})) },
    { data: [item(0, [1e300, 0]), item(1, [0, 1])] },
  ]) {
    await assert.rejects(read(request, response), { code: 'engine_unavailable' }, JSON.stringify(response));
  }
});

test('vectors of another length than requested are an error of the caller', async () => {
  const request = parse({ input: ['a', 'b'], dimensions: 3 });
  const data = [item(0, [1, 0]), item(1, [0, 1])];
  await assert.rejects(read(request, { data }), { code: 'invalid_value', param: 'dimensions' });
});

test('a large response is read on a thread, with the same result', async () => {
  const input = Array.from({ length: 300 }, (_, index) => `text ${index}`);
  const vectors = input.map((_, index) => Float32Array.from({ length: 1024 }, (_, at) => index + at / 8));
  const data = vectors.map((vector, index) => item(index, encodeVector(vector)));
  const response = JSON.stringify({ data, usage: { total_tokens: 900 } });
  assert.ok(response.length > LARGE_JSON);
  const events = await read(parse({ input }), response);
  assert.deepEqual(
    events.slice(1, -1),
    vectors.map((vector, index) => ({ type: 'embedding', index, vector })),
  );
  await assert.rejects(read(parse({ input: ['a'] }), response), { code: 'engine_unavailable' });
});
