import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import * as fc from '../support/fast-check.ts';
import { MESSAGES } from '../../src/protocols/anthropic/protocol.ts';
import { PROTOCOLS } from '../../src/http/protocols.ts';
import { Notes } from '../../src/core/notes.ts';
import { openApiDocument } from '../../src/protocols/openai/openapi.ts';
import type { Protocol } from '../../src/core/protocol.ts';
import { RESPONSES } from '../../src/protocols/responses/protocol.ts';
import { sealing } from '../protocols/responses/samples.ts';

const info = { version: '1.0.0', serverUrl: 'http://127.0.0.1', maxChoices: 16 };
const document = openApiDocument(info, PROTOCOLS, { paths: {}, schemas: {}, securitySchemes: {} });
const ajv = new Ajv2020({ strict: false, validateFormats: false });
ajv.addSchema({ ...document, $id: 'document' });

const APIS = [
  { folder: 'responses', protocol: RESPONSES, schema: 'ResponsesRequest' },
  { folder: 'anthropic', protocol: MESSAGES, schema: 'MessagesRequest' },
] as const;

/** Values of every type. */
const VALUES = [undefined, null, '', 'a', 0, 1, -1, 0.5, true, [], ['a'], {}, [{}]];

for (const { folder, protocol, schema } of APIS) {
  const validate = ajv.compile({ $ref: `document#/components/schemas/${schema}` });
  const files = join(import.meta.dirname, '..', 'protocols', folder, 'recordings');
  for (const file of readdirSync(files)) {
    const body = JSON.parse(readFileSync(join(files, file), 'utf8')) as Record<string, unknown>;
    const known = notesOf(protocol, body);
    // Images are refused, and a count has no `max_tokens`.
    if (known === null) continue;

    test(`${file} matches the schema of its API`, () => {
      assert.ok(validate(body), ajv.errorsText(validate.errors));
    });

    test(`${file} with any part replaced matches the schema if it is accepted without other notes`, () => {
      const replaced = fc.property(
        fc.constantFrom(...pathsOf(body)),
        fc.constantFrom(...VALUES),
        (path, value) => {
          const changed = structuredClone(body);
          replace(changed, path, value);
          const notes = notesOf(protocol, changed);
          if (notes === null || notes.some((note) => !known.includes(note))) return;
          assert.ok(validate(changed), `${path.join('.')}: ${ajv.errorsText(validate.errors)}`);
        },
      );
      fc.assert(replaced);
    });
  }
}

/** What is wrong in items, blocks and tools of known types. */
const WRONG: readonly [Protocol, schema: string, body: Record<string, unknown>][] = [
  ...[
    { type: 'function_call', call_id: 'c', name: 'f' },
    { type: 'function_call_output', output: 'a' },
    { type: 'custom_tool_call', call_id: 'c', name: 'f', input: 1 },
    { type: 'message', role: 'user' },
    { type: 'reasoning', content: [{ type: 'reasoning_text' }] },
    { type: 'reasoning', encrypted_content: 1 },
    { type: 'item_reference', id: 'a' },
    { type: 'additional_tools', tools: [{ type: 'function' }] },
  ].map((item) => responses({ input: [user('Hi'), item] })),
  ...[
    { type: 'function' },
    { type: 'custom', name: 'f', format: { type: 'grammar', syntax: 'lark' } },
    { type: 'namespace', name: 'n', tools: [{ type: 'custom' }] },
  ].map((tool) => responses({ input: 'Hi', tools: [tool] })),
  ...[
    { type: 'text' },
    { type: 'tool_use', id: 'c', name: 'f' },
    { type: 'thinking', thinking: 1 },
    { type: 'document', source: {} },
  ].map((block) => message({ messages: [user('Hi'), { role: 'assistant', content: [block] }, user('Hi')] })),
  ...[
    { type: 'tool_result', content: 'a' },
    { type: 'tool_result', tool_use_id: 'c', content: [{ type: 'tool_reference' }] },
  ].map((block) => message({ messages: [user([block])] })),
  ...[{ type: 'custom' }, { name: 'f', input_schema: 1 }].map((tool) =>
    message({ messages: [user('Hi')], tools: [tool] }),
  ),
  message({ messages: [user('Hi')], tools: [{ name: 'f' }], tool_choice: { type: 'tool' } }),
];

function user(content: unknown): object {
  return { role: 'user', content };
}

function responses(fields: object): [Protocol, string, Record<string, unknown>] {
  return [RESPONSES, 'ResponsesRequest', { model: 'm', ...fields }];
}

function message(fields: object): [Protocol, string, Record<string, unknown>] {
  return [MESSAGES, 'MessagesRequest', { model: 'm', max_tokens: 1, ...fields }];
}

for (const [protocol, schema, body] of WRONG) {
  test(`what is refused does not match ${schema}: ${JSON.stringify(body)}`, () => {
    assert.equal(notesOf(protocol, body), null);
    assert.ok(!ajv.validate({ $ref: `document#/components/schemas/${schema}` }, body));
  });
}

/** Returns the path of each field and element. */
function pathsOf(value: unknown): string[][] {
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [
    [name],
    ...pathsOf(inner).map((path) => [name, ...path]),
  ]);
}

/** Replaces a field; undefined removes it. */
function replace(body: object, path: readonly string[], value: unknown): void {
  const parent = path.slice(0, -1).reduce((at: object, name) => Reflect.get(at, name) as object, body);
  const name = path.at(-1) ?? '';
  if (value === undefined && !Array.isArray(parent)) Reflect.deleteProperty(parent, name);
  else Reflect.set(parent, name, value ?? null);
}

/** Returns the paths with notes of a request; null: it is refused. */
function notesOf(protocol: Protocol, body: Record<string, unknown>): readonly string[] | null {
  const notes = new Notes();
  try {
    protocol.parse(body, { maxChoices: 16, notes, sealer: sealing.of('account') });
  } catch {
    return null;
  }
  return notes.list.map(({ path }) => path);
}
