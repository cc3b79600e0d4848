import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { chat, runCli, scriptedYaml, startService, until } from '../harness.ts';
import { assertError } from './wire.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());
const env = { ...process.env, SLUICE_HOME: service.home };

async function ask(key: string): Promise<{ status: number; body: string }> {
  const headers = { authorization: `Bearer ${key}` };
  const body = JSON.stringify(chat('hello'));
  const response = await fetch(`${service.url}/v1/chat/completions`, { method: 'POST', headers, body });
  return { status: response.status, body: await response.text() };
}

test('a running service immediately accepts a key created on the command line, and refuses it soon after it is revoked', async () => {
  for (let round = 0; round < 2; round++) {
    const { stdout } = await runCli(['keys', 'create', '--name', 'a', '--json'], env);
    const created = JSON.parse(stdout) as { id: string; key: string };
    assert.equal((await ask(created.key)).status, 200);
    assert.equal((await runCli(['keys', 'revoke', created.id], env)).code, 0);
    await until(async () => (await ask(created.key)).status === 401);
    assertError(await ask(created.key), 'invalid_api_key');
  }
});

test('listing models needs no key unless the configuration requires it', async () => {
  assert.equal((await fetch(`${service.url}/v1/models`)).status, 200);
  await using closed = await startService(scriptedYaml({}, 'requireKeyForModels: true\n'));
  for (const path of ['/v1/models', '/v1/models/test/scripted']) {
    const refused = await fetch(closed.url + path);
    assertError({ status: refused.status, body: await refused.text() }, 'invalid_api_key');
    const headers = { authorization: `Bearer ${closed.key}` };
    assert.equal((await fetch(closed.url + path, { headers })).status, 200);
  }
});
