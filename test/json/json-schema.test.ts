import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COMBINING_KEYWORDS, KEYWORDS_OF_TYPE } from '../../src/engine/llama/grammar/grammar-rules.ts';
import {
  checkJsonSchema,
  MAX_SCHEMA_CHARACTERS,
  MAX_SCHEMA_DEPTH,
  MAX_SCHEMA_NODES,
  reducedSchema,
  SUPPORTED_KEYWORDS,
} from '../../src/json/json-schema.ts';
import { parseExactJson } from '../../src/json/exact-json.ts';
import { parseJsonBody } from '../../src/json/json-body.ts';
import { definitions, readsOf, to } from './counted-reads.ts';
import { Notes } from '../../src/core/notes.ts';
import { chat, refuses } from '../protocols/openai/samples.ts';

const check = (schema: unknown) => checkJsonSchema(schema, 'schema');

test('keywords whose numbers keep their text have the value of the number', () => {
  const outcome = (value: unknown): string => {
    const notes = new Notes();
    try {
      const schema = reducedSchema(value, 'schema', notes, false);
      check(schema);
      return JSON.stringify(JSON.parse(JSON.stringify([schema, notes.list])));
    } catch (error) {
      return String(error);
    }
  };
  const outcomes = [
    '{"type": "integer", "minimum": 1.0, "maximum": 2.0}',
    '{"type": "integer", "minimum": 3.0, "maximum": 2.0}',
    '{"type": "integer", "minimum": 1.50}',
    '{"type": "integer", "maximum": 12345678901234567890}',
    '{"type": "string", "maxLength": 1e1}',
    '{"type": "string", "maxLength": 1e9}',
    '{"type": "string", "maxLength": 1.50}',
    '{"type": "array", "items": {"type": "null"}, "minItems": 2.0, "maxItems": 1.0}',
    '{"type": "array", "items": 1.0}',
    '{"type": "array", "prefixItems": [{"type": "null"}], "items": false, "minItems": 2.0}',
    '{"properties": {"default": {"type": "number", "minimum": 0.0}, "enum": {"exclusiveMinimum": -0.0}}}',
  ].map((text) => {
    const expected = outcome(JSON.parse(text));
    assert.equal(outcome(parseExactJson(text)), expected);
    return expected;
  });
  assert(
    outcomes.some((each) => each.includes('Error')) && outcomes.some((each) => each.includes('"ignored')),
  );
});

test('schemas that libraries generate are returned unchanged', () => {
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Person',
    type: 'object',
    properties: {
      name: { type: 'string', minLength: 1, maxLength: 80, description: 'd' },
      age: { type: 'integer', minimum: 0, maximum: 150 },
      born: { type: 'string', format: 'date' },
      kind: { type: 'string', enum: ['a', 'b'] },
      tags: { type: 'array', items: { type: 'string' }, minItems: 0, maxItems: 5 },
      pair: { type: 'array', prefixItems: [{ type: 'number' }], items: false },
      parent: { anyOf: [{ $ref: '#' }, { type: 'null' }], default: null },
      address: { $ref: '#/$defs/Address' },
      sizes: { type: 'object', propertyNames: { type: 'string' }, additionalProperties: { type: 'number' } },
      sides: { type: 'object', propertyNames: { type: 'string', enum: ['left', 'right'] } },
      // Properties may have the names of keywords.
      pattern: { type: ['string', 'null'] },
      $ref: { const: 1 },
    },
    required: ['name', 'address'],
    additionalProperties: false,
    $defs: {
      Address: { type: 'object', properties: { 'a/b~c': true }, additionalProperties: { type: 'string' } },
    },
  };
  assert.equal(check(schema), schema);
  assert.equal(check(true), true);
});

const properties = (a: unknown) => ({ type: 'object', properties: { a } });

test('bounds that no number satisfies are refused at the upper bound', () => {
  for (const [bounds, keyword] of [
    [{ type: 'integer', minimum: 12, maximum: 10 }, 'maximum'],
    [{ type: 'number', minimum: 12, maximum: 10 }, 'maximum'],
    [{ minimum: 10, exclusiveMaximum: 10 }, 'exclusiveMaximum'],
    [{ exclusiveMinimum: 10, maximum: 10 }, 'maximum'],
    [{ type: 'integer', exclusiveMinimum: 10, exclusiveMaximum: 11 }, 'exclusiveMaximum'],
    [{ type: 'integer', minimum: 10.2, maximum: 10.8 }, 'maximum'],
  ] as const) {
    refuses(() => check(properties(bounds)), 'invalid_value', `schema.properties.a.${keyword}`);
  }
  check({ type: 'number', exclusiveMinimum: 10, exclusiveMaximum: 11 });
  check({ type: 'integer', minimum: 10, maximum: 10 });
  check({ type: ['integer', 'string'], minimum: 0, exclusiveMinimum: -1, maximum: 0 });
});

