import assert from 'node:assert/strict';
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { test } from 'node:test';
import { scripted } from '../src/engine/scripted/options.ts';
import { VERSION } from '../src/version.ts';
import { chat, run, runCli, scriptedYaml, temporaryFolder, until } from './harness.ts';

/** What `npx sluice` runs. */
const COMMAND = join(import.meta.dirname, '..', 'runtime', 'sluice.js');

interface Started extends AsyncDisposable {
  npm: ChildProcess;
  url: string;
  env: NodeJS.ProcessEnv;
  /** Resolves when npm and all that it started have ended: the last of them closes the pipe. */
  closed: Promise<unknown[]>;
}

/** `npm start` as the leader of a process group, as a shell on a terminal starts it. */
async function npmStart(): Promise<Started> {
  await using owned = new AsyncDisposableStack();
  const { path: folder } = owned.use(await temporaryFolder());
  const config = join(folder, 'sluice.yaml');
  await writeFile(config, scriptedYaml({}, 'logLevel: silent\n'));
  const home = join(folder, 'home');
  const env = { ...process.env, SLUICE_HOME: home, SLUICE_PORT: '0', SLUICE_CONFIG: config };
  const npm = spawn('npm', ['start'], { env, detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
  const closed = once(npm, 'close');
  owned.defer(async () => {
    // The group is gone where the test went well.
    if (npm.pid !== undefined) spawn('kill', ['-KILL', '--', `-${npm.pid}`], { stdio: 'ignore' });
    await closed;
  });
  const url = await new Promise<string>((resolve, reject) => {
    createInterface({ input: npm.stdout }).on('line', (line) => {
      const listens = /is listening on (\S+)/.exec(line)?.[1];
      if (listens !== undefined) resolve(listens);
    });
    void closed.then(() => reject(new Error('it ended')));
  });
  await until(async () => (await fetch(`${url}/readyz`)).ok);
  const kept = owned.move();
  return { npm, url, env, closed, [Symbol.asyncDispose]: () => kept.disposeAsync() };
}

/** Begins a stream that takes a second, signals, and asserts that the stream is whole and all has ended. */
async function assertDrains(started: Started, signal: (pid: number) => void): Promise<void> {
  const { npm, url, env, closed } = started;
  const { stdout } = await runCli(['keys', 'create', '--name', 'test', '--json'], env);
  const { key } = JSON.parse(stdout) as { key: string };
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(chat(scripted({ tokens: 100, tokenMs: 10 }), { stream: true })),
  });
  assert.ok(npm.pid !== undefined);
  signal(npm.pid);
  const text = await answer.text();
  assert.match(text, /"finish_reason":"stop"[^\n]*\n\ndata: \[DONE\]\n\n$/);
  await closed;
}

test('npm start ends politely at Ctrl-C, which npm tells the service of once more', async () => {
  await using started = await npmStart();
  await assertDrains(started, (pid) => process.kill(-pid, 'SIGINT'));
});

test('npm start ends politely when npm alone is told to', async () => {
  await using started = await npmStart();
  await assertDrains(started, (pid) => process.kill(pid, 'SIGTERM'));
});

test('npx sluice runs the program of the clone and exits with its code', async () => {
  await using folder = await temporaryFolder();
  const env = { ...process.env, npm_config_loglevel: 'silent', npm_config_cache: folder.path };
  const version = await run('npx', ['--no-install', 'sluice', '--version'], env);
  assert.deepEqual([version.code, version.stdout], [0, `${VERSION}\n`]);
  const unknown = await run('npx', ['--no-install', 'sluice', 'nonsense'], env);
  assert.equal(unknown.code, 2);
  assert.match(unknown.stderr, /unknown command 'nonsense'/);
});

test('the command passes SIGTERM to the service and exits as it does', async () => {
  await using folder = await temporaryFolder();
  const config = join(folder.path, 'sluice.yaml');
  await writeFile(config, scriptedYaml({}, 'logLevel: silent\n'));
  const env = {
    ...process.env,
    SLUICE_HOME: join(folder.path, 'home'),
    SLUICE_PORT: '0',
    SLUICE_CONFIG: config,
  };
  using child = spawn(COMMAND, ['serve'], { env, stdio: ['ignore', 'pipe', 'ignore'] });
  const closed = once(child, 'close');
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('is listening on')) break;
  }
  child.stdout.resume();
  child.kill('SIGTERM');
  assert.deepEqual(await closed, [0, null]);
});
