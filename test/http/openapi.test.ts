import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { API_ENDPOINTS, API_PATHS } from '../../src/http/api/endpoints.ts';
import { PATHS } from '../../src/http/paths.ts';
import { startService } from '../harness.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

interface Operation {
  operationId: string;
  summary: string;
  responses: Record<string, { description: string }>;
  security?: Record<string, string[]>[];
  parameters?: { name: string; in: string; required: boolean }[];
}

interface Document {
  openapi: string;
  info: { title: string; version: string };
  servers: { url: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: Record<string, Record<string, object>>;
}

const answer = await fetch(`${service.url}/openapi.json`);
const document = (await answer.json()) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

test('the document is OpenAPI 3.1 and says where the service is', () => {
  assert.equal(answer.status, 200);
  assert.equal(answer.headers.get('content-type'), 'application/json');
  assert.match(document.openapi, /^3\.1\.\d+$/);
  assert.ok(document.info.title.length > 0 && document.info.version.length > 0);
  assert.deepEqual(document.servers, [{ url: service.url }]);
});

test('the document names every endpoint with its methods, and no other', () => {
  const served = [...PATHS, ...API_PATHS].flatMap(([path, methods]) =>
    methods
      .filter((method) => method !== 'HEAD')
      .map((method) => `${method.toLowerCase()} ${path.replace('*', '{namespace}/{name}')}`),
  );
  assert.deepEqual(operations.map(({ path, method }) => `${method} ${path}`).sort(), served.sort());
});

test('every operation has an id of its own, a summary, and answers with descriptions', () => {
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

test('the parameters of a path are those it names', () => {
  for (const { path, operation } of operations) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
    const parameters = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path');
    assert.deepEqual(
      parameters.map(({ name }) => name),
      named,
      path,
    );
    assert.ok(parameters.every((parameter) => parameter.required));
  }
});

test('every reference leads to a component, and every component is referred to', () => {
  const text = JSON.stringify(document);
  const referred = [...text.matchAll(/"\$ref":"#\/components\/schemas\/(\w+)"/g)].map(([, name]) => name);
  assert.deepEqual(new Set(referred), new Set(Object.keys(document.components['schemas'] ?? {})));
  assert.equal(referred.length, text.split('"$ref"').length - 1);
});

test('each operation of the management interface says whose it is: anybody, a key, or a session', () => {
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
