import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { PROTOCOLS } from '../../src/http/protocols.ts';
import { openApiDocument } from '../../src/protocols/openai/openapi.ts';
import { asList, jsonObject, type JsonObject } from '../../src/json/values.ts';

/** The recorded responses of the service (`transcripts.test.ts`) are compared with the schemas of the document. */

const info = { version: '1.0.0', serverUrl: 'http://127.0.0.1', maxChoices: 16 };
const document = closed(
  openApiDocument(info, PROTOCOLS, { paths: {}, schemas: {}, securitySchemes: {} }),
) as JsonObject;
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ ...document, $id: 'document' });

/** Lets no object have fields that its schema does not describe. */
function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed);
  if (typeof value !== 'object' || value === null) return value;
  const node = Object.fromEntries(Object.entries(value).map(([name, each]) => [name, closed(each)]));
  return node['type'] === 'object' && 'properties' in node ? { additionalProperties: false, ...node } : node;
}

const validators = new Map<string, ValidateFunction>();

function assertValid(schema: unknown, value: unknown, file: string): void {
  const text = JSON.stringify(schema).replaceAll('"#/', '"document#/');
  const validate = validators.get(text) ?? ajv.compile(JSON.parse(text) as object);
  validators.set(text, validate);
  assert.ok(validate(value), `${file}: ${ajv.errorsText(validate.errors)} in ${JSON.stringify(value)}`);
}

/** Parses JSON whose values are masked. */
function parsed(text: string): unknown {
  return JSON.parse(text.replaceAll(/:<\w+>/g, ':1'));
}

const FOLDER = join(import.meta.dirname, 'golden');
const EXCHANGE =
  /^> (?<method>\w+) (?<path>[^\s?]+)\S*\nHTTP\/1\.1 (?<status>\d+)[^\n]*\n(?<headers>.*?)\n\n(?<body>.*)$/s;

test('every recorded response of a documented operation matches its schema, and has no other fields', () => {
  let [bodies, events] = [0, 0];
  for (const file of readdirSync(FOLDER)) {
    const exchange = EXCHANGE.exec(readFileSync(join(FOLDER, file), 'utf8'))?.groups ?? assert.fail(file);
    const { method = '', path = '', status = '', headers = '', body = '' } = exchange;
    const route = path.replace(/^(\/v1\/models)\/[^/]+\/[^/]+$/, '$1/{namespace}/{name}');
    const operation = at(document, 'paths', route, method.toLowerCase());
    if (Object.keys(operation).length === 0) continue;
    const response = at(operation, 'responses', status);
    assert.ok('description' in response, `${file}: status ${status} is not documented`);
    const type = /^content-type: ([^;\n]+)/m.exec(headers)?.[1] ?? '';
    const schema = at(response, 'content', type, 'schema');
    if (type === 'application/json') {
      assertValid(schema, parsed(body), file);
      bodies++;
    }
    if (type !== 'text/event-stream') continue;
    const data = at(schema, 'properties', 'data');
    const forms = [data, ...asList(data['anyOf'])].map((form) => jsonObject(form)['contentSchema']);
    for (const [, text = ''] of body.matchAll(/^data: (?!\[DONE\])(.*)$/gm)) {
      assertValid({ anyOf: forms.filter((form) => form !== undefined) }, parsed(text), file);
      events++;
    }
  }
  assert.ok(bodies > 100 && events > 200, `${bodies} bodies, ${events} events`);
});

function at(value: JsonObject, ...names: readonly string[]): JsonObject {
  return names.reduce((found, name) => jsonObject(found[name]), value);
}