test('unsupported keywords and wrong values are refused with their path', () => {
  for (const [schema, code, path] of [
    [properties({ not: {} }), 'unsupported_parameter', '.properties.a.not'],
    [properties({ uniqueItems: true }), 'unsupported_parameter', '.properties.a.uniqueItems'],
    [properties({ pattern: 1 }), 'invalid_type', '.properties.a.pattern'],
    [properties({ minimum: '1' }), 'invalid_type', '.properties.a.minimum'],
    [properties(false), 'unsupported_parameter', '.properties.a'],
    [properties(1), 'invalid_type', '.properties.a'],
    [{ properties: [] }, 'invalid_type', '.properties'],
    [{ required: 'a' }, 'invalid_type', '.required'],
    [{ required: [1] }, 'invalid_type', '.required[0]'],
    [{ type: 'text' }, 'invalid_value', '.type'],
    [{ type: ['string', 1] }, 'invalid_type', '.type[1]'],
    [{ type: [] }, 'invalid_value', '.type'],
    [{ enum: [] }, 'invalid_value', '.enum'],
    [{ anyOf: [] }, 'invalid_value', '.anyOf'],
    [{ anyOf: [{}], type: 'string' }, 'unsupported_parameter', '.type'],
    [{ enum: [1], minLength: 1 }, 'unsupported_parameter', '.minLength'],
    [{ items: { $defs: {} } }, 'unsupported_parameter', '.items.$defs'],
    [{ propertyNames: false }, 'invalid_type', '.propertyNames'],
    [{ propertyNames: { type: 'string', pattern: '^a' } }, 'unsupported_parameter', '.propertyNames.pattern'],
    [{ propertyNames: { enum: [1] } }, 'invalid_type', '.propertyNames.enum[0]'],
    [{ propertyNames: { type: 'null' } }, 'unsupported_parameter', '.propertyNames.type'],
    [[], 'invalid_type', ''],
    [false, 'unsupported_parameter', ''],
  ] as const)
    refuses(() => check(schema), code, `schema${path}`);
});

test('errors in the schema of a request have the full path of the field', () => {
  const schema = { type: 'object', properties: { a: { type: 'string', pattern: 'x'.repeat(1001) } } };
  refuses(
    () =>
      chat({ response_format: { type: 'json_schema', json_schema: { name: 'n', schema, strict: true } } }),
    'invalid_value',
    'response_format.json_schema.schema.properties.a.pattern',
  );
});

const wide = (count: number) => ({ anyOf: Array.from({ length: count }, () => ({ maxLength: 10_000 })) });

test('the values of minItems, maxItems and maxLength are bounded individually and in sum', () => {
  refuses(() => check({ maxLength: 10_001 }), 'invalid_value', 'schema.maxLength');
  refuses(() => check({ minItems: -1 }), 'invalid_value', 'schema.minItems');
  refuses(() => check({ minItems: 1.5 }), 'invalid_type', 'schema.minItems');
  refuses(() => check({ minItems: 2, maxItems: 1 }), 'invalid_value', 'schema.maxItems');
  check(wide(5));
  refuses(() => check(wide(6)), 'invalid_value', 'schema.anyOf[5].maxLength');
});

test('upper bounds that are too large are left out with a note', () => {
  const schema = {
    type: 'object',
    properties: { a: { maxLength: 65_536, title: 'a' }, b: { maxItems: 10_000 } },
  };
  for (const isStrict of [false, true]) {
    const notes = new Notes();
    const reduced = reducedSchema(schema, 'schema', notes, isStrict);
    assert.deepEqual(reduced, { type: 'object', properties: { a: { title: 'a' }, b: { maxItems: 10_000 } } });
    assert.deepEqual(
      notes.list.map(({ path }) => path),
      ['schema.properties.a.maxLength'],
    );
  }
  const notes = new Notes();
  check(reducedSchema(wide(6), 'schema', notes, true));
  assert.deepEqual(
    notes.list.map(({ path }) => path),
    ['schema.anyOf[5].maxLength'],
  );
});

