/**
 * What callers send is never part of a statement (CVE-2026-42208: a gateway looked a key up by a text that it had put
 * into SQL): keys, queries, bodies, ids in paths, and headers that are written down.
 */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { API_ENDPOINTS } from '../../src/http/api/endpoints.ts';
import { startManaged, type Managed } from '../http/api/manager.ts';
import { testDatabases } from '../servers.ts';

/** For SQLite and PostgreSQL, for quoted and bare places, for one statement and several. */
const PAYLOADS = [
  `'`,
  `"`,
  `' or '1'='1`,
  `' or 1=1 --`,
  `1 or 1=1`,
  `'; drop table keys; --`,
  `'; update people set operator = 1; --`,
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
    let managed: Managed;
    before(async () => {
      managed = await startManaged(database);
    });
    after(() => managed[Symbol.asyncDispose]());

    test('a key that is SQL is a key that there is not', async () => {
      const { key } = managed.test;
      for (const payload of PAYLOADS) {
        for (const text of [
          payload,
          `sk-sluice-${payload}`,
          key + payload,
          `${key.slice(0, -1)}${payload}`,
        ]) {
          for (const path of ['/api/accounts', '/v1/chat/completions']) {
            const answer = await fetch(managed.test.url + path, {
              method: path.startsWith('/api') ? 'GET' : 'POST',
              headers: { authorization: `Bearer ${text}` },
            });
            assert.equal(answer.status, 401, text);
            await answer.body?.cancel();
          }
        }
      }
    });

    test('a query or an id that is SQL finds nothing and breaks nothing', async () => {
      for (const { method, path, query } of API_ENDPOINTS) {
        if (method !== 'GET' || path.startsWith('/api/auth/')) continue;
        const plain = path.replaceAll(/\{\w+\}/g, 'default');
        const urls = PAYLOADS.map(encodeURIComponent).flatMap((payload) => [
          ...Object.keys(query?.shape ?? {}).map((name) => `${plain}?${name}=${payload}`),
          ...(path.includes('{') ? [path.replaceAll(/\{\w+\}/g, payload)] : []),
        ]);
        for (const url of urls) {
          const answer = await fetch(managed.test.url + url, {
            headers: { authorization: `Bearer ${managed.admin}` },
          });
          const body = await answer.text();
          assert.ok(answer.status < 500, `${url}: ${answer.status} ${body}`);
          assert.doesNotMatch(body, /syntax error|near "|[0-9a-f]{64}/, url);
        }
      }
    });

    test('a name or an id that is SQL is kept as it is', async () => {
      for (const payload of PAYLOADS) {
        const made = await managed.ok('POST', '/api/accounts', { body: { name: payload } });
        assert.equal(made.name, payload);
        const changed = await managed.ok('PATCH', `/api/accounts/${made.id}`, {
          body: { name: `${payload}2` },
        });
        assert.equal(changed.name, `${payload}2`);
      }
    });

    test("a caller's own request id that is SQL is kept as it is", async () => {
      for (const payload of PAYLOADS) {
        const answer = await managed.generate(managed.test.key, { 'x-client-request-id': payload });
        assert.equal(answer.status, 200, await answer.text());
      }
      const { data } = await managed.ok('GET', '/api/requests?limit=100');
      const kept = new Set(data.map((request) => request.client_request_id));
      assert.deepEqual(
        PAYLOADS.filter((payload) => !kept.has(payload)),
        [],
      );
    });

    test('after all of it nobody is an operator and every key is there', async () => {
      assert.equal((await managed.ok('GET', '/api/people')).data.length, 0);
      const { data } = await managed.ok('GET', '/api/keys');
      assert.deepEqual(data.map(({ name }) => name).sort(), ['admin', 'test']);
    });
  });
}
