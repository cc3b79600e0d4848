import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { API_ENDPOINTS, API_PATHS } from '../../../src/http/api/endpoints.ts';
import { testDatabases } from '../../support/servers.ts';
import { assertRefused, startManagedService, type ManagedService } from './managed-service.ts';

const [sqlite] = testDatabases();

let managed: ManagedService;
before(async () => {
  assert.ok(sqlite);
  managed = await startManagedService(sqlite);
});
after(() => managed[Symbol.asyncDispose]());

test('an invalid key is refused by every endpoint', async () => {
  for (const { method, path } of API_ENDPOINTS) {
    const response = await managed.call(method, path.replaceAll(/\{\w+\}/g, 'some_id'), {
      key: 'sk-sluice-nonsense',
    });
    assertRefused(response, 401, 'invalid_api_key');
    assert.equal(response.headers.get('www-authenticate'), 'Bearer');
  }
});

test('an unsupported method gets a 405, an unknown path gets a 404, and OPTIONS returns the methods of a path', async () => {
  for (const [path, methods] of API_PATHS) {
    const url = path.replaceAll(/\{\w+\}/g, 'some_id');
    const missing = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE'].find((method) => !methods.includes(method));
    const wrong = await managed.call(missing ?? '', url);
    assertRefused(wrong, 405, 'method_not_allowed');
    assert.equal(wrong.headers.get('allow'), [...methods, 'OPTIONS'].join(', '));
    const options = await managed.call('OPTIONS', url, {
      key: null,
      headers: { origin: 'https://a.example' },
    });
    assert.deepEqual(
      [options.status, options.headers.get('allow')],
      [204, [...methods, 'OPTIONS'].join(', ')],
    );
  }
  for (const path of ['/api', '/api/', '/api/nothing', '/api/accounts/a/b', '/api/keys/a/b/c']) {
    assertRefused(await managed.call('GET', path), 404, 'unknown_url');
  }
});

test('responses are not readable by other origins and not cached', async () => {
  for (const path of ['/api/accounts', '/api/keys/key_0']) {
    const { headers } = await managed.call('GET', path, { headers: { origin: 'https://a.example' } });
    assert.deepEqual(
      [...headers.keys()].filter((name) => name.startsWith('access-control')),
      [],
    );
    assert.match(headers.get('x-request-id') ?? '', /^[0-9a-f-]{36}$/);
  }
  const { headers } = await managed.call('GET', '/api/accounts');
  assert.equal(headers.get('cache-control'), 'no-store');
});

test('HEAD returns the headers of GET', async () => {
  const head = await managed.call('HEAD', '/api/accounts');
  const get = await managed.call('GET', '/api/accounts');
  assert.deepEqual([head.status, head.body], [200, null]);
  assert.equal(head.headers.get('content-length'), get.headers.get('content-length'));
});

test('the key is checked before the body is read', async () => {
  const response = await managed.call('POST', '/api/accounts', { key: null, body: 'x'.repeat(100_000) });
  assertRefused(response, 401, 'invalid_api_key');
});
