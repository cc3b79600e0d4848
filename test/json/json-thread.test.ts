import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import * as fc from '../support/fast-check.ts';
import { jsonBody, LARGE_JSON, type JsonBody, writeLargeJson } from '../../src/json/json-thread.ts';
import { refuses } from '../protocols/openai/samples.ts';

/** The UTF-8 of a JSON text, padded with white space until it is parsed on the thread. */
const large = (json: string): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(Buffer.from(json.padEnd(LARGE_JSON)));

test('a large body is parsed on the thread as JSON.parse does, and a value is written as JSON.stringify does', async () => {
  const objects = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ maxDepth: 5 }));
  await fc.assert(
    fc.asyncProperty(objects, async (value) => {
      const json = JSON.stringify(value);
      const body = await jsonBody(large(json));
      assert.deepEqual(body(), JSON.parse(json));
      assert.equal(Buffer.from(await writeLargeJson(value)).toString(), Buffer.from(json).toString());
    }),
    { numRuns: 20 },
  );
});

test('numbers keep their text on the way to the thread and back', async () => {
  const json = '{"schema":{"const":12345678901234567890,"enum":[1.0]}}';
  const body = (await jsonBody(large(json)))();
  assert.equal(JSON.stringify(body), json);
  assert.equal(Buffer.from(await writeLargeJson(body)).toString(), json);
});

test('a large body is invalid_json for the same reasons as a small one, when it is read', async () => {
  for (const json of ['{', '[]', '{"a":"\xff', '['.repeat(65)]) {
    const body = await jsonBody(large(json));
    refuses(() => body(), 'invalid_json', null);
  }
});

test('this thread neither parses nor writes a large text', async () => {
  const parse = mock.method(JSON, 'parse');
  const stringify = mock.method(JSON, 'stringify');
  try {
    const body = await jsonBody(large('{"a":1}'));
    body();
    await writeLargeJson({ a: 'x'.repeat(LARGE_JSON) });
    assert.equal(parse.mock.callCount() + stringify.mock.callCount(), 0);
  } finally {
    mock.reset();
  }
});

test('a body of tens of thousands of values is parsed in a turn of the event loop of its own', async () => {
  const bytes = Uint8Array.from(Buffer.from('{"a":1}'.padEnd(65_536)));
  const parse = mock.method(JSON, 'parse');
  try {
    let body: JsonBody | null = null;
    const read = async () => (body = await jsonBody(bytes));
    const reading = read();
    assert.deepEqual([parse.mock.callCount(), body], [0, null]);
    await nextTurn();
    assert.deepEqual([parse.mock.callCount(), body], [1, null]);
    await nextTurn();
    assert.notEqual(body, null);
    assert.deepEqual((await reading)(), { a: 1 });
  } finally {
    mock.reset();
  }
});

test('texts that arrive together are answered in their order', async () => {
  const numbers = Array.from({ length: 8 }, (_, index) => index);
  const bodies = await Promise.all(numbers.map(async (index) => await jsonBody(large(`{"index":${index}}`))));
  assert.deepEqual(
    bodies.map((body) => body()['index']),
    numbers,
  );
});

test('a text that cannot be written is rejected alone', async () => {
  const [, written] = await Promise.all([
    assert.rejects(writeLargeJson(1n), { name: 'TypeError' }),
    writeLargeJson([1]),
  ]);
  assert.equal(Buffer.from(written).toString(), '[1]');
});

test('a value that cannot be sent to the thread is rejected, and later texts are written', async () => {
  await assert.rejects(writeLargeJson({ toJSON: () => 1 }), { name: 'DataCloneError' });
  assert.equal(Buffer.from(await writeLargeJson([1])).toString(), '[1]');
});
