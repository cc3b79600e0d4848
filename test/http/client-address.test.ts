import assert from 'node:assert/strict';
import { test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { chat, requestLog, scriptedYaml, startService } from '../harness.ts';

for (const [proxies, forwarded, logged] of [
  ['[]', '203.0.113.9', '127.0.0.1'],
  ["['192.0.2.0/24']", '203.0.113.9', '127.0.0.1'],
  ["['127.0.0.1']", '203.0.113.9', '203.0.113.9'],
  ["['127.0.0.1']", '198.51.100.7, 203.0.113.9', '203.0.113.9'],
  ["['127.0.0.1', '203.0.113.0/24']", '198.51.100.7, 203.0.113.9', '198.51.100.7'],
  // Azure Application Gateway adds the port.
  ["['127.0.0.1']", '203.0.113.9:52341', '203.0.113.9'],
  ["['127.0.0.1']", '[2001:db8::9]:52341', '2001:db8::9'],
  ["['127.0.0.1', '10.0.0.0/8']", '203.0.113.9:52341, 10.0.0.2:443', '203.0.113.9'],
  // Not an address: the nearest known one is that of the proxy.
  ["['127.0.0.1']", '203.0.113.9, unknown', '127.0.0.1'],
  ["['127.0.0.1', '10.0.0.0/8']", '<script>, 10.0.0.2', '10.0.0.2'],
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
    // The management API runs on another framework.
    const { key } = await service.service.keys.create({ name: 'admin', kind: 'admin' });
    const headers = { authorization: `Bearer ${key.reveal()}`, 'x-forwarded-for': forwarded };
    const body = JSON.stringify({ name: 'Acme' });
    const created = await fetch(`${service.url}/api/accounts`, { method: 'POST', headers, body });
    assert.equal(created.status, 201, await created.text());
    const audit = await fetch(`${service.url}/api/audit?action=account.create`, { headers });
    const { data } = (await audit.json()) as { data: { ip: string }[] };
    assert.equal(data[0]?.ip, logged);
  });
}
