import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir, readdir, realpath, statfs, symlink, truncate, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import {
  choosePlace,
  createOwn,
  deleteAbandoned,
  openStoreDirectory,
  type StoreSettings,
} from '../../../src/engine/llama/conversations/store-directory.ts';
import { SILENT } from '../../../src/support/log.ts';
import { temporaryFolder } from '../../harness.ts';

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/** Chooses a place on a machine with these free bytes. `ram`: of the RAM disk; null: there is none. */
async function choose(ram: number | null, disk: number, more: Partial<StoreSettings> = {}) {
  await using folder = await temporaryFolder();
  const settings = {
    bytes: null,
    directory: null,
    diskDirectory: folder.path,
    keep: false,
    maxPauseMs: 10_000,
    ...more,
  };
  const place = await choosePlace(settings, async (directory) => {
    const bytes = directory === '/dev/shm' ? ram : disk;
    return await Promise.resolve(bytes === null ? null : { bytes, inMemory: directory === '/dev/shm' });
  });
  return (
    place && { onDisk: place.directory === (await realpath(folder.path)), mib: Math.round(place.bytes / MIB) }
  );
}

test('a RAM disk with room is used, up to a tenth of it', async () => {
  const place = await choose(1000 * MIB, GIB);
  assert.deepEqual(place, { onDisk: false, mib: 100 });
});

test('without a RAM disk, or with one that is too small, the data directory is used', async () => {
  for (const ram of [null, 64 * MIB, 639 * MIB])
    assert.deepEqual(await choose(ram, 20 * GIB), { onDisk: true, mib: 2048 });
});

test('on a disk, at most 4 GiB are used unless the operator sets more, and never more than is free', async () => {
  assert.deepEqual(await choose(null, 500 * GIB), { onDisk: true, mib: 4096 });
  assert.deepEqual(await choose(null, 500 * GIB, { bytes: 8 * GIB }), { onDisk: true, mib: 8192 });
  assert.deepEqual(await choose(null, 3 * GIB, { bytes: 8 * GIB }), { onDisk: true, mib: 3072 });
});

test('a RAM disk without room for what the operator set is not used', async () => {
  assert.deepEqual(await choose(GIB, 20 * GIB, { bytes: 2 * GIB }), { onDisk: true, mib: 2048 });
  assert.deepEqual(await choose(4 * GIB, 20 * GIB, { bytes: 2 * GIB }), { onDisk: false, mib: 2048 });
});

test('without room anywhere, nothing is kept', async () => {
  assert.equal(await choose(64 * MIB, 100 * MIB), null);
});

test("the operator's directory is used, even if it is small", async () => {
  await using folder = await temporaryFolder();
  const place = await choosePlace(
    { bytes: 10 * MIB, directory: folder.path, diskDirectory: '/nowhere', keep: false, maxPauseMs: 10_000 },
    async () => await Promise.resolve({ bytes: 100 * MIB, inMemory: false }),
  );
  assert.deepEqual(place, { directory: await realpath(folder.path), bytes: 10 * MIB, inMemory: false });
});

test('a symbolic link of another user does not lead to files that would be deleted', async () => {
  await using folder = await temporaryFolder();
  const [target, link] = [join(folder.path, 'target'), join(folder.path, 'link')];
  await mkdir(target);
  await symlink(target, link);
  await assert.rejects(createOwn(link), /is not a directory/);
  await createOwn(target);
  await createOwn(join(folder.path, 'new'));
});

test("the operator's directory can be a symbolic link", async () => {
  await using folder = await temporaryFolder();
  const [target, link] = [join(folder.path, 'target'), join(folder.path, 'link')];
  await mkdir(target);
  await symlink(target, link);
  const settings = { bytes: MIB, directory: link, diskDirectory: link, keep: false, maxPauseMs: 10_000 };
  await using directory = await openStoreDirectory(settings, 'model', SILENT);
  assert(directory?.path.startsWith(await realpath(target)));
});

