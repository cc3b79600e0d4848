import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { parseJsonBody } from '../../src/json/json-body.ts';
import { refuses } from '../protocols/openai/samples.ts';

const bytes = (text: string): Buffer => Buffer.from(text);

test('a JSON object is parsed, with or without a byte order mark', () => {
  assert.deepEqual(parseJsonBody(bytes('{"a":[1,"é"]}')), { a: [1, 'é'] });
  assert.deepEqual(parseJsonBody(bytes('\ufeff{"a":1}')), { a: 1 });
});

test('any JSON object is parsed as JSON.parse does', () => {
  fc.assert(
    fc.property(fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue({ maxDepth: 5 })), (value) => {
      const body = JSON.stringify(value);
      assert.deepEqual(parseJsonBody(bytes(body)), JSON.parse(body));
    }),
  );
});

test('anything but a JSON object is invalid_json', () => {
  for (const body of [
    '',
    ' ',
    '{',
    '[]',
    'null',
    '"x"',
    '1',
    '{"a":1}x',
    "{'a':1}",
    '{"a":01}',
    '{"a":NaN}',
  ]) {
    refuses(() => parseJsonBody(bytes(body)), 'invalid_json', null);
  }
});

test('bytes that are not UTF-8 are invalid_json', () => {
  for (const broken of [[0xff], [0xc3], [0xed, 0xa0, 0x80], [0xc0, 0xaf]]) {
    const body = Buffer.concat([bytes('{"a":"'), Buffer.from(broken), bytes('"}')]);
    refuses(() => parseJsonBody(body), 'invalid_json', null);
  }
});

const nested = (depth: number): string => `{"a":${'['.repeat(depth - 1)}${']'.repeat(depth - 1)}}`;

test('64 levels are accepted and 65 are not, and brackets in strings do not count', () => {
  assert.ok(parseJsonBody(bytes(nested(64))));
  refuses(() => parseJsonBody(bytes(nested(65))), 'invalid_json', null);
  const brackets = '[{'.repeat(500);
  assert.deepEqual(parseJsonBody(bytes(JSON.stringify({ a: `${brackets}\\"${brackets}\\`, b: '\\' }))), {
    a: `${brackets}\\"${brackets}\\`,
    b: '\\',
  });
});

test('ten million brackets are refused without being parsed', () => {
  refuses(() => parseJsonBody(Buffer.alloc(10_000_000, '[')), 'invalid_json', null);
});

test('50,000 values are accepted and more are not, and commas in strings do not count', () => {
  const values = (count: number): string => `{"a":[${'0,'.repeat(count - 2)}0]}`;
  assert.ok(parseJsonBody(bytes(values(50_000))));
  for (const body of [
    values(50_001),
    `{"a":[${'[],'.repeat(30_000)}[]]}`,
    `{${Array.from({ length: 50_001 }, (_, index) => `"${index}":0`).join()}}`,
  ]) {
    assert.throws(() => parseJsonBody(bytes(body)), {
      code: 'invalid_json',
      message: 'The request body has more than 50000 JSON values.',
    });
  }
  assert.throws(() => parseJsonBody(bytes('"'.repeat(200_002))), {
    code: 'invalid_json',
    message: 'The request body has more than 100000 JSON values besides numbers.',
  });
  const commas = ',\\",'.repeat(50_000);
  assert.deepEqual(parseJsonBody(bytes(JSON.stringify({ a: commas, b: '\\' }))), { a: commas, b: '\\' });
});

test('a body that may have many numbers may have only the usual strings, names, arrays and objects', () => {
  const bounds = { values: 1000, notNumbers: 20 };
  const parse = (body: string) => parseJsonBody(bytes(body), bounds);
  const numbers = `[${'0,'.repeat(900)}0]`;
  assert.ok(parse(`{"a":${numbers}}`));
  for (const body of [
    `{"a":[${'"",'.repeat(20)}0]}`,
    `{"a":[${'[],'.repeat(20)}0]}`,
    `{"a":[${'{},'.repeat(20)}0]}`,
    `{${Array.from({ length: 20 }, (_, index) => `"${index}":0`).join()}}`,
  ]) {
    assert.throws(() => parse(body), {
      code: 'invalid_json',
      message: 'The request body has more than 20 JSON values besides numbers.',
    });
  }
});

test('error messages do not quote the body', () => {
  assert.throws(
    () => parseJsonBody(bytes('{"secret-marker')),
    (error: Error) => !`${error.message} ${String(error.cause)}`.includes('secret-marker'),
  );
});
