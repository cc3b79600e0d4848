/**
 * Input is never part of an SQL statement (CVE-2026-42208: a gateway concatenated the key into its lookup): keys, queries,
 * bodies, IDs in paths, and stored headers.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import { startManagedService, type ManagedService } from '../http/api/managed-service.ts';
import { testDatabases } from '../support/servers.ts';

/** For both databases, with and without quotes, and with several statements. */
const PAYLOADS = [
  `'`,
  `"`,
  `' or '1'='1`,
  `' or 1=1 --`,
  `1 or 1=1`,
  `'; drop table keys; --`,
  `'; update users set operator = 1; --`,
  `' union select hash, hash, hash from keys --`,
  `' || (select hash from keys limit 1) || '`,
  `$1`,
  `?`,
  `\\'; select pg_sleep(60); --`,
  `%' or name like '%`,
  `{"$ne": null}`,
];

for (const database of testDatabases()) {
  describe(database.name, () => {
    let managed: ManagedService;
    before(async () => {
      managed = await startManagedService(database);
    });
    after(() => managed[Symbol.asyncDispose]());

    test('a key with SQL is an unknown key', async () => {
      const { key } = managed.test;
      for (const payload of PAYLOADS) {
        for (const text of [
          payload,
          `sk-sluice-${payload}`,
          key + payload,
          `${key.slice(0, -1)}${payload}`,
        ]) {
          for (const path of ['/api/accounts', '/v1/chat/completions']) {
            const response = await fetch(managed.test.url + path, {
              method: path.startsWith('/api') ? 'GET' : 'POST',
              headers: { authorization: `Bearer ${text}` },
            });
            assert.equal(response.status, 401, text);
            await response.body?.cancel();
          }
        }
      }
    });

    test('SQL in a query or an ID causes no server error', async () => {
      for (const { method, path, query } of API_ENDPOINTS) {
        if (method !== 'GET' || path.startsWith('/api/auth/')) continue;
        const plain = path.replaceAll(/\{\w+\}/g, 'default');
        const urls = PAYLOADS.map(encodeURIComponent).flatMap((payload) => [
          ...Object.keys(query?.shape ?? {}).map((name) => `${plain}?${name}=${payload}`),
          ...(path.includes('{') ? [path.replaceAll(/\{\w+\}/g, payload)] : []),
        ]);
        for (const url of urls) {
          const response = await fetch(managed.test.url + url, {
            headers: { authorization: `Bearer ${managed.admin}` },
          });
          const body = await response.text();
          assert.ok(response.status < 500, `${url}: ${response.status} ${body}`);
          assert.doesNotMatch(body, /syntax error|near "|[0-9a-f]{64}/, url);
        }
      }
    });

    test('a name with SQL is stored unchanged', async () => {
      for (const payload of PAYLOADS) {
        const created = await managed.ok('POST', '/api/accounts', { body: { name: payload } });
        assert.equal(created.name, payload);
        const changed = await managed.ok('PATCH', `/api/accounts/${created.id}`, {
          body: { name: `${payload}2` },
        });
        assert.equal(changed.name, `${payload}2`);
      }
    });

    test('a client request ID with SQL is stored unchanged', async () => {
      for (const payload of PAYLOADS) {
        const response = await managed.generate(managed.test.key, { 'x-client-request-id': payload });
        assert.equal(response.status, 200, await response.text());
      }
      const { data } = await managed.ok('GET', '/api/requests?limit=100');
      const stored = new Set(data.map((request) => request.client_request_id));
      assert.deepEqual(
        PAYLOADS.filter((payload) => !stored.has(payload)),
        [],
      );
    });

    test('after all these requests there are no new operators, and all keys exist', async () => {
      assert.equal((await managed.ok('GET', '/api/users')).data.length, 0);
      const { data } = await managed.ok('GET', '/api/keys');
      assert.deepEqual(data.map(({ name }) => name).sort(), ['admin', 'test']);
    });
  });
}
