import assert from 'node:assert/strict';
import { mkdir, readFile, stat, writeFile } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { describe, it } from 'node:test';
import * as fc from '../support/fast-check.ts';
import { addressOf, listen, sha256 } from './fake-hub.ts';
import { buildGguf, TINY_METADATA } from './gguf-builder.ts';
import { fails, Fixture } from './store-fixture.ts';

const { NAME, BYTES } = Fixture;
const TOKEN = 'hf_canary_of_a_token';

describe('a pull from the Hub', () => {
  it('downloads the file and records its source', async () => {
    await using fixture = await Fixture.open();
    const model = await fixture.store().pull(NAME, { onProgress: fixture.onProgress });
    assert.deepEqual(await readFile(fixture.file), BYTES);
    assert.deepEqual(
      { ...model, pulledAt: null },
      {
        id: null,
        file: fixture.file,
        files: [fixture.file],
        sizeBytes: BYTES.length,
        sha256: sha256(BYTES),
        source: NAME,
        pulledAt: null,
      },
    );
    assert.deepEqual(await fixture.names(), ['tiny.gguf', 'tiny.gguf.json']);
    assert.equal((await stat(fixture.file)).mode & 0o777, 0o600);
    const last = fixture.progress.at(-1);
    assert.deepEqual(
      [last?.phase, last?.receivedBytes, last?.totalBytes],
      ['downloading', BYTES.length, BYTES.length],
    );
  });

  it('sends no requests the second time', async () => {
    await using fixture = await Fixture.open();
    await fixture.store().pull(NAME);
    const { length } = fixture.hub.requests;
    assert.equal((await fixture.store().pull(NAME)).file, fixture.file);
    assert.equal(await fixture.store().resolve('any/id', NAME), fixture.file);
    assert.equal(fixture.hub.requests.length, length);
  });

  it('requests the revision', async () => {
    await using fixture = await Fixture.open();
    const model = await fixture.store().pull('hf:owner/repo/tiny.gguf@refs/pr/1');
    assert.match(model.file, /repo@refs%2Fpr%2F1\/tiny\.gguf$/);
    assert.equal(fixture.hub.requests[0]?.path, '/owner/repo/resolve/refs%2Fpr%2F1/tiny.gguf');
  });

  it('sends the token only to the Hub, and does not reveal it', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ status: 403 }];
    const env = { HF_ENDPOINT: fixture.hub.endpoint, HF_TOKEN: TOKEN };
    const message = await fails(
      fixture.store({ env }).pull(NAME, { onProgress: fixture.onProgress }),
      /refused access \(403\)/,
    );
    await fixture.store({ env }).pull(NAME, { onProgress: fixture.onProgress });
    for (const { host, authorization } of fixture.hub.requests) {
      assert.equal(authorization, host === 'hub' ? `Bearer ${TOKEN}` : null);
    }
    const visible = [
      message,
      ...fixture.logged,
      JSON.stringify(fixture.progress),
      await readFile(`${fixture.file}.json`, 'utf8'),
    ];
    assert(!visible.join('\n').includes(TOKEN));
  });

  it('checks the bytes against the SHA-256 of the Hub', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ corrupt: true }];
    await fails(fixture.store().pull(NAME), new RegExp(`wrong checksum: .* expected ${sha256(BYTES)}`));
    assert.deepEqual(await fixture.names(), []);
  });

  it('refuses a file that is not a model', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.files.set('tiny.gguf', Buffer.from('<html>Please sign in</html>'));
    await fails(fixture.store().pull(NAME), /not a GGUF file: it starts with "<htm"/);
    fixture.hub.files.set('tiny.gguf', buildGguf({ cutBytes: 60 }));
    await fails(fixture.store().pull(NAME), /truncated: its tensors need/);
    assert.deepEqual(await fixture.names(), []);
  });

  it('refuses a file of a different size than announced', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.linkedSize = BYTES.length + 1;
    await fails(fixture.store().pull(NAME), /announced \d+ bytes; expected \d+/);
  });

  for (const [status, advice] of [
    [401, /refused access \(401\): .*set `HF_TOKEN`/],
    [403, /refused access \(403\)/],
    [404, /no such repository, revision or file/],
    [500, /responded with status 500/],
  ] as const) {
    it(`fails immediately on status ${status}`, async () => {
      await using fixture = await Fixture.open();
      fixture.hub.status = status;
      await fails(fixture.store().pull(NAME), advice);
      assert.equal(fixture.hub.requests.length, 1);
    });
  }

  it('fails immediately if the connection is refused, and explains how to add the file manually', async () => {
    await using fixture = await Fixture.open();
    const { endpoint } = fixture.hub;
    const store = fixture.store({ env: { HF_ENDPOINT: 'http://127.0.0.1:9' } });
    const message = await fails(store.pull(NAME), /127\.0\.0\.1:9 cannot be reached: .*ECONNREFUSED/);
    assert(
      message.includes(`copy it to ${fixture.file}`) &&
        message.includes('engine.file') &&
        message.includes('hf:owner/repo/file.gguf'),
    );
    await fails(
      fixture.store({ env: { HF_ENDPOINT: endpoint.replace('http', 'ftp') } }).pull(NAME),
      /HF_ENDPOINT/,
    );
  });

  it('uses the proxy in the environment', async () => {
    await using fixture = await Fixture.open();
    const requested: string[] = [];
    const proxy = await listen((request, response) => {
      requested.push(request.url ?? '');
      response.writeHead(403).end();
    });
    proxy.on('connect', (request, socket) => {
      requested.push(request.url ?? '');
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
    });
    const env = { HF_ENDPOINT: 'https://hub.invalid', HTTPS_PROXY: addressOf(proxy) };
    await fails(fixture.store({ env }).pull(NAME), /hub\.invalid/);
    assert.deepEqual(requested, ['hub.invalid:443']);
    await fails(
      fixture.store({ env: { ...env, NO_PROXY: 'hub.invalid' } }).pull(NAME),
      /ENOTFOUND|EAI_AGAIN/,
    );
    assert.equal(requested.length, 1);
    await fails(
      fixture.store({ env: { HTTPS_PROXY: 'proxy:3128' } }).pull(NAME),
      /^HTTPS_PROXY must be the URL/,
    );
    proxy.closeAllConnections();
    proxy.close();
  });

  it('fails if the server does not respond', async () => {
    await using fixture = await Fixture.open();
    const silent = await listen(() => {});
    const store = fixture.store({
      env: { HF_ENDPOINT: addressOf(silent) },
      timeouts: { connectMs: 50, responseMs: 50 },
    });
    await fails(store.pull(NAME), /cannot be reached/);
    silent.closeAllConnections();
    silent.close();
  });
});

