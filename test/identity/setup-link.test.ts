import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openService } from '../harness.ts';
import { OPERATOR, setupToken } from '../operator.ts';

test('a setup link is checked without using it', async () => {
  await using service = await openService();
  const replaced = await setupToken(service);
  const token = await setupToken(service);
  const post = async (path: string, body: object): Promise<[status: number, code: unknown]> => {
    const response = await fetch(service.url + path, {
      method: 'POST',
      headers: { origin: service.url, 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const { error } = (await response.json()) as { error?: { code: string } };
    return [response.status, error?.code];
  };
  for (const wrong of ['x', replaced]) {
    assert.deepEqual(await post('/api/setup/check', { token: wrong }), [404, 'invalid_link']);
  }
  assert.deepEqual(await post('/api/setup/check', { token }), [200, undefined]);
  assert.deepEqual(await post('/api/setup', { token, ...OPERATOR }), [200, undefined]);
  assert.deepEqual(await post('/api/setup/check', { token }), [404, 'invalid_link']);
});
