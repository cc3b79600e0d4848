import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { ItemOf } from '../../console/src/api/client.ts';
import { MODEL, scriptedYaml, startService, type TestService } from '../harness.ts';

let service: TestService;
let admin = '';
before(async () => {
  service = await startService(
    scriptedYaml({}, 'plans: {tight: {requestsPerMinute: 1}}\ndefaultPlan: tight\n'),
  );
  const created = await service.service.keys.create({ name: 'admin', kind: 'admin' });
  admin = created.key.reveal();
});
after(() => service[Symbol.asyncDispose]());

test('requests refused before or by admission are listed; accepted requests and requests of the console are not', async () => {
  const chat = { model: MODEL, messages: [{ role: 'user', content: 'Hi' }], max_tokens: 1 };
  const post = async (path: string, body: object | string, key = service.key) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' };
    const response = await fetch(service.url + path, { method: 'POST', headers, body: text });
    await response.text();
    return response.status;
  };
  const path = '/v1/chat/completions';
  assert.equal(await post(path, chat), 200);
  assert.equal(await post(path, chat), 429);
  assert.equal(await post(path, chat), 429);
  assert.equal(await post(path, { ...chat, model: 'gpt-4o' }), 404);
  assert.equal(await post(path, { ...chat, temperature: 9 }), 400);
  assert.equal(await post(path, '{'), 400);
  assert.equal(await post(path, chat, 'sk-wrong'), 401);
  assert.equal(await post('/chat/completions', chat), 404);
  assert.equal((await fetch(`${service.url}/api/keys`)).status, 401);
  const refusals = await list('');
  assert.deepEqual(
    refusals
      .map(({ code, param, count, account_id }) => [code, param, count, account_id])
      .toSorted(([a], [b]) => (String(a) < String(b) ? -1 : 1)),
    [
      ['invalid_api_key', null, 1, null],
      ['invalid_json', null, 1, 'default'],
      ['invalid_value', 'temperature', 1, 'default'],
      ['model_not_found', 'model', 1, 'default'],
      ['requests_per_minute', null, 2, 'default'],
      ['unknown_url', null, 1, null],
    ],
  );
  assert.match(refusals.find(({ code }) => code === 'model_not_found')?.message ?? '', /gpt-4o/);
  assert.match(
    refusals.find(({ code }) => code === 'unknown_url')?.message ?? '',
    /POST \/chat\/completions/,
  );
  const own = await list('?account_id=default&hours=1');
  assert.equal(own.length, 4);
  const latest = Math.max(...refusals.map(({ last_at: at }) => Date.parse(at)));
  const at = (ms: number) => encodeURIComponent(new Date(ms).toISOString());
  // `hours` does not apply to a period.
  const now = await list(`?hours=1&by=hour&from=${at(latest - 7_200_000)}&to=${at(latest + 60_000)}`);
  assert.equal(
    now.reduce((sum, { count }) => sum + count, 0),
    7,
  );
  assert.deepEqual(await list(`?to=${at(latest - 3_600_000)}`), []);
});

async function list(query: string): Promise<ItemOf<'listRefusals'>[]> {
  const headers = { authorization: `Bearer ${admin}` };
  const response = await fetch(`${service.url}/api/refusals${query}`, { headers });
  assert.equal(response.status, 200);
  const { data } = (await response.json()) as { data: ItemOf<'listRefusals'>[] };
  return data;
}
