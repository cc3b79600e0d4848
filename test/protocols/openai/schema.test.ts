import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import * as fc from '../../support/fast-check.ts';
import { ServiceError } from '../../../src/core/errors.ts';
import { Notes } from '../../../src/core/notes.ts';
import { parseChatRequest } from '../../../src/protocols/openai/request.ts';
import { openApiDocument } from '../../../src/protocols/openai/openapi.ts';
import { CHAT, TEXT } from '../../../src/protocols/openai/protocols.ts';
import { mutations, SchemaBodies, withRules, type Schema, type Schemas } from './schema-bodies.ts';
import { CALLER } from './samples.ts';

const { maxChoices } = CALLER;
const document = openApiDocument(
  { version: '1.2.3', serverUrl: 'https://api.example.com', maxChoices },
  [CHAT, TEXT],
  { paths: {}, schemas: {}, securitySchemes: {} },
) as { components: { schemas: Schemas } };
const { schemas } = document.components;

const ajv = new Ajv2020({ strict: false });
ajv.addSchema({ ...document, $id: 'https://sluice.test/openapi.json' });
const validators = new Map<Schema, ValidateFunction>();

/** Whether a value satisfies a schema of the document. */
function isValid(schema: Schema, value: unknown): boolean {
  const validator =
    validators.get(schema) ??
    ajv.compile(
      JSON.parse(JSON.stringify(schema).replaceAll('"#/', '"https://sluice.test/openapi.json#/')) as Schema,
    );
  validators.set(schema, validator);
  return validator(value);
}

const ChatRequest = schemas['ChatRequest'] ?? {};
const bodies = new SchemaBodies(schemas, isValid).of(ChatRequest) as fc.Arbitrary<Record<string, unknown>>;
const RUNS = { numRuns: 500 };

/** Returns why the parser refuses a body; null: it does not. */
function refusalOf(body: Record<string, unknown>, notes = new Notes()): ServiceError | null {
  try {
    parseChatRequest(body, { ...CALLER, notes });
    return null;
  } catch (error) {
    assert.ok(error instanceof ServiceError, String(error));
    return error;
  }
}

/** The rules that a JSON schema cannot express, by the message of the parser. They are described in the docs. */
const RULES = [
  /must be followed by tool messages responding to each 'tool_call_id'/,
  /must be a response to a preceding message with 'tool_calls'/,
  /^`messages\[\d+\]\.tool_calls\[\d+\]\.id` must be unique in the message/,
  /^`messages\[\d+\]\.tool_calls\[\d+\]\.function\.arguments` must be the JSON text of an object/,
  /^`messages\[\d+\]\.content\[\d+\]\.image_url\.url` (?:must be|is an image, and only messages)/,
  /^`tools\[\d+\]\.function\.name` must be unique/,
  /^`tool_choice` is only allowed when `tools` are specified/,
  /^`tool_choice\.[^`]+\.name` must be the name of a function in `tools`/,
  // Schemas of strict functions and of response formats.
  /^(?:Unknown field: )?`(?:tools\[\d+\]\.function\.parameters|response_format\.json_schema\.schema)\b/,
];

const isRule = ({ message }: ServiceError): boolean => RULES.some((rule) => rule.test(message));

test('bodies that the document allows are refused only by the rules that a schema cannot express', () => {
  fc.assert(
    fc.property(bodies, (body) => {
      const refusal = refusalOf(body);
      if (refusal !== null) assert.ok(isRule(refusal), refusal.message);
    }),
    RUNS,
  );
});

test('bodies that are valid according to the document and follow the rules that a schema cannot express are accepted', () => {
  fc.assert(
    fc.property(bodies.map(withRules), (body) => {
      assert.ok(isValid(ChatRequest, body));
      assert.equal(refusalOf(body), null);
    }),
    RUNS,
  );
});

test('bodies with one change are refused by the document if, and only if, the parser refuses them', () => {
  fc.assert(
    fc.property(mutations(bodies.map(withRules)), (body) => {
      const refusal = refusalOf(body);
      if (refusal !== null && isRule(refusal)) return;
      assert.equal(isValid(ChatRequest, body), refusal === null, refusal?.message ?? 'the parser accepts it');
    }),
    { numRuns: 2000 },
  );
});

test('each field of messages and tools is in the generated bodies', () => {
  const text = JSON.stringify(fc.sample(bodies, { numRuns: 1000, seed: 1 }));
  for (const field of [
    'tool_calls',
    'tool_call_id',
    'reasoning_content',
    'strict',
    'allowed_tools',
    'cache_control',
    'image_url',
  ]) {
    assert.ok(text.includes(`"${field}"`), field);
  }
});
