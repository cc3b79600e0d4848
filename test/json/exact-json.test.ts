import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import * as fc from '../support/fast-check.ts';
import {
  isRawNumber,
  parseExactBody,
  parseExactJson,
  restoreExact,
  type ExactNumber,
} from '../../src/json/exact-json.ts';

const digits = fc.stringMatching(/^(?:0|[1-9][0-9]{0,24})$/);
const fraction = fc.stringMatching(/^\.[0-9]{1,20}$/);
const exponent = fc.stringMatching(/^[eE][+-]?[0-9]{1,3}$/);
const maybe = (part: fc.Arbitrary<string>) => fc.oneof(fc.constant(''), part);
const numberText = fc
  .tuple(maybe(fc.constant('-')), digits, maybe(fraction), maybe(exponent))
  .map((parts) => parts.join(''));
const space = fc.constantFrom('', ' ', '\n  ');

/** JSON in which the order of members is that of JavaScript. */
const json: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    numberText,
    fc.string().map((text) => JSON.stringify(text)),
    fc.constantFrom('true', 'null'),
    fc
      .tuple(space, fc.array(tie('value'), { maxLength: 4 }))
      .map(([before, list]) => `[${list.map((item) => before + item).join(',')}]`),
    fc
      .tuple(space, fc.array(tie('value'), { maxLength: 4 }))
      .map(
        ([before, list]) =>
          `{${list.map((item, index) => `"k${index}":${before}${item}${before}`).join(',')}}`,
      ),
  ),
})).value;

test('numbers are written as they were read', () => {
  fc.assert(
    fc.property(json, (value) => {
      const text = `{"value": ${value}}`;
      // Without the space that is between values.
      const compact = text.replace(/"(?:[^"\\]|\\.)*"|\s+/g, (found) => (found.startsWith('"') ? found : ''));
      const strings = (other: string) =>
        other.replace(/"(?:[^"\\]|\\.)*"/g, (found) => JSON.stringify(JSON.parse(found)));
      assert.equal(JSON.stringify(parseExactJson(text)), strings(compact));
    }),
    { numRuns: 2000 },
  );
});

test('in a body, only numbers that a model may copy keep their text, also if another thread has parsed it', () => {
  const schema = '{"const":1e400,"enum":[1.0,12345678901234567890],"items":{"minimum":1.0}}';
  const input = '{"type":"tool_use","input":{"id":1234567890123456789}}';
  const body = `{"temperature":0.70,"n":1.0,"tools":[{"parameters":${schema}},{"max_uses":1.0,"input_schema":${schema}}],"format":{"schema":${schema}},"messages":[{"content":[${input}]}],"input":[2.0]}`;
  const expected = body
    .replace('0.70', '0.7')
    .replace('"n":1.0', '"n":1')
    .replace('"max_uses":1.0', '"max_uses":1')
    .replace('[2.0]', '[2]');
  const value = parseExactBody(body);
  assert.equal(JSON.stringify(value), expected);
  const exact: ExactNumber[] = [];
  const moved = structuredClone(parseExactBody(body, exact));
  restoreExact(moved, exact);
  assert.deepEqual(JSON.stringify(moved), expected);
});

test('arguments keep their text also if they have the name of a sampling parameter', () => {
  const input = '{"temperature":21.0,"fee":{"late_penalty":1e2}}';
  assert.equal(JSON.stringify(parseExactJson(input)), input);
  const body = `{"temperature":1,"messages":[{"content":[{"type":"tool_use","input":${input}}]}]}`;
  assert.equal(JSON.stringify(parseExactBody(body)), body);
});

test('sampling parameters alone do not cause a second parse', () => {
  const parse = mock.method(JSON, 'parse');
  try {
    const body = '{"temperature":1.0,"top_p":0.90,"tools":[{"parameters":{"minimum":1}}]}';
    assert.equal(JSON.stringify(parseExactBody(body)), body.replace('1.0', '1').replace('0.90', '0.9'));
    assert.equal(parse.mock.callCount(), 1);
  } finally {
    parse.mock.restore();
  }
});

test('an object that looks like the text of a number is an object', () => {
  assert(!isRawNumber(parseExactJson('{"rawJSON":"1.0"}')));
});
