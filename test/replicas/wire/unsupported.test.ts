import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DIALECTS, type Dialect } from '../../../src/core/generation.ts';
import { CHAT } from '../../../src/protocols/openai/protocols.ts';
import { refuseUnsupported } from '../../../src/replicas/wire/unsupported.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { parseExactJson } from '../../../src/json/exact-json.ts';
import { SCHEMA_CASES } from '../../protocols/openai/schema-cases.ts';
import { chat, refuses, withPaths } from '../../protocols/openai/samples.ts';

const check = (schema: unknown, ...dialects: Dialect[]): void =>
  refuseUnsupported(
    withPaths(
      chat({ response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } } })
        .request,
    ),
    dialects,
    CHAT,
  );

/** Returns the keyword and the message of the refusal, or null if the schema is accepted. */
function refusal(schema: unknown, dialect: Dialect): { keyword: string; message: string } | null {
  try {
    check(schema, dialect);
    return null;
  } catch (error) {
    assert(error instanceof ServiceError);
    assert.equal(error.code, 'unsupported_parameter');
    const { message, param } = error;
    return { keyword: param?.split('.').at(-1) ?? '', message };
  }
}

for (const { name, schema, ...servers } of SCHEMA_CASES) {
  test(`a schema that a server does not enforce is refused with the path and the server: ${name}`, () => {
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

test('bounds that keep their text are checked by their value', () => {
  for (const text of [
    '{"type": "integer", "minimum": 1.50}',
    '{"type": "integer", "maximum": 12345678901234567890}',
    '{"type": "array", "prefixItems": [{"type": "null"}], "items": false, "minItems": 2.0}',
    '{"type": "array", "prefixItems": [{"type": "null"}], "items": {}, "maxItems": 0.0}',
  ]) {
    const expected = refusal(JSON.parse(text), 'vllm');
    assert(expected);
    assert.deepEqual(refusal(parseExactJson(text), 'vllm'), expected);
  }
});

test('the path includes nested schemas, and a schema is refused if any of several servers does not enforce it', () => {
  const schema = {
    type: 'object',
    properties: { list: { type: 'array', items: { anyOf: [{ type: 'string', pattern: '^\\d$' }] } } },
    $defs: { name: { type: 'array', prefixItems: [{ type: 'number', minimum: 1 }] } },
  };
  const at = 'response_format.json_schema.schema';
  refuses(
    () => check(schema, 'vllm', 'llama-server'),
    'unsupported_parameter',
    `${at}.properties.list.items.anyOf[0].pattern`,
  );
  refuses(
    () => check({ ...schema, properties: {} }, 'llama-server'),
    'unsupported_parameter',
    `${at}.$defs.name.prefixItems[0].minimum`,
  );
  check(schema, 'vllm');
  // Properties may have the names of keywords.
  check(
    { type: 'object', properties: { pattern: { type: 'string' }, allOf: { type: 'null' } } },
    ...DIALECTS.slice(0, 4),
  );
});
