import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { DIALECTS, type Dialect } from '../../src/generation.ts';
import { refuseUnsupported } from '../../src/openai/honoured.ts';
import { patternFeatures } from '../../src/openai/json-schema-pattern.ts';
import { ServiceError } from '../../src/errors.ts';
import { SCHEMA_CASES } from '../peers/schemas.ts';
import { chat, refuses } from './samples.ts';

const ask = (schema: unknown, ...dialects: Dialect[]): void =>
  refuseUnsupported(
    chat({ response_format: { type: 'json_schema', json_schema: { name: 'n', schema } } }),
    dialects,
  );

/** The keyword of the refusal, and its message; null where the schema passes. */
function refusal(schema: unknown, dialect: Dialect): { keyword: string; message: string } | null {
  try {
    ask(schema, dialect);
    return null;
  } catch (error) {
    assert(error instanceof ServiceError);
    assert.equal(error.code, 'unsupported_parameter');
    const { message, param } = error;
    return { keyword: param?.split('.').at(-1) ?? '', message };
  }
}

for (const { name, schema, ...servers } of SCHEMA_CASES) {
  test(`what a server does not enforce is refused by path, and the server named: ${name}`, () => {
    for (const [dialect, rules] of [
      ['vllm', 'vllm'],
      ['sglang', 'vllm'],
      ['llama-server', 'llama-server'],
    ] as const) {
      const found = refusal(schema, dialect);
      assert.equal(found?.keyword ?? null, servers[rules], `${dialect}: ${found?.message}`);
      if (found) assert.match(found.message, /(?:vLLM|SGLang|llama-server), which serves this model/);
    }
    assert.equal(refusal(schema, 'sluice'), null);
  });
}

test('the path leads to the schema within schemas, and one server of several is enough', () => {
  const schema = {
    type: 'object',
    properties: { list: { type: 'array', items: { anyOf: [{ type: 'string', pattern: '^\\d$' }] } } },
    $defs: { name: { type: 'array', prefixItems: [{ type: 'number', minimum: 1 }] } },
  };
  const at = 'response_format.json_schema.schema';
  refuses(
    () => ask(schema, 'vllm', 'llama-server'),
    'unsupported_parameter',
    `${at}.properties.list.items.anyOf[0].pattern`,
  );
  refuses(
    () => ask({ ...schema, properties: {} }, 'llama-server'),
    'unsupported_parameter',
    `${at}.$defs.name.prefixItems[0].minimum`,
  );
  ask(schema, 'vllm');
  // Properties may have the names of keywords.
  ask(
    { type: 'object', properties: { pattern: { type: 'string' }, allOf: { type: 'null' } } },
    ...DIALECTS.slice(0, 4),
  );
});

test('every pattern is followed to its end, whatever it is', () => {
  const pieces = fc.constantFrom(...'^$()[]{}|\\.*+?-,a0"/=!:<>pdbxu\n'.split(''), '😀');
  fc.assert(
    fc.property(fc.array(pieces, { maxLength: 20 }), (list) => {
      const text = list.join('');
      const features = patternFeatures(text);
      // None that JavaScript refuses goes to a server as a plain one.
      if (!isExpression(text)) assert.notEqual(features.size, 0, text);
    }),
    { numRuns: 2000 },
  );
});

function isExpression(text: string): boolean {
  try {
    return new RegExp(text, 'u').unicode;
  } catch {
    return false;
  }
}
