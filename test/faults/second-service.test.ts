import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Finding } from '../../src/commands/doctor.ts';
import { DatabaseError } from '../../src/database/errors.ts';
import {
  openService,
  runCli,
  spawnCli,
  spawnService,
  temporaryFolder,
  until,
  type ServiceProcess,
} from '../harness.ts';
import { testDatabases, withoutPostgres } from '../support/servers.ts';

const UTC = '\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z';

const isReady = (url: string) => async () => (await fetch(`${url}/readyz`)).status === 200;

/** Asserts that a service with this environment cannot start because of a running one. */
async function assertRefused(env: NodeJS.ProcessEnv, { child, url, home }: ServiceProcess): Promise<void> {
  const found = `process ${child.pid}, ${url}, started ${UTC}\\.`;
  const message = `^Another service is running on the data directory ${home}: ${found}\nStop it, or set SLUICE_HOME`;
  await using services = new AsyncDisposableStack();
  const starting = spawnService(undefined, env).then((service) => services.use(service));
  await assert.rejects(starting, (error) => {
    assert.match(String(error), /^Error: the service ended with 1:/);
    assert.match(String(error), new RegExp(message, 'm'));
    return true;
  });
}

describe('a running service', () => {
  let first: ServiceProcess;
  let owned: AsyncDisposable;
  const refusals: string[] = [];
  before(async () => {
    await using services = new AsyncDisposableStack();
    const { path } = services.use(await temporaryFolder());
    const env = { SLUICE_HOME: join(path, 'home') };
    const started = await Promise.allSettled(Array.from({ length: 3 }, () => spawnService(undefined, env)));
    for (const result of started) {
      if (result.status === 'fulfilled') first = { ...services.use(result.value), home: env.SLUICE_HOME };
      else refusals.push(String(result.reason));
    }
    owned = services.move();
  });
  after(() => owned[Symbol.asyncDispose]());

  test('is the only one if several services start on a data directory at the same time', () => {
    assert.equal(refusals.length, 2);
    for (const reason of refusals) assert.match(reason, /Another service is running on the data directory/);
  });

  test('refuses a second service on its data directory, and commands work while it is running', async () => {
    await assertRefused({ SLUICE_HOME: first.home }, first);

    const created = await runCli(['keys', 'create', '--name', 'beside', '--kind', 'admin'], first.env);
    assert.equal(created.code, 0, created.stderr);
    await until(isReady(first.url));
    const setup = await runCli(['setup-link'], { ...first.env, SLUICE_PORT: '9' });
    assert.ok(setup.stdout.startsWith(`${first.url}/`), 'the link has the port of the running service');
    const models = await fetch(`${first.url}/v1/models`, {
      headers: { Authorization: `Bearer ${created.stdout.trim()}` },
    });
    assert.equal(models.status, 200, 'the running service accepts the key');
    const { stdout } = await runCli(['doctor', '--json'], first.env);
    const findings: Finding[] = JSON.parse(stdout);
    const running = findings.find(({ subject }) => subject === 'service');
    assert.match(
      running?.found ?? '',
      new RegExp(`^running: process ${first.child.pid}, ${first.url}, started `),
    );
  });

  test('refuses a second service on its port with another data directory, with its URL', async () => {
    const { port } = new URL(first.url);
    await using folder = await temporaryFolder();
    // The options override the variables of the first service.
    const flags = ['--home', join(folder.path, 'home'), '--port', port];
    const { code, stderr } = await spawnCli(['serve', ...flags], first.env);
    assert.equal(
      stderr,
      `Sluice is already running on ${first.url}. Stop it, or set SLUICE_PORT to a free port, or to 0 to pick one.\n`,
    );
    assert.equal(code, 1);
  });
});

test('a killed service does not block the next one, even if a new process has its process ID', async () => {
  await using folder = await temporaryFolder();
  const env = { SLUICE_HOME: join(folder.path, 'home') };
  await using first = await spawnService(undefined, env);
  first.child.kill('SIGKILL');
  assert.equal(await first.ended, 'SIGKILL');
  const details = join(env.SLUICE_HOME, 'service.json');
  const stale = JSON.parse(await readFile(details, 'utf8'));
  assert.equal(stale.pid, first.child.pid);
  await writeFile(details, JSON.stringify({ ...stale, pid: process.pid }));

  await using second = await spawnService(undefined, env);
  await assertRefused(env, { ...second, home: env.SLUICE_HOME });
  second.child.kill('SIGTERM');
  assert.equal(await second.ended, 0);
  assert.equal(existsSync(details), false, 'a service that stops removes its details');
});

test('a second service with the same process ID, as in containers, is refused until the first stops', async () => {
  await using folder = await temporaryFolder();
  const env = { SLUICE_HOME: join(folder.path, 'home') };
  await using services = new AsyncDisposableStack();
  const open = async () => services.use(await openService(undefined, env));
  const first = await open();
  for (const attempt of ['second', 'third']) {
    await assert.rejects(open(), (error) => {
      assert.ok(error instanceof DatabaseError && error.fault === 'in_use', attempt);
      return error.message.includes(first.url);
    });
  }
  await first[Symbol.asyncDispose]();
  await open();
});

test('instances on PostgreSQL can share a data directory', { skip: withoutPostgres }, async () => {
  const [, postgres] = testDatabases();
  await using location = await postgres!.location();
  await using first = await openService(undefined, location.env);
  await using second = await openService(undefined, location.env);
  for (const { url } of [first, second]) await until(isReady(url));
});