describe('a pull that loses the connection', () => {
  it('resumes', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ cutAfter: 1000 }, { cutAfter: 2000 }];
    await fixture.store().pull(NAME);
    assert.deepEqual(
      fixture.hub.fetches.map(({ range }) => range),
      [null, 'bytes=1000-', 'bytes=3000-'],
    );
    assert.deepEqual(await readFile(fixture.file), BYTES);
  });

  it('downloads the whole file after any number of interruptions', async () => {
    const cut = fc.record({ cutAfter: fc.integer({ min: 1, max: BYTES.length }) });
    await fc.assert(
      fc.asyncProperty(fc.array(cut, { maxLength: 3 }), fc.boolean(), async (script, linked) => {
        await using fixture = await Fixture.open();
        fixture.hub.script = script;
        fixture.hub.linked = linked;
        await fixture.store().pull(NAME);
        assert.deepEqual(await readFile(fixture.file), BYTES);
        assert.deepEqual(await fixture.names(), ['tiny.gguf', 'tiny.gguf.json']);
      }),
      { numRuns: 10 },
    );
  });

  it('resumes when the server stops sending', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ stallAfter: 5000 }];
    await fixture.store({ timeouts: { idleMs: 500 } }).pull(NAME);
    // A busy machine can cause further ones.
    assert.deepEqual(
      fixture.hub.fetches.slice(0, 2).map(({ range }) => range),
      [null, 'bytes=5000-'],
    );
    assert.deepEqual(await readFile(fixture.file), BYTES);
  });

  it('leaves a part file that the next pull resumes', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ cutAfter: 4000 }, { status: 403 }];
    await fails(fixture.store().pull(NAME), /403/);
    assert.deepEqual(await fixture.names(), ['tiny.gguf.part', 'tiny.gguf.part.json']);
    await fixture.store().pull(NAME, { onProgress: fixture.onProgress });
    assert.equal(fixture.hub.fetches.at(-1)?.range, 'bytes=4000-');
    assert.deepEqual(await readFile(fixture.file), BYTES);
    assert(fixture.progress.some(({ phase, totalBytes }) => phase === 'checking' && totalBytes === 4000));
  });

  it('starts again when the Hub has a different file', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ cutAfter: 4000 }, { status: 403 }];
    await fails(fixture.store().pull(NAME), /403/);
    const other = buildGguf({ metadata: { ...TINY_METADATA, 'general.description': 'y'.repeat(300_000) } });
    fixture.hub.files.set('tiny.gguf', other);
    await fixture.store().pull(NAME);
    assert.equal(fixture.hub.fetches.at(-1)?.range, null);
    assert.deepEqual(await readFile(fixture.file), other);
  });

  it('requests nothing when the part file is complete', async () => {
    await using fixture = await Fixture.open();
    await mkdir(dirname(fixture.file), { recursive: true });
    await writeFile(`${fixture.file}.part`, BYTES);
    await writeFile(
      `${fixture.file}.part.json`,
      JSON.stringify({ identity: `sha256:${sha256(BYTES)}`, totalBytes: BYTES.length }),
    );
    await fixture.store().pull(NAME);
    assert.equal(fixture.hub.fetches.length, 0);
    assert.deepEqual(await readFile(fixture.file), BYTES);
  });
});

