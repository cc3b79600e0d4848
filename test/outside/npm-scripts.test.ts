import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { scripted } from '../support/scripted-engine/directive.ts';
import { REGISTER } from '../support/scripted-engine/options.ts';
import { VERSION } from '../../src/support/version.ts';
import { chat, listeningUrl, run, runCli, scriptedYaml, temporaryFolder, until } from '../harness.ts';

/** Adds the scripted engine to the programs that npm starts. */
const NODE_OPTIONS = `--import "${REGISTER}"`;

/** The file that `npx sluice` runs. */
const COMMAND = join(import.meta.dirname, '..', '..', 'runtime', 'sluice.js');

interface NpmService extends AsyncDisposable {
  npm: ChildProcess;
  url: string;
  env: NodeJS.ProcessEnv;
  /** Resolves when npm and its child processes, which share the pipe, have ended. */
  closed: Promise<unknown[]>;
}

/** Runs `npm start` as the leader of a process group, as a terminal does. */
async function npmStart(inherited: NodeJS.ProcessEnv = process.env): Promise<NpmService> {
  await using owned = new AsyncDisposableStack();
  const { path: folder } = owned.use(await temporaryFolder());
  const config = join(folder, 'sluice.yaml');
  await writeFile(config, scriptedYaml({}, 'logLevel: silent\n'));
  const home = join(folder, 'home');
  const env = { ...inherited, NODE_OPTIONS, SLUICE_HOME: home, SLUICE_PORT: '0', SLUICE_CONFIG: config };
  const npm = spawn('npm', ['start'], { env, detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  const closed = once(npm, 'close');
  owned.defer(async () => {
    try {
      if (npm.pid !== undefined) process.kill(-npm.pid, 'SIGKILL');
    } catch {
      // After a successful test, no process of the group is left.
    }
    await closed;
  });
  const url = await listeningUrl(npm);
  await until(async () => (await fetch(`${url}/readyz`)).ok);
  const kept = owned.move();
  return { npm, url, env, closed, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Asserts that after a signal, a running stream completes and all processes end. */
async function assertDrains(service: NpmService, signal: (pid: number) => void): Promise<void> {
  const { npm, url, env, closed } = service;
  const { stdout } = await runCli(['keys', 'create', '--name', 'test', '--json'], env);
  const { key } = JSON.parse(stdout) as { key: string };
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(chat(scripted({ tokens: 100, tokenMs: 10 }), { stream: true })),
  });
  assert.ok(npm.pid !== undefined);
  signal(npm.pid);
  const text = await response.text();
  assert.match(text, /"finish_reason":"stop"[^\n]*\n\ndata: \[DONE\]\n\n$/);
  await closed;
}

test('npm start lets running requests finish after Ctrl-C, a signal that npm forwards to the service again', async () => {
  await using service = await npmStart();
  await assertDrains(service, (pid) => process.kill(-pid, 'SIGINT'));
});

test('npm start lets running requests finish after a SIGTERM to npm only, as sent by a container runtime, and keeps compiled code for the next start', async () => {
  {
    await using service = await npmStart({ ...process.env, NODE_COMPILE_CACHE: '' });
    await assertDrains(service, (pid) => process.kill(pid, 'SIGTERM'));
  }
  const modules = join(import.meta.dirname, '..', '..', 'node_modules');
  assert.notDeepEqual(await readdir(join(modules, '.cache', 'compiled')), []);
});

test('npx sluice runs the program in a clone and exits with its code', async () => {
  await using folder = await temporaryFolder();
  const env = { ...process.env, npm_config_loglevel: 'silent', npm_config_cache: folder.path };
  const version = await run('npx', ['--no-install', 'sluice', '--version'], env);
  assert.deepEqual([version.code, version.stdout], [0, `${VERSION}\n`]);
  const unknown = await run('npx', ['--no-install', 'sluice', 'nonsense'], env);
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /unknown command 'nonsense'/);
});

test('npx sluice forwards SIGTERM to the service and exits with its code', async () => {
  await using folder = await temporaryFolder();
  const config = join(folder.path, 'sluice.yaml');
  await writeFile(config, scriptedYaml({}, 'logLevel: silent\n'));
  const env = {
    ...process.env,
    NODE_OPTIONS,
    SLUICE_HOME: join(folder.path, 'home'),
    SLUICE_PORT: '0',
    SLUICE_CONFIG: config,
  };
  using child = spawn(COMMAND, ['serve'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const closed = once(child, 'close');
  await listeningUrl(child);
  child.kill('SIGTERM');
  assert.deepEqual(await closed, [0, null]);
});
