import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import type { TracingConfig } from '../src/config/schema.ts';
import { ReplicaRefused } from '../src/replicas/replica.ts';
import { HttpReplicaClient } from '../src/replicas/replica-client.ts';
import { OtlpExporter } from '../src/tracing/otlp.ts';
import { proxyOf } from '../src/support/proxy-agent.ts';
import { chat, collect, NEVER_ABORTED } from './engine/requests.ts';
import { openScripted, REPLICA } from './replicas/replicas.ts';
import { SILENT } from '../src/support/log.ts';
import { dropSettings } from './support/environment.ts';

dropSettings();

const PROXY = 'http://proxy.example.org:3128';

/** The URLs that a forward proxy was asked for. It finds every host on this machine. */
const asked: string[] = [];
const proxy: Server = createServer((incoming, response) => {
  const url = new URL(incoming.url ?? '');
  asked.push(url.href);
  if (url.port === '') return void response.end(`from ${url.host}`);
  const { method, headers } = incoming;
  const outgoing = request({ port: url.port, path: url.pathname, method, headers }, (found) => {
    response.writeHead(found.statusCode ?? 502, found.headers);
    found.pipe(response);
  });
  incoming.pipe(outgoing);
});
proxy.on('connect', ({ url = '' }, socket) => {
  asked.push(url);
  socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
});
await once(proxy.listen(0, '127.0.0.1'), 'listening');
after(() => {
  proxy.closeAllConnections();
  proxy.close();
});
const { port } = proxy.address() as AddressInfo; // A TCP server has one.
const PROXY_URL = `http://127.0.0.1:${port}`;

test('a URL has the proxy of its scheme, unless NO_PROXY has its host', () => {
  const both = { HTTP_PROXY: 'http://a.example.org', HTTPS_PROXY: 'http://b.example.org' };
  assert.equal(proxyOf(new URL('http://x.test/'), both), both.HTTP_PROXY);
  assert.equal(proxyOf(new URL('https://x.test/'), both), both.HTTPS_PROXY);
  assert.equal(proxyOf(new URL('https://x.test/'), { http_proxy: PROXY }), PROXY);
  assert.equal(proxyOf(new URL('http://x.test/'), { https_proxy: PROXY }), null);
  assert.equal(proxyOf(new URL('http://x.test/'), {}), null);
  for (const [list, url, isProxied] of [
    // This machine never has one, and private networks only if they are not left out.
    ['', 'http://localhost:8000/', false],
    ['', 'http://127.9.9.9/', false],
    ['', 'http://[::1]:8000/', false],
    [undefined, 'http://10.1.2.3:8000/', false],
    [undefined, 'http://192.168.1.2/', false],
    [undefined, 'http://[fd00::1]/', false],
    [undefined, 'http://8.8.8.8/', true],
    [undefined, 'http://vllm:8000/', true],
    ['', 'http://10.1.2.3/', true],
    ['10.0.0.0/8', 'http://10.1.2.3/', false],
    ['10.0.0.0/8', 'http://11.1.2.3/', true],
    ['10.1.2.3/32,x.test', 'http://10.1.2.4/', true],
    ['fd00::/8', 'http://[fd12::1]/', false],
    ['fd00::/8', 'http://10.1.2.3/', true],
    ['[2001:DB8:0::1]', 'http://[2001:db8::1]/', false],
    ['[2001:db8::1]:8000', 'http://[2001:db8::1]/', true],
    ['10.1.2.3/33 10.1.2.3/ 10.1.2.3/x 10.0.0.0/8.5 10.0.0.0/1e1 /8', 'http://10.1.2.3/', true],
    ['10.1.2.3:80', 'http://10.1.2.3/', false],
    ['10.1.2.3:81', 'http://10.1.2.3/', true],
    ['example.org', 'http://a.EXAMPLE.org./', false],
    ['.example.org', 'https://example.org/', false],
    ['*.example.org', 'https://a.example.org/', false],
    ['example.org', 'http://notexample.org/', true],
    ['example.org:443', 'https://example.org/', false],
    ['example.org:443', 'http://example.org/', true],
    ['a, *', 'http://b.test/', false],
  ] as const) {
    const env = { HTTP_PROXY: PROXY, ...(list === undefined ? {} : { NO_PROXY: list }) };
    assert.equal(proxyOf(new URL(url), env), isProxied ? PROXY : null, `${url} with ${list}`);
  }
});

test('an invalid variable is an error with its name, only for URLs that need a proxy', () => {
  const env = { HTTPS_PROXY: 'user:secret@proxy' };
  assert.throws(() => proxyOf(new URL('https://x.test/'), env), {
    name: 'ProxyVariableError',
    message: 'HTTPS_PROXY must be the URL of a proxy, such as http://proxy.example.org:3128',
  });
  assert.equal(proxyOf(new URL('http://x.test/'), env), null);
  assert.equal(proxyOf(new URL('https://localhost/'), env), null);
  for (const proxy of [
    'http://u%zz:secret@proxy:3128',
    'http://user:50%@proxy:3128',
    'socks5://proxy',
    'http://',
  ])
    assert.throws(() => proxyOf(new URL('http://x.test/'), { HTTP_PROXY: proxy }), {
      name: 'ProxyVariableError',
    });
});

test('a replica is reached through a proxy, with all kinds of requests', async () => {
  await using engine = await openScripted({}, { proxy: PROXY_URL });
  asked.length = 0;
  await engine.health(NEVER_ABORTED);
  for (let count = 0; count < 2; count++) {
    const events = await collect(engine.generate(chat({ tokens: 3 }), NEVER_ABORTED));
    assert.equal(events.at(-1)?.type, 'end');
  }
  assert.equal(asked.length, 3);
  for (const url of asked) assert.match(url, /^http:\/\/127\.0\.0\.1:\d+\//);
});

test('a replica behind a proxy that refuses the connection is unavailable', async () => {
  const url = 'https://engine.invalid:8443';
  await using client = new HttpReplicaClient({ ...REPLICA, url, proxy: PROXY_URL });
  asked.length = 0;
  await assert.rejects(client.health(NEVER_ABORTED), ReplicaRefused);
  for (const stream of [true, false]) {
    const events = collect(client.generate(chat({}, { stream }), NEVER_ABORTED));
    await assert.rejects(events, ReplicaRefused);
  }
  assert.deepEqual(new Set(asked), new Set(['engine.invalid:8443']));
});

test('traces are sent through the proxy', async () => {
  asked.length = 0;
  const url = 'http://traces.invalid/v1/traces';
  const tracing: TracingConfig = {
    url,
    headers: new Map(),
    resource: new Map(),
    ratio: 1,
    parentBased: true,
  };
  const options = { instance: 'test', env: { HTTP_PROXY: PROXY_URL }, log: SILENT };
  const span = { traceId: 'a', spanId: 'b', parentId: null, name: 'x', kind: 'server', startUs: 1 } as const;
  {
    await using exporter = new OtlpExporter(tracing, options);
    exporter.add([{ ...span, endUs: 2, attributes: [], failed: false }]);
  }
  assert.deepEqual(asked, [url]);
});

test('fetch, which sign-in and `chat --url` use, goes through the proxy', async () => {
  const main = join(import.meta.dirname, '..', 'src', 'main.ts');
  const script = `process.argv = ['node', 'sluice', '--version']; await import(${JSON.stringify(main)});
    console.log(await (await fetch('http://provider.invalid/openid')).text());`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], {
    env: { ...process.env, HTTP_PROXY: PROXY_URL, NO_PROXY: '' },
  });
  assert.match(stdout, /from provider\.invalid\n$/);
});
