import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { mkdir, stat, truncate } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import type { OnProgress } from '../../src/models/progress.ts';
import type { StoreBehavior } from './fake-hub.ts';
import { fails, Fixture } from './store-fixture.ts';

const { NAME, BYTES } = Fixture;

/** Runs a command with private mounts. */
const [UNSHARE, ...UNSHARE_ARGS] = ['unshare', '--map-root-user', '--mount'] as const;

describe('a full disk', () => {
  it('is detected for all files of a split model before the first is downloaded', async () => {
    await using fixture = await Fixture.open();
    for (const number of [1, 2, 3]) fixture.hub.files.set(`m-0000${number}-of-00003.gguf`, BYTES);
    const store = fixture.store({ freeBytes: async () => 64 * 1024 * 1024 + 2 * BYTES.length });
    await fails(store.pull('hf:owner/repo/m-00001-of-00003.gguf'), /the download needs 1 MB/, 'disk_full');
    assert.equal(fixture.hub.fetches.length, 0);
  });

  it('is detected before the download, with both sizes', async () => {
    await using fixture = await Fixture.open();
    const store = fixture.store({ freeBytes: async () => 30e6 });
    await fails(
      store.pull(NAME),
      /the download needs 1 MB plus a reserve of 68 MB; .* has 30 MB free/,
      'disk_full',
    );
    assert.deepEqual(await fixture.names(), ['tiny.gguf.part', 'tiny.gguf.part.json']);
  });

  it('is reported during the download, which can be resumed', { skip: smallDiskUnavailable() }, async () => {
    await using fixture = await Fixture.open();
    await mkdir(join(fixture.home, 'models'));
    const program = `mount -t tmpfs -o size=128k tmpfs "$1/models" && exec "$2" "$3" "$1" "$4"`;
    const child = join(import.meta.dirname, 'full-disk-child.ts');
    const { stdout } = await promisify(execFile)(
      UNSHARE,
      [...UNSHARE_ARGS, 'sh', '-c', program, 'sh', fixture.home, process.execPath, child, NAME],
      { env: { ...process.env, HF_ENDPOINT: fixture.hub.endpoint } },
    );
    const failure = JSON.parse(stdout);
    assert.equal(failure.fault, 'disk_full');
    assert.match(failure.message, /the disk of .* is full .*the download resumes where it stopped/);
    assert(failure.partBytes > 0 && failure.partBytes < BYTES.length, failure.partBytes);
  });
});

/** Returns why a small disk cannot be mounted here, or false. */
function smallDiskUnavailable(): string | false {
  const result = spawnSync(UNSHARE, [...UNSHARE_ARGS, 'mount', '-t', 'tmpfs', 'tmpfs', '/mnt']);
  return result.status === 0 ? false : 'no tmpfs can be mounted here';
}

describe('a pull that is aborted', () => {
  it('rejects with the reason, keeps the part file and can be resumed', async () => {
    await using fixture = await Fixture.open();
    const stop = new AbortController();
    fixture.hub.script = [{ stallAfter: 7000 }];
    const pull = fixture.store().pull(NAME, {
      signal: stop.signal,
      onProgress: ({ receivedBytes }) => receivedBytes > 0 && stop.abort(new Error('enough')),
    });
    await assert.rejects(pull, { message: 'enough' });
    assert.equal((await stat(`${fixture.file}.part`)).size, 7000);
    await fixture.store().pull(NAME);
    assert.equal(fixture.hub.fetches.at(-1)?.range, 'bytes=7000-');
  });

  it('does not start if it was aborted before', async () => {
    await using fixture = await Fixture.open();
    await assert.rejects(fixture.store().pull(NAME, { signal: AbortSignal.abort(new Error('never')) }), {
      message: 'never',
    });
    assert.equal(fixture.hub.requests.length, 0);
  });
});

describe('concurrent pulls', () => {
  const scripts: readonly (readonly [string, StoreBehavior[]])[] = [
    ['without interruption', []],
    ['with a lost connection', [{ cutAfter: 1000 }]],
  ];
  for (const [name, script] of scripts) {
    it(`of one store share a download, ${name}`, async () => {
      await using fixture = await Fixture.open();
      fixture.hub.script = [...script];
      const store = fixture.store();
      const [one, two] = await Promise.all([store.pull(NAME), store.pull(NAME)]);
      assert.deepEqual(one, two);
      assert.equal(fixture.hub.requests.filter(({ method }) => method === 'HEAD').length, 1);
    });
  }

  it('of two stores share a download and its progress', async () => {
    await using fixture = await Fixture.open();
    const gate = Promise.withResolvers<void>();
    fixture.hub.script = [{ waitFor: gate.promise }];
    const onProgress: OnProgress = (progress) => {
      fixture.onProgress(progress);
      if (progress.phase === 'waiting') gate.resolve();
    };
    const first = fixture.store().pull(NAME, { onProgress });
    const second = fixture.store().pull(NAME, { onProgress });
    assert.deepEqual((await first).sha256, (await second).sha256);
    assert.equal(fixture.hub.fetches.length, 1);
    assert(fixture.progress.some(({ phase }) => phase === 'waiting'));
  });

  it('stop when all are aborted at once', async () => {
    await using fixture = await Fixture.open();
    fixture.hub.script = [{ stallAfter: 1000 }];
    const store = fixture.store();
    const stop = new AbortController();
    const started = Promise.withResolvers<void>();
    const onProgress: OnProgress = ({ receivedBytes }) => receivedBytes > 0 && started.resolve();
    const pulls = [1, 2, 3].map(() => store.pull(NAME, { signal: stop.signal, onProgress }));
    await started.promise;
    stop.abort(new Error('shutdown'));
    await Promise.all(pulls.map((pull) => assert.rejects(pull, { message: 'shutdown' })));
    // The download has released the lock of the file.
    assert.deepEqual(await store.remove(NAME), [fixture.file]);
  });

  it('continue when one is aborted', async () => {
    await using fixture = await Fixture.open();
    const gate = Promise.withResolvers<void>();
    fixture.hub.script = [{ waitFor: gate.promise }];
    const store = fixture.store();
    const stop = new AbortController();
    const aborted = store.pull(NAME, { signal: stop.signal });
    const other = store.pull(NAME);
    stop.abort(new Error('gone'));
    await assert.rejects(aborted, { message: 'gone' });
    gate.resolve();
    assert.equal((await other).file, fixture.file);
    assert.equal(fixture.hub.fetches.length, 1);
  });
});

describe('a split model', () => {
  it('is available when all its files are', async () => {
    await using fixture = await Fixture.open();
    const parts = [1, 2, 3].map((number) => `big-0000${number}-of-00003.gguf`);
    for (const part of parts) fixture.hub.files.set(`q8/${part}`, BYTES);
    const name = `hf:owner/repo/q8/${parts[1]}`;
    const store = fixture.store();
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
    assert.equal(fixture.hub.fetches.length, 4);
    assert.equal((await store.remove(name)).length, 3);
    assert.deepEqual(await fixture.names(), []);
  });
});
