import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERRORS } from '../../../src/core/errors.ts';
import { FIELDS } from '../../../src/protocols/openai/fields.ts';
import { formatModel, formatModelList } from '../../../src/protocols/openai/models.ts';
import { openApiDocument } from '../../../src/protocols/openai/openapi.ts';
import { CHAT, TEXT } from '../../../src/protocols/openai/protocols.ts';

interface Document {
  paths: Record<string, Record<string, { responses?: Record<string, { description: string }> }>>;
  components: { schemas: Record<string, { properties?: Record<string, object> }> };
}

const document = openApiDocument(
  { version: '1.2.3', serverUrl: 'https://api.example.com', maxChoices: 16 },
  [CHAT, TEXT],
  { paths: {}, schemas: {}, securitySchemes: {} },
) as Document;

test('the document has every field', () => {
  for (const [kind, name] of [
    ['chat', 'ChatRequest'],
    ['text', 'TextRequest'],
  ] as const) {
    const properties = document.components.schemas[name]?.properties ?? {};
    const known = FIELDS.filter(({ path, kinds }) => !/[.[]/.test(path) && kinds.includes(kind));
    assert.deepEqual(Object.keys(properties).sort(), known.map(({ path }) => path).sort());
  }
});

test('every reference in the document has a target', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)];
  assert.ok(references.length > 20);
  for (const [, name = ''] of references) assert.ok(name in document.components.schemas, name);
});

/** Errors of the management API only. */
const MANAGEMENT_ERRORS: ReadonlySet<string> = new Set([
  'admin_required',
  'owner_required',
  'sign_in_required',
  'origin_not_allowed',
  'not_found',
  'invalid_link',
  'not_configured',
  'wrong_credentials',
  'fresh_sign_in_required',
  'email_not_verified',
  'last_operator',
  'last_owner',
  'conflict',
  'not_enough_memory',
  'too_many_attempts',
  'too_many_keys',
  'too_many_changes',
  'provider_unavailable',
]);

test('a generation lists all errors except those of the management API', () => {
  const responses = document.paths['/v1/chat/completions']?.['post']?.responses ?? {};
  for (const [code, [status]] of Object.entries(ERRORS)) {
    if (['unknown_url', 'method_not_allowed'].includes(code)) continue;
    if (MANAGEMENT_ERRORS.has(code)) continue;
    assert.ok(responses[status]?.description.includes(`\`${code}\``), code);
  }
});

test('a model has only the documented fields, and the list of models only the field data', () => {
  const card = {
    id: 'ns/m',
    architecture: { instruct_type: null, modality: 'text->text', tokenizer: 'GPT2', extra: 1 },
    context_length: 8192,
    max_completion_tokens: 4096,
    pricing: { prompt: '0.10', completion: '1' },
    quantization: 'q4_1',
    created: 1,
    owned_by: 'ns',
    toolFormat: null,
    recommendedSampling: { temperature: 0.2 },
    defaultSampling: { temperature: 0.2 },
    tools: true,
    reasoning: null,
    path: '/secret',
  };
  const model = {
    id: 'ns/m',
    object: 'model',
    created: 1,
    owned_by: 'ns',
    architecture: { instruct_type: null, modality: 'text->text', tokenizer: 'GPT2' },
    context_length: 8192,
    max_completion_tokens: 4096,
    pricing: { prompt: '0.10', completion: '1' },
    quantization: 'q4_1',
  };
  assert.deepEqual(formatModel(card), model);
  assert.deepEqual(formatModelList([card]), { data: [model] });
  const pricing = { ...card.pricing, input_cache_read: '0.01' };
  assert.deepEqual(formatModel({ ...card, pricing }), { ...model, pricing });
});