test('unsupported keywords of a schema that is not strict are left out with a note', () => {
  const schema = {
    type: 'object',
    not: {},
    properties: {
      not: { multipleOf: 2 },
      a: { enum: [1], minimum: 3 },
      b: { $defs: {}, propertyNames: { pattern: 'x' } },
    },
    $defs: { c: { anyOf: [{ if: {} }], type: 'string' } },
  };
  const notes = new Notes();
  const reduced = reducedSchema(schema, 'schema', notes, false);
  assert.deepEqual(reduced, {
    type: 'object',
    properties: { not: {}, a: { enum: [1] }, b: {} },
    $defs: { c: { anyOf: [{}] } },
  });
  assert.deepEqual(
    notes.list.map(({ path }) => path),
    [
      'schema.not',
      'schema.properties.not.multipleOf',
      'schema.properties.a.minimum',
      'schema.properties.b.$defs',
      'schema.properties.b.propertyNames',
      'schema.$defs.c.type',
      'schema.$defs.c.anyOf[0].if',
    ],
  );
  assert.equal(check(reduced), reduced);
  assert.deepEqual(reducedSchema(schema, 'schema', new Notes(), true), schema);
});

const nested = (depth: number): object => (depth === 0 ? {} : { items: nested(depth - 1) });

test('depth, number and size of schemas are bounded', () => {
  check(nested(MAX_SCHEMA_DEPTH));
  refuses(
    () => check(nested(MAX_SCHEMA_DEPTH + 1)),
    'invalid_value',
    `schema${'.items'.repeat(MAX_SCHEMA_DEPTH + 1)}`,
  );
  refuses(
    () => check({ anyOf: Array.from({ length: MAX_SCHEMA_NODES }, () => ({})) }),
    'invalid_value',
    'schema',
  );
  refuses(() => check({ description: 'x'.repeat(MAX_SCHEMA_CHARACTERS) }), 'invalid_value', 'schema');
});

test('the deepest allowed schema fits into a body', () => {
  let schema: object = {};
  for (let depth = 0; depth < MAX_SCHEMA_DEPTH; depth++) schema = { properties: { a: schema } };
  const body = { response_format: { type: 'json_schema', json_schema: { name: 'n', schema } } };
  assert.ok(chat(parseJsonBody(Buffer.from(JSON.stringify(body)))));
});

test('a reference needs a target, and must not lead back to itself through references and alternatives alone', () => {
  check({ $ref: '#/$defs/a', $defs: { a: { type: 'object', properties: { next: { $ref: '#/$defs/a' } } } } });
  check({ $ref: '#/definitions/a~1b', definitions: { 'a/b': {} } });
  refuses(() => check({ $ref: '#/$defs/b', $defs: {} }), 'invalid_value', 'schema.$ref');
  refuses(() => check({ $ref: '#/$defs/toString' }), 'invalid_value', 'schema.$ref');
  refuses(() => check({ $ref: 'https://example.com/a' }), 'unsupported_parameter', 'schema.$ref');
  refuses(() => check({ $ref: '#/properties/a' }), 'unsupported_parameter', 'schema.$ref');
  refuses(() => check({ $ref: 1 }), 'invalid_type', 'schema.$ref');
  refuses(() => check({ $ref: '#' }), 'invalid_value', 'schema.$ref');
  const cycle = { a: { $ref: '#/$defs/b' }, b: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/a' }] } };
  refuses(
    () => check({ items: { $ref: '#/$defs/a' }, $defs: cycle }),
    'invalid_value',
    'schema.$defs.a.$ref',
  );
});

test('lone surrogates are refused, but not an escaped backslash before "ud800"', () => {
  refuses(() => check({ const: 'a\ud800' }), 'invalid_value', 'schema');
  refuses(() => check({ properties: { '\udfff': {} } }), 'invalid_value', 'schema');
  check({ const: String.raw`\ud800` });
  check({ const: '😀' });
});

test('the embedded engine has a grammar for every accepted keyword', () => {
  const ofTypes = Object.values(KEYWORDS_OF_TYPE).flat();
  const others = ['type', 'enum', 'const', '$defs', 'definitions'];
  assert.deepEqual(new Set(SUPPORTED_KEYWORDS), new Set([...COMBINING_KEYWORDS, ...ofTypes, ...others]));
});

test('the work to check a schema grows with its size, however its references are connected', () => {
  const hostile: Record<string, (count: number) => object> = {
    chain: (count) => ({
      $defs: definitions(count, (index) => (index + 1 < count ? to(index + 1) : { type: 'string' })),
    }),
    'references to one union of references': (count) => ({
      properties: definitions(count, () => to(0)),
      $defs: definitions(count, (index) =>
        index > 0 ? {} : { anyOf: Array.from({ length: count - 1 }, (_, i) => to(i + 1)) },
      ),
    }),
    'nested unions': (count) => ({
      $defs: definitions(count / 4, (index) => ({
        anyOf: index === 0 ? [{}, {}] : [to(index - 1), to(index - 1)],
      })),
    }),
  };
  for (const [name, schema] of Object.entries(hostile)) {
    const [few, many] = [readsOf(schema(200), check), readsOf(schema(400), check)];
    assert.ok(many < 2.1 * few, `${name}: ${few} reads, then ${many} for twice the size`);
  }
});