describe('a pull from a URL', () => {
  it('resumes only if the file is the same', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ cutAfter: 1000 }];
    await fixture.store().pull(fixture.hub.storeUrl('tiny.gguf'));
    assert.deepEqual(
      fixture.hub.fetches.map(({ range, ifRange }) => [range, ifRange]),
      [
        [null, null],
        ['bytes=1000-', '"v1"'],
      ],
    );
  });

  it('starts again when the file changes', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ cutAfter: 1000 }, { newEtag: '"v2"' }];
    const model = await fixture.store().pull(fixture.hub.storeUrl('tiny.gguf'));
    assert.deepEqual(await readFile(model.file), BYTES);
    assert.equal(fixture.hub.fetches.length, 2);
  });

  it('keeps files apart whose URLs differ in the query', async () => {
    await using fixture = await Fixture.open();
    const other = buildGguf({ metadata: { ...TINY_METADATA, 'general.name': 'other' } });
    fixture.hub.files.set('tiny.gguf?v=1', BYTES).set('tiny.gguf?v=2', other);
    const store = fixture.store();
    const url = fixture.hub.storeUrl('tiny.gguf');
    const first = await store.pull(`${url}?v=1`);
    assert.equal(await store.find(`${url}?v=2`), null);
    const [plain, second] = [await store.pull(url), await store.pull(`${url}?v=2`)];
    assert.deepEqual(await Promise.all([plain, first, second].map(({ file }) => readFile(file))), [
      BYTES,
      BYTES,
      other,
    ]);
    assert.deepEqual(
      await store.list(),
      [plain, first, second].toSorted((a, b) => (a.file < b.file ? -1 : 1)),
    );
    await store.remove(`${url}?v=1`);
    assert.deepEqual(await store.find(`${url}?v=2`), second);
  });

  it('keeps the query of a split model', async () => {
    await using fixture = await Fixture.open();
    const parts = [1, 2].map((number) => `big-0000${number}-of-00002.gguf`);
    for (const part of parts) fixture.hub.files.set(`${part}?v=1`, BYTES);
    const model = await fixture.store().pull(`${fixture.hub.storeUrl(parts[0] ?? '')}?v=1`);
    assert.deepEqual(
      model.files.map((file) => basename(file)),
      parts,
    );
    assert.equal(new Set(model.files.map((file) => dirname(file))).size, 1);
  });

  for (const [name, behavior] of [
    ['has no valid range', { contentRange: 'bytes' }],
    ['starts elsewhere', { contentRange: `bytes 0-${BYTES.length - 1}/${BYTES.length}` }],
    ['is of a file of another size', { contentRange: 'bytes 1000-1999/2000' }],
    ['is of another file', { ignoresIfRange: true, newEtag: '"v2"' }],
  ] as const) {
    it(`starts again when the partial response ${name}`, async () => {
      await using fixture = await Fixture.open();
      fixture.hub.script = [{ cutAfter: 1000 }, behavior];
      const model = await fixture.store().pull(fixture.hub.storeUrl('tiny.gguf'));
      assert.deepEqual(await readFile(model.file), BYTES);
      assert.deepEqual(
        fixture.hub.fetches.map(({ range }) => range),
        [null, 'bytes=1000-', null],
      );
    });
  }

  for (const etag of [null, 'W/"weak"']) {
    it(`does not resume ${etag === null ? 'without an ETag' : `with the ETag ${etag}`}`, async () => {
      await using fixture = await Fixture.open();
      fixture.hub.etag = etag;
      fixture.hub.script = [{ cutAfter: 1000 }];
      const model = await fixture.store().pull(fixture.hub.storeUrl('tiny.gguf'));
      assert.deepEqual(
        fixture.hub.fetches.map(({ range }) => range),
        [null, null],
      );
      assert.deepEqual(await readFile(model.file), BYTES);
    });
  }

  it('does not follow a redirect from this machine to plain HTTP elsewhere', async () => {
    await using fixture = await Fixture.open();
    const redirecting = await listen((_, response) =>
      response.writeHead(302, { location: 'http://192.0.2.1/x.gguf' }).end(),
    );
    await fails(
      fixture.store().pull(`${addressOf(redirecting)}/x.gguf`),
      /redirects to http:\/\/192\.0\.2\.1; expected https/,
    );
    redirecting.closeAllConnections();
    redirecting.close();
  });
});
