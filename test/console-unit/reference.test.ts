import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ApiDocument, Schema } from '../../console/src/api/document.ts';
import { addressOf, exampleBody } from '../../console/src/pages/docs/example.ts';
import { groupsOf, matching, type Entry } from '../../console/src/api/operations.ts';
import { shapeOf } from '../../console/src/pages/docs/schema.ts';
import { managementPart } from '../../src/http/api/document.ts';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import { PROTOCOLS } from '../../src/http/protocols.ts';
import { parse } from '../../src/http/api/parse.ts';
import { openApiDocument } from '../../src/protocols/openai/openapi.ts';

// Serialized, as the page receives it.
const DOCUMENT = JSON.parse(
  JSON.stringify(
    openApiDocument({ version: '1', serverUrl: 'http://x', maxChoices: 16 }, PROTOCOLS, managementPart()),
  ),
) as ApiDocument;
const { schemas } = DOCUMENT.components;
const GROUPS = groupsOf(DOCUMENT);
const ENTRIES = GROUPS.flatMap(({ entries }) => entries);
const CONTEXT = { model: 'acme/small', accountId: 'acct_1' };

function entry(id: string): Entry {
  const found = ENTRIES.find((one) => one.id === id);
  assert.ok(found, id);
  return found;
}

describe('operations of the reference', () => {
  test('every operation is in exactly one group, inference first', () => {
    const inDocument = Object.values(DOCUMENT.paths).flatMap((methods) =>
      Object.values(methods).map(({ operationId }) => operationId),
    );
    assert.deepEqual(ENTRIES.map(({ id }) => id).sort(), inDocument.sort());
    assert.equal(new Set(GROUPS.map(({ label }) => label)).size, GROUPS.length);
    assert.equal(GROUPS[0]?.label, 'Inference');
    assert.equal(GROUPS.at(-1)?.label, 'Health probes and OpenAPI');
  });

  test('each operation states its authentication', () => {
    assert.equal(entry('createChatCompletion').access, 'API key');
    assert.equal(entry('listModels').access, 'API key, if the service requires it');
    assert.equal(entry('createKey').access, 'Admin key or console session');
    assert.equal(entry('changeMe').access, 'Console session');
    assert.equal(entry('health').access, 'None');
    assert.deepEqual(
      ['createChatCompletion', 'createKey', 'changeMe', 'health'].map((id) => entry(id).auth),
      ['key', 'admin', 'session', 'open'],
    );
  });

  test('each operation has a unique title in plain words', () => {
    assert.equal(entry('createChatCompletion').title, 'Create chat completion');
    const titles = ENTRIES.map(({ title }) => title);
    assert.equal(new Set(titles).size, titles.length);
    // Words that only make sense as parts of an id.
    for (const title of titles) assert.match(title, /^(?!.*\b(me|people|person|look)\b)[A-Z][A-Za-z' -]+$/);
  });

  test('operations are found by title, id, path, method and summary', () => {
    const found = (words: string) =>
      matching(GROUPS, words).flatMap(({ entries }) => entries.map(({ id }) => id));
    assert.deepEqual(found('endprevioussecret'), ['endPreviousSecret']);
    assert.deepEqual(found('revoke key'), ['revokeKey', 'revokeKeys']);
    assert.ok(found('/api/usage').includes('readUsage'));
    assert.deepEqual(found('no such thing'), []);
    assert.equal(found(' ').length, ENTRIES.length);
  });
});

describe('schemas of the reference', () => {
  test('every field of every schema has a type', () => {
    const seen = new Set<Schema>();
    const walk = (schema: Schema, path: string) => {
      if (seen.has(schema)) return;
      seen.add(schema);
      const shape = shapeOf(schema, schemas);
      assert.match(shape.type, /^[a-z ]+$/, path);
      for (const field of shape.fields) walk(field.schema, `${path}.${field.name}`);
      for (const variant of shape.variants) walk(variant, `${path}|`);
    };
    for (const [name, schema] of Object.entries(schemas)) walk(schema, name);
    assert.ok(seen.size > 200);
  });

  test('types include null, and bounds and defaults are shown as text', () => {
    const fields = shapeOf({ $ref: '#/components/schemas/ChatRequest' }, schemas).fields;
    const shape = (name: string) => {
      const field = fields.find((one) => one.name === name);
      assert.ok(field, name);
      return { ...shapeOf(field.schema, schemas), required: field.required };
    };
    assert.equal(shape('model').required, true);
    assert.equal(shape('temperature').type, 'number or null');
    assert.deepEqual(shape('temperature').constraints, ['default 1', 'at least 0', 'at most 2']);
    assert.equal(shape('messages').type, 'array of objects');
    assert.deepEqual(shape('messages').constraints, ['at least 1 item']);
    assert.deepEqual(
      shape('messages')
        .fields.map(({ name }) => name)
        .slice(0, 2),
      ['role', 'content'],
    );
    assert.equal(shape('response_format').variants.length, 2);
    assert.equal(shape('logit_bias').type, 'map of numbers or null');
    assert.equal(shape('stop').type, 'string or array of strings or null');
  });

  test('an object whose alternatives only restrict its fields shows the fields', () => {
    const { body } = entry('createChatCompletion');
    assert.ok(body);
    const { fields, variants } = shapeOf(body, schemas);
    assert.ok(fields.some(({ name }) => name === 'messages'));
    assert.deepEqual(variants, []);
  });

  test('allowed values are listed', () => {
    const kind = shapeOf({ $ref: '#/components/schemas/NewKey' }, schemas).fields.find(
      ({ name }) => name === 'kind',
    );
    assert.ok(kind);
    assert.deepEqual(shapeOf(kind.schema, schemas).values, ['"caller"', '"admin"']);
  });
});

describe('examples of the reference', () => {
  for (const { operationId, body } of API_ENDPOINTS) {
    if (body === null) continue;
    test(`${operationId}: the service accepts the example body`, () => {
      const example = exampleBody(entry(operationId), schemas, CONTEXT);
      assert.ok(example);
      parse(body, example);
    });
  }

  test('an operation without a body has no example body', () => {
    assert.equal(exampleBody(entry('listKeys'), schemas, CONTEXT), null);
  });

  test('paths keep missing parameters in braces and skip empty query parameters', () => {
    assert.equal(addressOf(entry('getKey'), {}), '/api/keys/{id}');
    assert.equal(addressOf(entry('getKey'), { id: 'a/b' }), '/api/keys/a%2Fb');
    assert.equal(addressOf(entry('listKeys'), { account_id: 'x y', cursor: '' }), '/api/keys?account_id=x+y');
  });
});
