import assert from 'node:assert/strict';
import { networkInterfaces } from 'node:os';
import { test } from 'node:test';
import { openService } from '../harness.ts';

const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
const withoutIPv6 = addresses.every(({ address }) => address !== '::1') && 'This machine has no IPv6.';

for (const [host, reachedAt, skip] of [
  ['0.0.0.0', ['127.0.0.1'], false],
  ['::1', ['[::1]'], withoutIPv6],
  ['::', ['[::1]', '127.0.0.1'], withoutIPv6],
] as const) {
  test(`a service that listens on ${host} is reached at ${reachedAt.join(' and ')}`, { skip }, async () => {
    await using service = await openService(undefined, { SLUICE_HOST: host });
    const { port, hostname } = new URL(service.service.localUrl);
    assert.equal(hostname, host.includes(':') ? `[${host}]` : host);
    for (const address of reachedAt)
      assert.equal((await fetch(`http://${address}:${port}/healthz`)).status, 200);
  });
}
