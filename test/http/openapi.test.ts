import assert from 'node:assert/strict';
import { after, mock, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { z } from 'zod';
import { HIDDEN_CHARACTERS } from '../../src/accounts/bounds.ts';
import { API_ENDPOINTS, API_PATHS } from '../../src/http/api/endpoints.ts';
import { PATHS } from '../../src/http/paths.ts';
import { scripted } from '../support/scripted-engine/directive.ts';
import { MODEL, post, startService } from '../harness.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

interface Bounds {
  minLength?: number;
  maxLength?: number;
  pattern?: string;
}

interface Operation {
  operationId: string;
  summary: string;
  responses: Record<string, { description: string; content?: Record<string, { schema: object }> }>;
  security?: Record<string, string[]>[];
  parameters?: { name: string; in: string; required: boolean; schema: Bounds }[];
  requestBody?: { description: string };
}

interface Document {
  openapi: string;
  info: { title: string; version: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Record<string, object>>;
}

const response = await fetch(`${service.url}/openapi.json`);
const document = (await response.json()) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

test('the document is OpenAPI 3.1 and contains the URL of the service', () => {
  assert.equal(response.status, 200);
  assert.equal(response.headers.get('content-type'), 'application/json');
  assert.match(document.openapi, /^3\.1\.\d+$/);
  assert.ok(document.info.title.length > 0 && document.info.version.length > 0);
  assert.deepEqual(document.servers, [{ url: service.url }]);
});

test('the document is written once', async () => {
  const stringify = mock.method(JSON, 'stringify');
  try {
    assert.deepEqual(await (await fetch(`${service.url}/openapi.json`)).json(), document);
    const written = stringify.mock.calls.filter(({ result }) => (result?.length ?? 0) > 10_000);
    assert.equal(written.length, 0);
  } finally {
    mock.reset();
  }
});

test('the document contains exactly the endpoints and methods of the service', () => {
  const served = [...PATHS, ...API_PATHS].flatMap(([path, methods]) =>
    methods
      .filter((method) => method !== 'HEAD')
      .map((method) => `${method.toLowerCase()} ${path.replace('*', '{namespace}/{name}')}`),
  );
  assert.deepEqual(operations.map(({ path, method }) => `${method} ${path}`).sort(), served.sort());
});

test('every operation has a unique ID, a summary, and responses with descriptions', () => {
  assert.equal(new Set(operations.map(({ operation }) => operation.operationId)).size, operations.length);
  for (const { path, operation } of operations) {
    assert.ok(operation.summary.length > 0, path);
    assert.ok(
      ['200', '201', '303'].some((status) => status in operation.responses),
      path,
    );
    for (const [status, response] of Object.entries(operation.responses)) {
      assert.match(status, /^[2-5]\d\d$/);
      assert.ok(response.description.length > 0, `${path} ${status}`);
    }
  }
});

test('each operation documents exactly the parameters in its path', () => {
  for (const { path, operation } of operations) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
    assert.deepEqual(
      parameters.map(({ name }) => name),
      inPath,
      path,
    );
    assert.ok(parameters.every((parameter) => parameter.required));
  }
});

test('every reference resolves to a component, and every component is referenced', () => {
  const text = JSON.stringify(document);
  const referenced = [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name);
  assert.deepEqual(new Set(referenced), new Set(Object.keys(document.components['schemas'] ?? {})));
  assert.equal(referenced.length, text.split('"$ref":').length - 1);
});

test('each operation of the management API declares its credentials: none, a key, or a session', () => {
  const declared = new Set(Object.keys(document.components['securitySchemes'] ?? {}));
  const schemes = {
    open: [],
    'signed-in': ['session'],
    any: ['key', 'session'],
    account: ['key', 'session'],
    member: ['admin', 'session'],
    owner: ['admin', 'session'],
    operator: ['admin', 'session'],
  };
  for (const { operationId, access } of API_ENDPOINTS) {
    const { operation } = operations.find((one) => one.operation.operationId === operationId) ?? {};
    const names = operation?.security?.flatMap((one) => Object.keys(one));
    assert.deepEqual(names, schemes[access], operationId);
    assert.ok(names?.every((name) => declared.has(name)));
  }
});

test('generations document the Idempotency-Key header and its errors', () => {
  for (const path of ['/v1/chat/completions', '/v1/completions']) {
    const { parameters = [], responses } = document.paths[path]?.['post'] ?? {};
    assert.deepEqual(
      parameters.map((parameter) => [parameter.name, parameter.in, parameter.required]),
      [['Idempotency-Key', 'header', false]],
    );
    assert.match(responses?.['409']?.description ?? '', /`idempotency_in_flight`/);
    assert.match(responses?.['422']?.description ?? '', /`idempotency_key_reused`/);
  }
});

const bounded = (path: string, name: string) =>
  operations
    .find((one) => one.path === path && one.method === 'get')
    ?.operation.parameters?.find((parameter) => parameter.name === name)?.schema;

test('every operation documents the HTTP errors, and the body errors if it has a body', () => {
  for (const { path, method, operation } of operations) {
    for (const status of [400, 408, 413, 415, 417, 431, 500, 505]) {
      assert.ok(status in operation.responses, `${method} ${path} ${status}`);
    }
    if (method === 'get') continue;
    assert.match(operation.responses['429']?.description ?? '', /`concurrent_body_bytes`/, path);
    assert.match(
      (operation.responses['503'] ?? operation.responses['529'])?.description ?? '',
      /`overloaded`/,
      path,
    );
  }
});

test('every operation with a parameter in its path documents 404', () => {
  for (const { path, operation } of operations) {
    if (path.includes('{')) assert.ok('404' in operation.responses, path);
  }
});

test('a path parameter that is longer than any ID gets a 404', async () => {
  for (const path of ['/api/accounts/', '/api/auth/callback/']) {
    const { status } = await fetch(`${service.url}${path}${'a'.repeat(1500)}`);
    assert.equal(status, 404, path);
  }
});

test('request bodies document the limits of JSON, and those of text completions the maximum number of choices', () => {
  for (const { path, operation } of operations) {
    if (operation.requestBody) {
      const values = path.startsWith('/api/') ? 2000 : path === '/v1/embeddings' ? 320_000 : 50_000;
      const { description } = operation.requestBody;
      assert.ok(description.startsWith(`At most ${values} JSON values, `), path);
      assert.match(description, /, nested at most 64 levels deep/);
    }
  }
  const { ChatRequest, TextRequest } = document.components['schemas'] ?? {};
  assert.equal(JSON.stringify(ChatRequest).match(/"n":\{"anyOf":\[[^\]]*"maximum":16/)?.length, 1);
  assert.match(JSON.stringify(TextRequest), /"n":\{"maximum":8\},"prompt":\{"maxItems":2\}/);
});

test('the document requires a new model to have a source, or an ID and replicas, but not fields of both kinds', () => {
  const { NewModel } = document.components['schemas'] ?? {};
  const validate = new Ajv2020({ strict: false }).compile({ ...NewModel, components: document.components });
  const replicas = [{ url: 'http://a', dialect: 'vllm' }];
  for (const [body, valid] of [
    [{ source: '/a.gguf' }, true],
    [{ source: '/a.gguf', id: 'a/b', slots: 1 }, true],
    [{ id: 'a/b', replicas }, true],
    [{ id: 'a/b' }, false],
    [{ replicas }, false],
    [{ id: 'a/b', replicas, slots: 1 }, false],
    [{ id: 'a/b', replicas, source: '/a.gguf' }, false],
    [{ id: 'a/b', replicas: [{ url: 'ftp://a', dialect: 'vllm' }] }, false],
  ] as const) {
    assert.equal(validate(body), valid, JSON.stringify(body));
  }
});

test('filters document their maximum length and the characters that they reject', () => {
  for (const [path, name] of [
    ['/api/audit', 'actor'],
    ['/api/usage', 'model'],
    ['/api/requests', 'model'],
  ] as const) {
    const { maxLength, pattern = '' } = bounded(path, name) ?? {};
    assert.equal(maxLength, 300, path);
    assert.match('\u{1f600}'.repeat(300), new RegExp(pattern, 'u'));
    assert.doesNotMatch('a\0', new RegExp(pattern, 'u'));
  }
});

test('exactly the cursors that the document allows are accepted', async () => {
  const { key } = await service.service.keys.create({ name: 'admin', kind: 'admin' });
  const headers = { authorization: `Bearer ${key.reveal()}` };
  const examples = ['1732277279000.key_1', '01932a4b-0c0d-7000-8000-0123456789ab', '0', 'a.b', ''];
  for (const { path, method, operation } of operations) {
    const parameter = operation.parameters?.find(({ name }) => name === 'cursor');
    if (parameter === undefined) continue;
    const { pattern } = parameter.schema;
    assert.ok(pattern !== undefined, path);
    for (const cursor of examples) {
      const url = `${service.url}${path.replace('{id}', 'default')}?cursor=${cursor}`;
      const { status } = await fetch(url, { method, headers });
      assert.equal(status, new RegExp(pattern, 'u').test(cursor) ? 200 : 400, url);
    }
  }
});

test('the dimensions of usage are documented as a comma-separated list without repetitions', () => {
  const by = new RegExp(bounded('/api/usage', 'by')?.pattern ?? '', 'u');
  for (const text of ['', 'day', 'day,model', 'hour,day,model,key,account']) assert.match(text, by);
  for (const text of ['color', 'day,day', 'day,model,day', 'day,', ',day']) assert.doesNotMatch(text, by);
});

test('names and email addresses document their lengths: 1 to 100 characters, and at most 254', () => {
  const { NewAccount, NewUser } = (document.components['schemas'] ?? {}) as Record<
    string,
    { properties: Record<string, Bounds> }
  >;
  const { name } = NewAccount?.properties ?? {};
  assert.deepEqual([name?.minLength, name?.maxLength], [1, 100]);
  const { email } = NewUser?.properties ?? {};
  assert.equal(email?.maxLength, 254);
  for (const wrong of ['', 'x', 'a@b@c', 'a\u200b@b']) {
    assert.doesNotMatch(wrong, new RegExp(email?.pattern ?? '', 'u'));
  }
});

test('hidden characters are the control, format and separator characters of Unicode', () => {
  const hidden = new RegExp(`^[${HIDDEN_CHARACTERS}]$`, 'u');
  const wrong = [];
  for (let code = 0; code <= 0x10_ffff; code++) {
    const character = String.fromCodePoint(code);
    if (hidden.test(character) !== /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(character))
      wrong.push(code.toString(16));
  }
  assert.deepEqual(wrong, []);
});

/** Returns a validator for a schema of the document, with references resolved. */
function validator(schema: object): z.ZodType {
  const { schemas } = document.components;
  const whole = JSON.stringify({ ...schema, $defs: schemas }).replaceAll('#/components/schemas/', '#/$defs/');
  return z.fromJSONSchema(JSON.parse(whole) as z.core.JSONSchema.JSONSchema);
}

const CALLS = { reasoning: 'Hm.', calls: [{ name: 'f', arguments: { a: 1 } }] };

test('responses of chats, of chats with reasoning and calls, and of text completions match the document', async () => {
  for (const [path, name, input] of [
    ['/v1/chat/completions', 'ChatResponse', { messages: [{ role: 'user', content: 'Hi' }] }],
    ['/v1/chat/completions', 'ChatResponse', { messages: [{ role: 'user', content: scripted(CALLS) }] }],
    ['/v1/completions', 'TextResponse', { prompt: 'Hi' }],
  ] as const) {
    const response = await post(service, path, { model: MODEL, ...input });
    assert.equal(response.status, 200);
    validator(document.components['schemas']?.[name] ?? {}).parse(await response.json());
  }
});

test('messages, counts and models accept a key in x-api-key', () => {
  const { headerKey } = document.components['securitySchemes'] ?? {};
  assert.ok(headerKey && 'name' in headerKey);
  assert.equal(headerKey.name, 'x-api-key');
  const documented = operations
    .filter(({ operation }) => operation.security?.some((one) => 'headerKey' in one))
    .map(({ operation }) => operation.operationId);
  assert.deepEqual(documented.sort(), ['countMessageTokens', 'createMessage', 'getModel', 'listModels']);
});

test('models match the document, in the form that the headers ask for', async () => {
  for (const [path, template, names] of [
    ['/v1/models', '/v1/models', ['ModelList', 'MessagesModelList']],
    [`/v1/models/${MODEL}`, '/v1/models/{namespace}/{name}', ['Model', 'MessagesModel']],
  ] as const) {
    const { parameters = [], responses } = document.paths[template]?.['get'] ?? {};
    assert.ok(parameters.some(({ name, in: place }) => name === 'anthropic-version' && place === 'header'));
    const { schema } = responses?.['200']?.content?.['application/json'] ?? {};
    assert.deepEqual(schema, { anyOf: names.map((name) => ({ $ref: `#/components/schemas/${name}` })) });
    for (const [index, headers] of [{}, { 'anthropic-version': '2023-06-01' }].entries()) {
      const models: unknown = await (await fetch(service.url + path, { headers })).json();
      for (const [other, name] of names.entries()) {
        const { success } = validator(document.components['schemas']?.[name] ?? {}).safeParse(models);
        assert.equal(success, other === index, `${name}: ${JSON.stringify(models)}`);
      }
    }
  }
});

test('every event of a stream and its data match the document', async () => {
  const fields = { stream: true, logprobs: true, n: 2, stream_options: { include_usage: true } };
  const message = (directive: object) => [{ role: 'user', content: scripted(directive) }];
  const requests = [
    ['/v1/chat/completions', 'ChatChunk', { messages: message({ tokens: 3 }), ...fields, top_logprobs: 2 }],
    ['/v1/chat/completions', 'ChatChunk', { messages: message({ tokens: 3, errorAfter: 1 }), stream: true }],
    ['/v1/chat/completions', 'ChatChunk', { messages: message(CALLS), stream: true }],
    ['/v1/completions', 'TextChunk', { prompt: scripted({ tokens: 3 }), ...fields, logprobs: 2 }],
  ] as const;
  const kinds = new Set<string>();
  for (const [path, chunk, body] of requests) {
    const { schema = {} } =
      document.paths[path]?.['post']?.responses['200']?.content?.['text/event-stream'] ?? {};
    const streamed = await post(service, path, { model: MODEL, ...body });
    assert.equal(streamed.headers.get('content-type'), 'text/event-stream; charset=utf-8');
    const event = validator(schema);
    for (const [, data = ''] of (await streamed.text()).matchAll(/^data: (.*)$/gm)) {
      event.parse({ data });
      const kind = data === '[DONE]' ? data : data.startsWith('{"error"') ? 'StreamError' : chunk;
      assert.ok(JSON.stringify(schema).includes(kind), kind);
      if (kind !== '[DONE]') validator(document.components['schemas']?.[kind] ?? {}).parse(JSON.parse(data));
      kinds.add(kind);
    }
  }
  assert.deepEqual([...kinds].sort(), ['ChatChunk', 'StreamError', 'TextChunk', '[DONE]']);
});