test('a directory of the operator whose name looks like that of an engine is not deleted', async () => {
  await using folder = await temporaryFolder();
  await mkdir(join(folder.path, 'engine-logs'));
  await writeFile(join(folder.path, 'engine-logs', 'log'), 'text');
  const settings = {
    bytes: MIB,
    directory: folder.path,
    diskDirectory: folder.path,
    keep: false,
    maxPauseMs: 10_000,
  };
  await using _ = await openStoreDirectory(settings, 'model', SILENT);
  assert.deepEqual(await readdir(join(folder.path, 'engine-logs')), ['log']);
});

test('what killed engines have left is deleted in every directory of the settings, but not what is used or kept', async () => {
  await using folder = await temporaryFolder();
  const [directory, diskDirectory] = [join(folder.path, 'set'), join(folder.path, 'disk')];
  const settings = { bytes: MIB, directory, diskDirectory, keep: true, maxPauseMs: 10_000 };
  await using used = await openStoreDirectory({ ...settings, keep: false }, 'model', SILENT);
  assert(used !== null);
  for (const path of [directory, diskDirectory])
    for (const name of ['engine-killed', 'engine-kept-model']) {
      await mkdir(join(path, name), { recursive: true });
      await writeFile(join(path, name, 'lock'), '');
      await writeFile(join(path, name, '1.state'), '');
    }
  await deleteAbandoned(settings);
  assert.deepEqual(await readdir(diskDirectory), ['engine-kept-model', 'lock']);
  const kept = [basename(used.path), 'engine-kept-model', 'lock'].toSorted();
  assert.deepEqual((await readdir(directory)).toSorted(), kept);
  await deleteAbandoned({ ...settings, keep: false });
  assert.deepEqual(await readdir(diskDirectory), ['lock']);
});

test('what an engine has kept does not take its room from it after a restart, nor do its leftovers', async () => {
  await using folder = await temporaryFolder();
  // More than is free beside it.
  const { bavail, bsize } = await statfs(folder.path);
  const bytes = bavail * bsize + 32 * GIB;
  const settings = {
    bytes,
    directory: folder.path,
    diskDirectory: folder.path,
    keep: true,
    maxPauseMs: 10_000,
  };
  const open = async (engine: string) => {
    await using opened = await openStoreDirectory(settings, engine, SILENT);
    assert(opened !== null);
    return { path: opened.path, maxBytes: opened.maxBytes };
  };
  const { path } = await open('model');
  // An engine that is killed when it has just started leaves this file.
  await writeFile(join(path, 'probe'), '');
  // A file with a hole has a size and takes no room.
  await writeFile(join(path, '0.state'), '');
  await truncate(join(path, '0.state'), 64 * GIB);
  assert.equal((await open('model')).maxBytes, bytes);
  assert((await open('other')).maxBytes < bytes);
});

test('a directory that is not kept is deleted when its process exits early', async () => {
  await using folder = await temporaryFolder();
  const settings = {
    bytes: MIB,
    directory: folder.path,
    diskDirectory: folder.path,
    keep: false,
    maxPauseMs: 1,
  };
  const script = `
    import { openStoreDirectory } from ${JSON.stringify(import.meta.resolve('../../../src/engine/llama/conversations/store-directory.ts'))};
    const { path } = await openStoreDirectory(${JSON.stringify(settings)}, 'model', { info() {} });
    process.stdout.write(path, () => process.exit());`;
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', script]);
  assert(stdout.startsWith(await realpath(folder.path)));
  assert.deepEqual(await readdir(folder.path), ['lock']);
});

test('what is left in the directory and cannot be deleted does not keep an engine from its own', async () => {
  await using folder = await temporaryFolder();
  // A file, and a directory whose lock cannot be taken, like one that another engine is just deleting.
  await writeFile(join(folder.path, 'engine-file'), '');
  await mkdir(join(folder.path, 'engine-other', 'lock'), { recursive: true });
  const settings = {
    bytes: MIB,
    directory: folder.path,
    diskDirectory: folder.path,
    keep: false,
    maxPauseMs: 10_000,
  };
  {
    await using directory = await openStoreDirectory(settings, 'model', SILENT);
    assert(directory !== null);
  }
  assert.deepEqual((await readdir(folder.path)).toSorted(), ['engine-file', 'engine-other', 'lock']);
});
