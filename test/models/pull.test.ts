import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import type { OnProgress } from '../../src/models/progress.ts';
import type { Act } from './fake-hub.ts';
import { fails, Fixture } from './store-fixture.ts';

const { NAME, BYTES } = Fixture;

/** Runs a command that may mount what nobody else sees. */
const [PRIVATELY, ...OWN_MOUNTS] = ['unshare', '--map-root-user', '--mount'] as const;

describe('a full disk', () => {
  it('is found out for all parts of a split model before the first', async () => {
    await using at = await Fixture.open();
    for (const number of [1, 2, 3]) at.hub.files.set(`m-0000${number}-of-00003.gguf`, BYTES);
    const store = at.store({ freeBytes: async () => 64 * 1024 * 1024 + 2 * BYTES.length });
    await fails(store.pull('hf:owner/repo/m-00001-of-00003.gguf'), /the download needs 1 MB/, 'disk_full');
    assert.equal(at.hub.fetches.length, 0);
  });

  it('is found out before a byte is fetched, with the numbers', async () => {
    await using at = await Fixture.open();
    const store = at.store({ freeBytes: async () => 30e6 });
    await fails(
      store.pull(NAME),
      /the download needs 1 MB plus a reserve of 68 MB; .* has 30 MB free/,
      'disk_full',
    );
    assert.deepEqual(await at.names(), ['tiny.gguf.part', 'tiny.gguf.part.json']);
  });

  it('in the middle is told as such, and keeps what was fetched', { skip: noSmallDisk() }, async () => {
    await using at = await Fixture.open();
    await mkdir(join(at.home, 'models'));
    const program = `mount -t tmpfs -o size=128k tmpfs "$1/models" && exec "$2" "$3" "$1" "$4"`;
    const child = join(import.meta.dirname, 'full-disk-child.ts');
    const { stdout } = await promisify(execFile)(
      PRIVATELY,
      [...OWN_MOUNTS, 'sh', '-c', program, 'sh', at.home, process.execPath, child, NAME],
      { env: { ...process.env, HF_ENDPOINT: at.hub.endpoint } },
    );
    const end = JSON.parse(stdout);
    assert.equal(end.fault, 'disk_full');
    assert.match(end.message, /the disk of .* is full .*the download resumes where it stopped/);
    assert(end.partBytes > 0 && end.partBytes < BYTES.length, end.partBytes);
  });
});

/** Why no disk of a few kilobytes can be made here; false where it can. */
function noSmallDisk(): string | false {
  const tried = spawnSync(PRIVATELY, [...OWN_MOUNTS, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']);
  return tried.status === 0 ? false : 'no tmpfs can be mounted here';
}

describe('a pull that is aborted', () => {
  it('ends with the reason, keeps the part and goes on later', async () => {
    await using at = await Fixture.open();
    const stop = new AbortController();
    at.hub.script = [{ stallAfter: 7000 }];
    const pull = at.store().pull(NAME, {
      signal: stop.signal,
      onProgress: ({ receivedBytes }) => receivedBytes > 0 && stop.abort(new Error('enough')),
    });
    await assert.rejects(pull, { message: 'enough' });
    assert.equal((await stat(`${at.file}.part`)).size, 7000);
    await at.store().pull(NAME);
    assert.equal(at.hub.fetches.at(-1)?.range, 'bytes=7000-');
  });

  it('does not start when it was aborted before', async () => {
    await using at = await Fixture.open();
    await assert.rejects(at.store().pull(NAME, { signal: AbortSignal.abort(new Error('never')) }), {
      message: 'never',
    });
    assert.equal(at.hub.seen.length, 0);
  });
});

describe('two pulls at once', () => {
  const acts: readonly (readonly [string, Act[]])[] = [
    ['whole', []],
    ['cut', [{ cutAfter: 1000 }]],
  ];
  for (const [name, script] of acts) {
    it(`in one process make one download, ${name}`, async () => {
      await using at = await Fixture.open();
      at.hub.script = [...script];
      const store = at.store();
      const [one, two] = await Promise.all([store.pull(NAME), store.pull(NAME)]);
      assert.deepEqual(one, two);
      assert.equal(at.hub.seen.filter(({ method }) => method === 'HEAD').length, 1);
    });
  }

  it('by two stores make one download, and the second shows the first', async () => {
    await using at = await Fixture.open();
    const gate = Promise.withResolvers<void>();
    at.hub.script = [{ hold: gate.promise }];
    const onProgress: OnProgress = (progress) => {
      at.onProgress(progress);
      if (progress.phase === 'waiting') gate.resolve();
    };
    const first = at.store().pull(NAME, { onProgress });
    const second = at.store().pull(NAME, { onProgress });
    assert.deepEqual((await first).sha256, (await second).sha256);
    assert.equal(at.hub.fetches.length, 1);
    assert(at.progress.some(({ phase }) => phase === 'waiting'));
  });

  it('go on when one of them leaves', async () => {
    await using at = await Fixture.open();
    const gate = Promise.withResolvers<void>();
    at.hub.script = [{ hold: gate.promise }];
    const store = at.store();
    const stop = new AbortController();
    const leaving = store.pull(NAME, { signal: stop.signal });
    const staying = store.pull(NAME);
    stop.abort(new Error('gone'));
    await assert.rejects(leaving, { message: 'gone' });
    gate.resolve();
    assert.equal((await staying).file, at.file);
    assert.equal(at.hub.fetches.length, 1);
  });
});

describe('a split model', () => {
  it('is here when all its parts are', async () => {
    await using at = await Fixture.open();
    const parts = [1, 2, 3].map((number) => `big-0000${number}-of-00003.gguf`);
    for (const part of parts) at.hub.files.set(`q8/${part}`, BYTES);
    const name = `hf:owner/repo/q8/${parts[1]}`;
    const store = at.store();
    const model = await store.pull(name);
    assert.deepEqual(
      model.files.map((file) => file.split('/').at(-1)),
      parts,
    );
    assert(model.file.endsWith(parts[0] ?? ''));
    assert.equal(model.sizeBytes, 3 * BYTES.length);
    assert.equal((await store.list()).length, 1);
    await truncate(model.files[2] ?? '', 10);
    assert.equal(await store.resolve('any/id', name), null);
    await store.pull(name);
    assert.equal(at.hub.fetches.length, 4);
    assert.equal((await store.remove(name)).length, 3);
    assert.deepEqual(await at.names(), []);
  });
});
