import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../../src/engine/scripted/options.ts';
import { chat, requestLog, scriptedYaml, startService } from '../harness.ts';

for (const [proxies, forwarded, logged] of [
  ['[]', '203.0.113.9', '127.0.0.1'],
  ["['192.0.2.0/24']", '203.0.113.9', '127.0.0.1'],
  ["['127.0.0.1']", '203.0.113.9', '203.0.113.9'],
  ["['127.0.0.1']", '198.51.100.7, 203.0.113.9', '203.0.113.9'],
  ["['127.0.0.1', '203.0.113.0/24']", '198.51.100.7, 203.0.113.9', '198.51.100.7'],
] as const) {
  test(`X-Forwarded-For: ${forwarded} is logged as ${logged} if ${proxies} are trusted`, async () => {
    await using service = await startService(scriptedYaml({}, `trustedProxies: ${proxies}\n`));
    const response = await fetch(`${service.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${service.key}`, 'x-forwarded-for': forwarded },
      body: JSON.stringify(chat(scripted({ text: 'Hello' }))),
    });
    await response.text();
    assert.deepEqual(
      requestLog(service).map(({ ip }) => ip),
      [logged],
    );
  });
}
