import { fork } from 'node:child_process';
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { defaultHome, HomeError, homeOf, prepareHome } from '../../src/config/home.ts';

const folder = mkdtempSync(join(tmpdir(), 'sluice-home-'));
after(() => rmSync(folder, { recursive: true }));
const mode = (path: string): number => statSync(path).mode & 0o7777;

test('the default data directory is where the platform keeps application data', () => {
  assert.equal(defaultHome({ HOME: '/home/ada' }, 'linux'), '/home/ada/.local/share/sluice');
  assert.equal(defaultHome({ HOME: '/home/ada', XDG_DATA_HOME: '/data' }, 'linux'), '/data/sluice');
  assert.equal(
    defaultHome({ HOME: '/home/ada', XDG_DATA_HOME: 'data' }, 'linux'),
    '/home/ada/.local/share/sluice',
  );
  assert.equal(
    defaultHome({ HOME: '/Users/ada' }, 'darwin'),
    '/Users/ada/Library/Application Support/Sluice',
  );
  assert.ok(defaultHome({}, 'linux').startsWith(homedir()));
  assert.equal(homeOf({ SLUICE_HOME: 'x' }), join(process.cwd(), 'x'));
});

test('the data directory is created with its parents, accessible only to its owner', async () => {
  const home = join(folder, 'a', 'b');
  await prepareHome(home);
  assert.equal(mode(home), 0o700);
  await prepareHome(home);
});

test('a data directory that others can read is restricted to its owner and keeps its files', async () => {
  const home = join(folder, 'wide');
  mkdirSync(home);
  chmodSync(home, 0o755);
  writeFileSync(join(home, 'x'), 'x');
  await prepareHome(home);
  assert.equal(mode(home), 0o700);
  assert.ok(statSync(join(home, 'x')).isFile());
});

test('a shared directory is refused and not changed', async () => {
  const shared = join(folder, 'shared');
  mkdirSync(shared);
  chmodSync(shared, 0o1777);
  await assert.rejects(
    prepareHome(shared),
    /^HomeError: Cannot use the data directory .*: it is shared with other programs, and Sluice needs one of its own\. Set SLUICE_HOME/,
  );
  assert.equal(mode(shared), 0o1777);
  await assert.rejects(prepareHome('/'), HomeError);
});

test('a file at the path of the data directory or a parent is refused with the reason', async () => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  await assert.rejects(
    prepareHome(file),
    /Cannot use the data directory .*file: it cannot be created \(a file with this name exists\)/,
  );
  await assert.rejects(prepareHome(join(file, 'home')), /\(part of the path is a file\)/);
});

/** Runs `prepareHome` as an unprivileged user and resolves with its result. */
async function prepareUnprivileged(home: string): Promise<unknown> {
  const child = fork(join(import.meta.dirname, 'home-child.ts'), [home]);
  const [result]: unknown[] = await once(child, 'message');
  return result;
}

const giveAway = (path: string): void =>
  process.getuid?.() === 0 ? chownSync(path, 65_534, 65_534) : undefined;

test('a directory that cannot be written, created or restricted is refused with the reason', async () => {
  giveAway(folder);
  const home = join(folder, 'locked');
  mkdirSync(home, { mode: 0o500 });
  giveAway(home);
  assert.match(
    String(await prepareUnprivileged(home)),
    /Cannot use the data directory .*locked: it is not writable \(permission denied\)/,
  );
  assert.match(
    String(await prepareUnprivileged(join(home, 'in'))),
    /it cannot be created \(permission denied\)/,
  );
  assert.match(
    String(await prepareUnprivileged('/usr')),
    /other users can read it and its permissions cannot be changed/,
  );
});

const noProc = process.platform !== 'linux' && 'only Linux has /proc';

test('a path in /proc is refused immediately', { skip: noProc }, async () => {
  await assert.rejects(
    prepareHome('/proc/sluice/home'),
    /it cannot be created \(directories cannot be created there\)/,
  );
});
